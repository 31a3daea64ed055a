//! The marketplace in Redis, as in "Redis in Action" 6.1, and one participant's connection to it.
//!
//! `…:market` is a sorted set of `item.seller` by price, `…:users:N` a hash with the user's
//! `funds`, `…:inventory:N` the set of items that the user has and does not offer. A move is two
//! round trips: read everything, then write everything in one MULTI/EXEC. This file takes no lock,
//! and watches only when it is told to: the `ways` prevent changes between the two.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline};

use super::error::MarketError;
use super::goods::{Buying, Cents, Listing, Offer, User};

/// How many of the cheapest offers a participant sees.
const CHEAPEST: isize = 20;

/// Longer than the audit's largest answer takes on a slow machine; the default of the `redis` crate
/// is half a second.
const ANSWER: Duration = Duration::from_secs(10);

/// The keys of one run, and the number of its items.
#[derive(Clone)]
pub(crate) struct Market {
    name: Arc<str>,
    made: Arc<AtomicU64>,
}

/// Whether Redis refuses the write if what was read has changed by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    Yes,
    No,
}

/// A participant's connection, which no other one uses, because a WATCH belongs to the connection.
pub(crate) struct Stall {
    market: Market,
    redis: MultiplexedConnection,
}

impl Market {
    /// A market that no other run has used.
    pub(crate) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = since.map_or(0, |since| since.as_nanos());
        let name = format!("market-{}-{nanos}", std::process::id());
        Self {
            name: name.into(),
            made: Arc::default(),
        }
    }

    /// The prefix of its locks' keys. It differs from that of the data; otherwise the lock `market`
    /// and the sorted set would be one key.
    pub(crate) fn namespace(&self) -> String {
        format!("{}:lock:", self.name)
    }

    pub(crate) fn offers(&self) -> String {
        format!("{}:market", self.name)
    }

    pub(crate) fn funds(&self, user: User) -> String {
        format!("{}:users:{}", self.name, user.0)
    }

    pub(crate) fn inventory(&self, user: User) -> String {
        format!("{}:inventory:{}", self.name, user.0)
    }

    /// Items `0..made` exist.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

