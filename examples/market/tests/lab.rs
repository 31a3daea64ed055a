//! A private server, a market on it, and a way without exclusion.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dlock_harness::RedisServer;
use dlock_runtime::Config;

use crate::audit::{self, Violation};
use crate::error::MarketError;
use crate::goods::{Buying, Cents, Item, Listing, Offer, Sale, User};
use crate::load::{Place, Size};
use crate::stall::{Market, Stall, Watch};
use crate::ways::Way;

pub(crate) const SELLER: User = User(0);
pub(crate) const ANN: User = User(1);
pub(crate) const BOB: User = User(2);

pub(crate) const PRICE: Cents = Cents(500);

/// A server, and a market with one seller and two buyers.
pub(crate) struct Lab {
    pub(crate) server: RedisServer,
    pub(crate) market: Market,
    pub(crate) stall: Stall,
    pub(crate) size: Size,
}

impl Lab {
    pub(crate) async fn start() -> Self {
        let (server, market) = (RedisServer::start(), Market::new());
        let mut stall = Stall::open(&server.url(), &market).await.unwrap();
        let size = Size::new(1, 2);
        audit::endow(&mut stall, size).await.unwrap();
        Self {
            server,
            market,
            stall,
            size,
        }
    }

    pub(crate) async fn join<W: Way>(&self) -> W {
        let stall = Stall::open(&self.server.url(), &self.market).await.unwrap();
        W::open(stall, self.locks()).await.unwrap()
    }

    pub(crate) fn locks(&self) -> Config {
        Config::new(self.server.url()).namespace(self.market.namespace())
    }

    /// An item that is on the market at [`PRICE`].
    pub(crate) async fn offer(&mut self) -> Offer {
        let offer = self.in_stock().await;
        let listing = self.stall.list(Watch::No, &offer).await.unwrap();
        assert_eq!(listing, Some(Listing::Listed));
        offer
    }

    /// An item that the seller has and does not offer.
    pub(crate) async fn in_stock(&mut self) -> Offer {
        let id = self.stall.stock(SELLER, 1).await.unwrap().start;
        Offer {
            id: Item(id),
            seller: SELLER,
            price: PRICE,
        }
    }

    pub(crate) async fn audit(&mut self, sales: &[Sale]) -> Vec<Violation> {
        let found = audit::audit(&mut self.stall, self.size, sales).await;
        found.unwrap().0
    }
}

pub(crate) fn place(server: &RedisServer, length: Duration) -> Place {
    Place {
        url: server.url(),
        locks: Config::new(server.url()),
        length,
        told: Arc::new(AtomicBool::new(false)),
    }
}

/// Reads, pauses, and writes, as a program without a lock does.
pub(crate) struct Careless(Stall);

/// Long enough for others to read the same thing.
const ITS_TIME: Duration = Duration::from_millis(2);

impl Way for Careless {
    const NAME: &'static str = "no lock";

    async fn open(stall: Stall, _: Config) -> Result<Self, MarketError> {
        Ok(Self(stall))
    }

    fn stall(&mut self) -> &mut Stall {
        &mut self.0
    }

    async fn list(&mut self, offer: Offer) -> Result<Option<Listing>, MarketError> {
        self.0.list(Watch::No, &offer).await
    }

    async fn buy(&mut self, buyer: User, offer: Offer) -> Result<Option<Buying>, MarketError> {
        let may = self.0.may_buy(Watch::No, buyer, &offer).await?;
        if may == Buying::Bought {
            tokio::time::sleep(ITS_TIME).await;
            self.0.settle(buyer, &offer).await?;
        }
        Ok(Some(may))
    }
}
