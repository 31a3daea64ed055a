//! The market under a raw lock for each item, as the book builds it: a client that finds the lock
//! taken tries again after a millisecond.

use std::time::Duration;

use dlock_runtime::Config;
use tokio::time::sleep;

use super::example::error::MarketError;
use super::example::goods::{Buying, Item, Listing, Offer, User};
use super::example::stall::{Stall, Watch};
use super::example::ways::Way;
use crate::contenders::TTL;
use crate::contenders::raw::{Raw, Token};

const PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct RawPerItem {
    stall: Stall,
    raw: Raw,
    /// The prefix of this run's lock keys.
    prefix: String,
}

impl RawPerItem {
    /// `None` if the lock was taken; then the pause is over.
    async fn lock(&mut self, item: Item) -> Result<Option<(String, Token)>, MarketError> {
        let key = format!("{}item:{item}", self.prefix);
        let token = self.raw.try_acquire(&key).await?;
        if token.is_none() {
            sleep(PAUSE).await;
        }
        Ok(token.map(|token| (key, token)))
    }
}

impl Way for RawPerItem {
    const NAME: &'static str = "raw lock per item";

    /// The locks use the market's own connection, which costs least.
    async fn open(mut stall: Stall, _: Config) -> Result<Self, MarketError> {
        let raw = Raw::on(stall.redis().clone(), TTL).await?;
        let prefix = stall.market().namespace();
        Ok(Self { stall, raw, prefix })
    }

    fn stall(&mut self) -> &mut Stall {
        &mut self.stall
    }

    async fn list(&mut self, offer: Offer) -> Result<Option<Listing>, MarketError> {
        let Some((key, token)) = self.lock(offer.id).await? else {
            return Ok(None);
        };
        let listed = self.stall.list(Watch::No, &offer).await;
        self.raw.release(&key, &token).await?;
        listed
    }

    async fn buy(&mut self, buyer: User, offer: Offer) -> Result<Option<Buying>, MarketError> {
        let Some((key, token)) = self.lock(offer.id).await? else {
            return Ok(None);
        };
        let bought = self.stall.buy(Watch::No, buyer, &offer).await;
        self.raw.release(&key, &token).await?;
        bought
    }
}