impl Stall {
    pub(crate) async fn open(url: &str, market: &Market) -> Result<Self, MarketError> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER));
        let redis = Client::open(url)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(Self {
            market: market.clone(),
            redis,
        })
    }

    pub(crate) fn market(&self) -> &Market {
        &self.market
    }

    pub(crate) fn redis(&mut self) -> &mut MultiplexedConnection {
        &mut self.redis
    }

    /// Puts new items into the seller's inventory.
    pub(crate) async fn stock(
        &mut self,
        seller: User,
        count: u64,
    ) -> Result<Range<u64>, MarketError> {
        let first = self.market.made.fetch_add(count, Ordering::Relaxed);
        let items = first..first + count;
        redis::pipe()
            .sadd(
                self.market.inventory(seller),
                items.clone().collect::<Vec<_>>(),
            )
            .exec_async(&mut self.redis)
            .await?;
        Ok(items)
    }

    /// The cheapest offers, and the most expensive one.
    pub(crate) async fn look(&mut self) -> Result<Vec<Offer>, MarketError> {
        let offers = self.market.offers();
        let [mut seen, dearest]: [Vec<(String, f64)>; 2] = redis::pipe()
            .zrange_withscores(&offers, 0, CHEAPEST - 1)
            .zrange_withscores(&offers, -1, -1)
            .query_async(&mut self.redis)
            .await?;
        seen.extend(dearest);
        let parsed = seen.iter().map(|(member, score)| (member, *score));
        Ok(parsed
            .filter_map(|(member, score)| Offer::parse(member, score))
            .collect())
    }

    /// Lists the seller's item, or changes its price. `None`: what was watched changed, and nothing
    /// was written.
    pub(crate) async fn list(
        &mut self,
        watch: Watch,
        offer: &Offer,
    ) -> Result<Option<Listing>, MarketError> {
        let (offers, inventory) = (self.market.offers(), self.market.inventory(offer.seller));
        let mut look = redis::pipe();
        watch.these(&mut look, &[&inventory]);
        look.sismember(&inventory, offer.id.0)
            .zscore(&offers, offer.member());
        let (in_stock, on_offer): (bool, Option<f64>) = look.query_async(&mut self.redis).await?;

        let mut write = redis::pipe();
        write.atomic();
        if in_stock {
            write.srem(&inventory, offer.id.0).ignore();
            write.zadd(&offers, offer.member(), offer.price.0);
        } else if on_offer.is_some() {
            // XX: only if it is there. The market is not watched here, so the item may be sold by
            // now.
            let write = write.cmd("ZADD").arg(&offers).arg("XX").arg("CH");
            write.arg(offer.price.0).arg(offer.member());
        } else {
            self.forget(watch).await?;
            return Ok(Some(Listing::Gone));
        }
        let written: Option<(u64,)> = write.query_async(&mut self.redis).await?;
        Ok(written.map(|(changed,)| match (in_stock, changed) {
            (true, _) => Listing::Listed,
            (false, 0) => Listing::Gone,
            (false, _) => Listing::Repriced,
        }))
    }

    /// Buys at the price that was seen. `None`: what was watched changed, and nothing was written.
    pub(crate) async fn buy(
        &mut self,
        watch: Watch,
        buyer: User,
        offer: &Offer,
    ) -> Result<Option<Buying>, MarketError> {
        match self.may_buy(watch, buyer, offer).await? {
            Buying::Bought => {
                let settled = self.settle(buyer, offer).await?;
                Ok(settled.then_some(Buying::Bought))
            }
            refused => {
                self.forget(watch).await?;
                Ok(Some(refused))
            }
        }
    }

    /// The first half of a purchase: reads, and says what the purchase would give.
    pub(crate) async fn may_buy(
        &mut self,
        watch: Watch,
        buyer: User,
        offer: &Offer,
    ) -> Result<Buying, MarketError> {
        let (offers, purse) = (self.market.offers(), self.market.funds(buyer));
        let mut look = redis::pipe();
        watch.these(&mut look, &[&offers, &purse]);
        look.zscore(&offers, offer.member()).hget(&purse, "funds");
        let (price, funds): (Option<f64>, i64) = look.query_async(&mut self.redis).await?;
        Ok(match price.map(Cents::from_score) {
            None => Buying::AlreadySold,
            Some(price) if price != offer.price => Buying::PriceChanged,
            Some(price) if price > Cents(funds) => Buying::NotEnoughMoney,
            Some(_) => Buying::Bought,
        })
    }

    /// The second half: moves money and item, both or neither. False: what was watched changed.
    pub(crate) async fn settle(&mut self, buyer: User, offer: &Offer) -> Result<bool, MarketError> {
        let market = &self.market;
        let mut write = redis::pipe();
        write
            .atomic()
            .hincr(market.funds(offer.seller), "funds", offer.price.0)
            .hincr(market.funds(buyer), "funds", -offer.price.0)
            .sadd(market.inventory(buyer), offer.id.0)
            .zrem(market.offers(), offer.member());
        let written: Option<Vec<i64>> = write.query_async(&mut self.redis).await?;
        Ok(written.is_some())
    }

    /// Nothing will be written: a WATCH that stayed would spoil the next move on this connection.
    async fn forget(&mut self, watch: Watch) -> Result<(), MarketError> {
        if watch == Watch::Yes {
            redis::cmd("UNWATCH").exec_async(&mut self.redis).await?;
        }
        Ok(())
    }
}

impl Watch {
    /// Watches these keys before the reads that follow in the same pipeline.
    fn these(self, look: &mut Pipeline, keys: &[&str]) {
        if self == Self::Yes {
            look.cmd("WATCH").arg(keys).ignore();
        }
    }
}
