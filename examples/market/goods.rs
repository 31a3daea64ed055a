//! What is traded: users, items, prices, and the answers to sellers and buyers. Plain values,
//! without Redis.

use std::fmt;

/// A seller or a buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct User(pub(crate) usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Item(pub(crate) u64);

/// Money in whole cents, so that a sum of thousands of prices is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cents(pub(crate) i64);

/// An item on the market, as a participant saw it; it may have changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) id: Item,
    pub(crate) seller: User,
    pub(crate) price: Cents,
}

/// The result of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    Listed,
    /// It was listed before, and now has this price.
    Repriced,
    /// The seller does not have it any more.
    Gone,
}

/// The result of a purchase. All but the first change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buying {
    Bought,
    PriceChanged,
    NotEnoughMoney,
    AlreadySold,
}

/// A completed purchase, for the audit.
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

    /// `None` for any other member.
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
