//! What is traded: users, items, prices, and what a seller or a buyer is told. Plain values; nothing here talks to Redis.

use std::fmt;

/// A seller or a buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct User(pub(crate) usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Item(pub(crate) u64);

/// Money. Whole cents, so that a sum of thousands of prices is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cents(pub(crate) i64);

/// What stands on the market, as somebody saw it. It may have changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) id: Item,
    pub(crate) seller: User,
    pub(crate) price: Cents,
}

/// What became of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    Listed,
    /// It stood there already, and has this price now.
    Repriced,
    /// The seller does not have it any more.
    Gone,
}

/// What became of a purchase. All but the first leave everything as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buying {
    Bought,
    PriceChanged,
    NotEnoughMoney,
    AlreadySold,
}

/// A purchase that was made, for the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sale {
    pub(crate) offer: Offer,
    pub(crate) buyer: User,
}

impl Offer {
    /// The member of the sorted set.
    pub(crate) fn member(&self) -> String {
        format!("{}.{}", self.id, self.seller.0)
    }

    /// `None`: no member of ours.
    pub(crate) fn parse(member: &str, score: f64) -> Option<Self> {
        let (id, seller) = member.split_once('.')?;
        Some(Self {
            id: Item(id.parse().ok()?),
            seller: User(seller.parse().ok()?),
            price: Cents::from_score(score),
        })
    }
}

impl Cents {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a score is a price that was written as whole cents, far below 2^53"
    )]
    pub(crate) fn from_score(score: f64) -> Self {
        Self(score as i64)
    }
}

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

/// Also the number in the lock's key.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}", self.0)
    }
}
