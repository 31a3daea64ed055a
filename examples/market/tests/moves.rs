//! Each answer that a seller or a buyer can get, in each way, and the market after it.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::LockPool;

use super::lab::{ANN, BOB, Lab, PRICE};
use crate::crew::PURSE;
use crate::goods::{Buying, Cents, Listing, Offer, Sale};
use crate::stall::{Stall, Watch};
use crate::ways::{Coarse, Optimistic, PerItem, Way};

async fn every_answer<W: Way>() {
    let mut lab = Lab::start().await;
    let mut way: W = lab.join().await;
    let cheap = lab.in_stock().await;

    assert_eq!(way.list(cheap).await.unwrap(), Some(Listing::Listed));
    let dearer = Offer {
        price: Cents(PRICE.0 + 1),
        ..cheap
    };
    assert_eq!(way.list(dearer).await.unwrap(), Some(Listing::Repriced));
    let outdated = way.buy(ANN, cheap).await.unwrap();
    assert_eq!(outdated, Some(Buying::PriceChanged));
    assert_eq!(lab.audit(&[]).await, []);

    let beyond = Offer {
        price: Cents(PURSE.0 + 1),
        ..cheap
    };
    assert_eq!(way.list(beyond).await.unwrap(), Some(Listing::Repriced));
    let refused = way.buy(ANN, beyond).await.unwrap();
    assert_eq!(refused, Some(Buying::NotEnoughMoney));
    assert_eq!(lab.audit(&[]).await, []);

    // For exactly the money that she has.
    let all = Offer {
        price: PURSE,
        ..cheap
    };
    assert_eq!(way.list(all).await.unwrap(), Some(Listing::Repriced));
    assert_eq!(way.buy(ANN, all).await.unwrap(), Some(Buying::Bought));
    let late = way.buy(BOB, all).await.unwrap();
    assert_eq!(late, Some(Buying::AlreadySold));
    assert_eq!(way.list(cheap).await.unwrap(), Some(Listing::Gone));
    let sale = Sale {
        offer: all,
        buyer: ANN,
    };
    assert_eq!(lab.audit(&[sale]).await, []);
}

#[tokio::test]
async fn every_answer_watched() {
    every_answer::<Optimistic>().await;
}

#[tokio::test]
async fn every_answer_under_one_lock() {
    every_answer::<Coarse>().await;
}

#[tokio::test]
async fn every_answer_under_a_lock_per_item() {
    every_answer::<PerItem>().await;
}

/// Any other offer is enough: this is why this way repeats its moves.
#[tokio::test]
async fn a_write_between_look_and_write_is_refused() {
    let mut lab = Lab::start().await;
    let offer = lab.offer().await;
    let mut stall = Stall::open(&lab.server.url(), &lab.market).await.unwrap();
    let may = stall.may_buy(Watch::Yes, ANN, &offer).await.unwrap();
    assert_eq!(may, Buying::Bought);
    lab.offer().await; // another item
    assert!(!stall.settle(ANN, &offer).await.unwrap());
    assert_eq!(lab.audit(&[]).await, []);
}

/// The refused purchase watched the market; a listing that follows on the same connection must not
/// fail for it.
#[tokio::test]
async fn a_refusal_leaves_nothing_watched() {
    let mut lab = Lab::start().await;
    let offer = lab.offer().await;
    let next = lab.in_stock().await;
    let mut way: Optimistic = lab.join().await;
    let outdated = Offer {
        price: Cents(1),
        ..offer
    };
    let refused = way.buy(ANN, outdated).await.unwrap();
    assert_eq!(refused, Some(Buying::PriceChanged));
    lab.offer().await;
    assert_eq!(way.list(next).await.unwrap(), Some(Listing::Listed));
}

/// The way takes the lock that the attribute names, in the run's own namespace.
async fn waits_for<W: Way>(key: &str, waits: bool) {
    let mut lab = Lab::start().await;
    let offer = lab.offer().await;
    let pool = LockPool::connect(lab.locks()).await.unwrap();
    let held = pool.lock(key.to_owned()).acquire().await.unwrap();
    let mut way: W = lab.join().await;
    let buying = tokio::spawn(async move { way.buy(ANN, offer).await });
    if waits {
        let queue = format!("{0}@w:{{{0}{key}}}", lab.market.namespace());
        until_queued(&lab.server, &queue).await;
        assert_eq!(lab.audit(&[]).await, []); // nothing happened yet
        held.release().await.unwrap();
    }
    assert_eq!(buying.await.unwrap().unwrap(), Some(Buying::Bought));
}

async fn until_queued(server: &RedisServer, queue: &str) {
    let cap = Duration::from_secs(4); // less than the attribute's `wait`
    until("the purchase waits for the lock", cap, async || {
        server.ask::<u64>(&["ZCARD", queue]).await == 1
    })
    .await;
}

#[tokio::test]
async fn a_purchase_waits_for_the_market() {
    waits_for::<Coarse>("market", true).await;
}

#[tokio::test]
async fn a_purchase_waits_for_its_item() {
    waits_for::<PerItem>("item:0", true).await;
}

#[tokio::test]
async fn a_purchase_waits_for_no_other_item() {
    waits_for::<PerItem>("item:1", false).await;
}
