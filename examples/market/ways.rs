//! The three ways, side by side. Each makes the same two moves of `stall`; they differ in what
//! prevents changes between reading and writing.
//!
//! A lock excludes only those who take the same lock, so *every* writer has to take it. A purchase
//! also reads the buyer's funds: the one lock `market` covers them, a lock per item does not. Here
//! a buyer is one task, so its purchases follow each other; a buyer with several tasks would need a
//! lock of its own beside the item's.

use dlock_runtime::{Config, LockPool, distributed_lock};

use super::error::MarketError;
use super::goods::{Buying, Listing, Offer, User};
use super::stall::{Stall, Watch};

/// A participant that lists and buys in one of the ways. `None`: a concurrent move prevented it,
/// nothing was changed, and it may be tried again.
pub(crate) trait Way: Send + Sized + 'static {
    const NAME: &'static str;

    fn open(stall: Stall, config: Config)
    -> impl Future<Output = Result<Self, MarketError>> + Send;

    fn stall(&mut self) -> &mut Stall;

    fn list(
        &mut self,
        offer: Offer,
    ) -> impl Future<Output = Result<Option<Listing>, MarketError>> + Send;

    fn buy(
        &mut self,
        buyer: User,
        offer: Offer,
    ) -> impl Future<Output = Result<Option<Buying>, MarketError>> + Send;
}

/// Reads, and lets Redis refuse the write if anything that was read has changed, so also when any
/// offer comes or goes.
pub(crate) struct Optimistic(Stall);

impl Way for Optimistic {
    const NAME: &'static str = "WATCH/MULTI/EXEC";

    async fn open(stall: Stall, _: Config) -> Result<Self, MarketError> {
        Ok(Self(stall))
    }

    fn stall(&mut self) -> &mut Stall {
        &mut self.0
    }

    async fn list(&mut self, offer: Offer) -> Result<Option<Listing>, MarketError> {
        self.0.list(Watch::Yes, &offer).await
    }

    async fn buy(&mut self, buyer: User, offer: Offer) -> Result<Option<Buying>, MarketError> {
        self.0.buy(Watch::Yes, buyer, &offer).await
    }
}

/// One lock for the whole market.
pub(crate) struct Coarse {
    stall: Stall,
    locks: LockPool,
}

impl Way for Coarse {
    const NAME: &'static str = "one lock";

    async fn open(stall: Stall, config: Config) -> Result<Self, MarketError> {
        let locks = LockPool::connect(config).await?;
        Ok(Self { stall, locks })
    }

    fn stall(&mut self) -> &mut Stall {
        &mut self.stall
    }

    #[distributed_lock(key = "market", ttl = "10s", wait = "5s", pool = self.locks)]
    async fn list(&mut self, offer: Offer) -> Result<Option<Listing>, MarketError> {
        self.stall.list(Watch::No, &offer).await
    }

    #[distributed_lock(key = "market", ttl = "10s", wait = "5s", pool = self.locks)]
    async fn buy(&mut self, buyer: User, offer: Offer) -> Result<Option<Buying>, MarketError> {
        self.stall.buy(Watch::No, buyer, &offer).await
    }
}

/// One lock for each item: only moves of the same item wait for each other.
pub(crate) struct PerItem {
    stall: Stall,
    locks: LockPool,
}

impl Way for PerItem {
    const NAME: &'static str = "lock per item";

    async fn open(stall: Stall, config: Config) -> Result<Self, MarketError> {
        let locks = LockPool::connect(config).await?;
        Ok(Self { stall, locks })
    }

    fn stall(&mut self) -> &mut Stall {
        &mut self.stall
    }

    #[distributed_lock(key = "item:<offer.id>", ttl = "10s", wait = "5s", pool = self.locks)]
    async fn list(&mut self, offer: Offer) -> Result<Option<Listing>, MarketError> {
        self.stall.list(Watch::No, &offer).await
    }

    #[distributed_lock(key = "item:<offer.id>", ttl = "10s", wait = "5s", pool = self.locks)]
    async fn buy(&mut self, buyer: User, offer: Offer) -> Result<Option<Buying>, MarketError> {
        self.stall.buy(Watch::No, buyer, &offer).await
    }
}
