//! The audit: compares the market after a run with what the sales should have made of its initial
//! state.
//!
//! Money only moves, so every user's funds follow from the sales, and the sum stays the same. An
//! item is on the market or in one inventory; a sold item is in its buyer's. The audit reads when
//! all participants have stopped.

use std::collections::HashMap;
use std::fmt;

use super::crew::PURSE;
use super::error::MarketError;
use super::goods::{Cents, Item, Offer, Sale, User};
use super::load::Size;
use super::stall::Stall;

/// A rule that the market breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("item {0} was sold twice, to {1} and to {2}")]
    SoldTwice(Item, User, User),
    #[error("item {0} is in two places: {1} and {2}")]
    QueuedTwice(Item, Where, Where),
    #[error("item {0} was sold to {1} and is not there")]
    NotDelivered(Item, User),
    #[error("item {0} vanished")]
    Vanished(Item),
    #[error("item {0} appeared out of nothing")]
    Appeared(Item),
    #[error("all money was {before} and is {after}")]
    Money { before: Cents, after: Cents },
    #[error("{user} should have {expected} and has {found}")]
    Funds {
        user: User,
        expected: Cents,
        found: Cents,
    },
    #[error("{0} owes {1}")]
    Overdrawn(User, Cents),
}

/// Where an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    OnTheMarket,
    With(User),
}

/// All violations that were found.
#[derive(Debug, Default)]
pub(crate) struct Violations(pub(crate) Vec<Violation>);

/// How many of them are printed.
const TOLD: usize = 3;

impl Violations {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnTheMarket => f.write_str("the market"),
            Self::With(user) => user.fmt(f),
        }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<String> = self.0.iter().take(TOLD).map(Violation::to_string).collect();
        f.write_str(&told.join("; "))?;
        match self.0.len().saturating_sub(TOLD) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Gives each buyer its initial funds.
pub(crate) async fn endow(stall: &mut Stall, size: Size) -> Result<(), MarketError> {
    let market = stall.market().clone();
    let mut purses = redis::pipe();
    for buyer in size.buyers() {
        purses.hset(market.funds(buyer), "funds", PURSE.0);
    }
    Ok(purses.exec_async(stall.redis()).await?)
}

/// Deletes every key of the run.
pub(crate) async fn clear(stall: &mut Stall, size: Size) -> Result<(), MarketError> {
    let market = stall.market().clone();
    let mut keys = vec![market.offers(), format!("{}@fence", market.namespace())];
    for user in size.sellers().chain(size.buyers()) {
        keys.extend([market.funds(user), market.inventory(user)]);
    }
    Ok(redis::cmd("UNLINK")
        .arg(keys)
        .exec_async(stall.redis())
        .await?)
}

/// The state of the market.
pub(crate) struct Books {
    pub(crate) funds: HashMap<User, Cents>,
    pub(crate) places: Vec<(Item, Where)>,
    pub(crate) made: u64,
}

pub(crate) async fn audit(
    stall: &mut Stall,
    size: Size,
    sales: &[Sale],
) -> Result<Violations, MarketError> {
    let books = read(stall, size).await?;
    let mut found = Violations::default();
    let place = items(&books, &mut found.0);
    deliveries(&place, sales, &mut found.0);
    money(&books, size, sales, &mut found.0);
    Ok(found)
}

async fn read(stall: &mut Stall, size: Size) -> Result<Books, MarketError> {
    let market = stall.market().clone();
    let (mut funds, mut places) = (HashMap::new(), Vec::new());
    for user in size.sellers().chain(size.buyers()) {
        let (has, inventory): (Option<i64>, Vec<u64>) = redis::pipe()
            .hget(market.funds(user), "funds")
            .smembers(market.inventory(user))
            .query_async(stall.redis())
            .await?;
        funds.insert(user, Cents(has.unwrap_or(0)));
        places.extend(
            inventory
                .into_iter()
                .map(|id| (Item(id), Where::With(user))),
        );
    }
    let members: Vec<String> = redis::cmd("ZRANGE")
        .arg(market.offers())
        .arg(0)
        .arg(-1)
        .query_async(stall.redis())
        .await?;
    let offers = members.iter().filter_map(|it| Offer::parse(it, 0.0));
    places.extend(offers.map(|offer| (offer.id, Where::OnTheMarket)));
    let made = market.made();
    Ok(Books {
        funds,
        places,
        made,
    })
}

fn money(books: &Books, size: Size, sales: &[Sale], found: &mut Vec<Violation>) {
    let mut expected: HashMap<User, i64> = size.sellers().map(|user| (user, 0)).collect();
    expected.extend(size.buyers().map(|user| (user, PURSE.0)));
    let before = Cents(expected.values().sum());
    let after = Cents(books.funds.values().map(|funds| funds.0).sum());
    if before != after {
        found.push(Violation::Money { before, after });
    }
    for Sale { offer, buyer } in sales {
        *expected.entry(offer.seller).or_default() += offer.price.0;
        *expected.entry(*buyer).or_default() -= offer.price.0;
    }
    for user in size.sellers().chain(size.buyers()) {
        let should = expected.get(&user).copied().unwrap_or(0);
        let has = books.funds.get(&user).map_or(0, |funds| funds.0);
        let (expected, has) = (Cents(should), Cents(has));
        if expected != has {
            found.push(Violation::Funds {
                user,
                expected,
                found: has,
            });
        }
        if has < Cents(0) {
            found.push(Violation::Overdrawn(user, Cents(-has.0)));
        }
    }
}

/// Finds where each item is.
fn items(books: &Books, found: &mut Vec<Violation>) -> HashMap<Item, Where> {
    let mut place = HashMap::new();
    for (item, at) in &books.places {
        if item.0 >= books.made {
            found.push(Violation::Appeared(*item));
        }
        if let Some(other) = place.insert(*item, *at) {
            found.push(Violation::QueuedTwice(*item, other, *at));
        }
    }
    let ids = (0..books.made).map(Item);
    let missing = ids.filter(|item| !place.contains_key(item));
    found.extend(missing.map(Violation::Vanished));
    place
}

fn deliveries(place: &HashMap<Item, Where>, sales: &[Sale], found: &mut Vec<Violation>) {
    let mut sold: HashMap<Item, User> = HashMap::new();
    for Sale { offer, buyer } in sales {
        if let Some(other) = sold.insert(offer.id, *buyer) {
            found.push(Violation::SoldTwice(offer.id, other, *buyer));
        } else if place.get(&offer.id) != Some(&Where::With(*buyer)) {
            found.push(Violation::NotDelivered(offer.id, *buyer));
        }
    }
}
