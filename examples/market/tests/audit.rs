//! The audit finds each kind of error, and nothing in a correct market.

use super::lab::{ANN, BOB, Lab, PRICE, SELLER};
use crate::audit::{Violation, Violations, Where};
use crate::crew::PURSE;
use crate::goods::{Buying, Cents, Item, Offer, Sale, User};
use crate::stall::{Stall, Watch};

/// A market after one sale to Ann, with one more offer and one item in stock.
async fn after_a_sale() -> (Lab, Sale, Offer) {
    let mut lab = Lab::start().await;
    let offer = lab.offer().await;
    let other = lab.offer().await;
    lab.in_stock().await;
    let bought = lab.stall.buy(Watch::No, ANN, &offer).await.unwrap();
    assert_eq!(bought, Some(Buying::Bought));
    let sale = Sale { offer, buyer: ANN };
    assert_eq!(lab.audit(&[sale]).await, []);
    (lab, sale, other)
}

/// Two buyers read the item on the market before either writes.
#[tokio::test]
async fn an_item_that_was_sold_twice() {
    let mut lab = Lab::start().await;
    let offer = lab.offer().await;
    let mut bob = Stall::open(&lab.server.url(), &lab.market).await.unwrap();
    for (stall, buyer) in [(&mut lab.stall, ANN), (&mut bob, BOB)] {
        let may = stall.may_buy(Watch::No, buyer, &offer).await.unwrap();
        assert_eq!(may, Buying::Bought);
    }
    for (stall, buyer) in [(&mut lab.stall, ANN), (&mut bob, BOB)] {
        assert!(stall.settle(buyer, &offer).await.unwrap());
    }
    let sales = [ANN, BOB].map(|buyer| Sale { offer, buyer });
    let found = lab.audit(&sales).await;
    let twice = Violation::SoldTwice(offer.id, ANN, BOB);
    let places = Violation::QueuedTwice(offer.id, Where::With(ANN), Where::With(BOB));
    assert!(found.contains(&twice), "{found:?}");
    assert!(found.contains(&places), "{found:?}");
}

#[tokio::test]
async fn an_item_that_vanished() {
    let (mut lab, sale, other) = after_a_sale().await;
    let offers = lab.market.offers();
    lab.cmd(&["ZREM", &offers, &other.member()]).await;
    assert_eq!(lab.audit(&[sale]).await, [Violation::Vanished(other.id)]);
}

#[tokio::test]
async fn an_item_that_nobody_made() {
    let (mut lab, sale, _) = after_a_sale().await;
    let inventory = lab.market.inventory(BOB);
    lab.cmd(&["SADD", &inventory, "77"]).await;
    assert_eq!(lab.audit(&[sale]).await, [Violation::Appeared(Item(77))]);
}

#[tokio::test]
async fn an_item_that_is_sold_and_still_offered() {
    let (mut lab, sale, _) = after_a_sale().await;
    let (offers, member) = (lab.market.offers(), sale.offer.member());
    lab.cmd(&["ZADD", &offers, "1", &member]).await;
    let places = Violation::QueuedTwice(sale.offer.id, Where::With(ANN), Where::OnTheMarket);
    let found = lab.audit(&[sale]).await;
    assert_eq!(found.first(), Some(&places), "{found:?}");
}

#[tokio::test]
async fn an_item_that_its_buyer_has_not_got() {
    let (mut lab, sale, _) = after_a_sale().await;
    let (hers, his) = (lab.market.inventory(ANN), lab.market.inventory(BOB));
    lab.cmd(&["SMOVE", &hers, &his, &sale.offer.id.to_string()])
        .await;
    let undelivered = Violation::NotDelivered(sale.offer.id, ANN);
    assert_eq!(lab.audit(&[sale]).await, [undelivered]);
}

#[tokio::test]
async fn a_cent_too_many() {
    let (mut lab, sale, _) = after_a_sale().await;
    let purse = lab.market.funds(BOB);
    lab.cmd(&["HINCRBY", &purse, "funds", "1"]).await;
    let before = Cents(2 * PURSE.0);
    let after = Cents(before.0 + 1);
    let funds = wrong(BOB, PURSE, Cents(PURSE.0 + 1));
    let money = Violation::Money { before, after };
    assert_eq!(lab.audit(&[sale]).await, [money, funds]);
}

/// The sum is right, but one user has another's money.
#[tokio::test]
async fn a_cent_in_the_wrong_purse() {
    let (mut lab, sale, _) = after_a_sale().await;
    let (his, hers) = (lab.market.funds(SELLER), lab.market.funds(BOB));
    lab.cmd(&["HINCRBY", &his, "funds", "-1"]).await;
    lab.cmd(&["HINCRBY", &hers, "funds", "1"]).await;
    let seller = wrong(SELLER, PRICE, Cents(PRICE.0 - 1));
    let bob = wrong(BOB, PURSE, Cents(PURSE.0 + 1));
    assert_eq!(lab.audit(&[sale]).await, [seller, bob]);
}

/// Two purchases at once, each of which read the whole purse; a lock per item alone does not
/// prevent this.
#[tokio::test]
async fn a_buyer_who_owes() {
    let mut lab = Lab::start().await;
    let mut sales = Vec::new();
    for _ in 0..2 {
        let mut offer = lab.in_stock().await;
        offer.price = PURSE;
        lab.stall.list(Watch::No, &offer).await.unwrap();
        sales.push(Sale { offer, buyer: ANN });
    }
    for sale in &sales {
        let may = lab.stall.may_buy(Watch::No, ANN, &sale.offer).await;
        assert_eq!(may.unwrap(), Buying::Bought);
    }
    for sale in &sales {
        assert!(lab.stall.settle(ANN, &sale.offer).await.unwrap());
    }
    assert_eq!(lab.audit(&sales).await, [Violation::Overdrawn(ANN, PURSE)]);
}

fn wrong(user: User, expected: Cents, found: Cents) -> Violation {
    Violation::Funds {
        user,
        expected,
        found,
    }
}

#[test]
fn only_the_first_few_are_told() {
    let found = |count| {
        let all = (0..count).map(|id| Violation::Vanished(Item(id)));
        Violations(all.collect()).to_string()
    };
    assert_eq!(found(1), "item 0 vanished");
    let three = "item 0 vanished; item 1 vanished; item 2 vanished";
    assert_eq!(found(3), three);
    assert_eq!(found(5), format!("{three}; and 2 more"));
}
