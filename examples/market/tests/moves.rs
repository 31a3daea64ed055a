//! Each answer that a seller or a buyer can get, in each way, and the market after it.

use dlock_harness::until;
use dlock_runtime::{Config, LockPool};

use super::lab::{ANN, BOB, Lab, PRICE};
use super::program::{CAP, Ended, Run};
use crate::crew::PURSE;
use crate::goods::{Buying, Cents, Listing, Offer, Sale};
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

/// The lock that the attribute names, in the run's own namespace, is another's for longer than a
/// move waits for it: who needs it waits and tries again, and nobody else.
async fn waits_for(way: &str, key: &str, waiters: u64) {
    let run = Run::start(&format!("--seconds 60 --way {way}"));
    let market = run.market().await;
    // It stays there, so a buyer always has something to ask for.
    until("an offer that nobody can pay", CAP, async || {
        let words = ["ZCOUNT", &format!("{market}:market"), "2000000000", "inf"];
        run.server.ask::<u64>(&words).await > 0
    })
    .await;
    let namespace = format!("{market}:lock:");
    let locks = Config::new(run.server.url()).namespace(namespace.clone());
    let pool = LockPool::connect(locks).await.unwrap();
    let held = pool.lock(key.to_owned()).acquire().await.unwrap();
    let queue = format!("{namespace}@w:{{{namespace}{key}}}");
    until("all who need it wait", CAP, async || {
        run.server.ask::<u64>(&["ZCARD", &queue]).await == waiters
    })
    .await;
    let [buying, listing, left] = counts(&run).await;
    // Two: a single waiter that comes again is two entries for a moment, and then one for 5 s.
    until("they gave up", CAP, async || {
        counts(&run).await[2] > left + 1
    })
    .await;
    let [buying_since, listing_since, _] = counts(&run).await;
    assert_eq!(buying_since > buying, waiters == 0);
    assert_eq!(listing_since > listing, waiters == 0);
    held.release().await.unwrap();
    until("the next purchase begins", CAP, async || {
        counts(&run).await[0] > buying_since
    })
    .await;
    let Ended { status, said, .. } = run.interrupted().await;
    assert_eq!(status, Some(130), "{said}");
    let row = said.lines().find(|line| line.contains(" | 1/1 | "));
    let retries = row.unwrap().split(" | ").nth(4).unwrap();
    assert_eq!(retries != "0", waiters > 0, "{said}");
}

/// Looks at a purse, looks at what a seller has (a purchase and a listing begin with these), and
/// entries that left a set or a queue.
async fn counts(run: &Run) -> [u64; 3] {
    let count = |command| run.server.commandstats(command);
    [
        count("hget").await,
        count("sismember").await,
        count("zrem").await,
    ]
}

#[tokio::test]
async fn a_busy_market_is_a_retry() {
    waits_for("market", "market", 2).await;
}

#[tokio::test]
async fn a_move_waits_for_no_other_item() {
    waits_for("item", "item:999999999", 0).await;
}

async fn a_purchase_waits_for<W: Way>(key: &str) {
    let mut lab = Lab::start().await;
    let offer = lab.offer().await;
    let pool = LockPool::connect(lab.locks()).await.unwrap();
    let held = pool.lock(key.to_owned()).acquire().await.unwrap();
    let mut way: W = lab.join().await;
    let buying = tokio::spawn(async move { way.buy(ANN, offer).await });
    let queue = format!("{0}@w:{{{0}{key}}}", lab.market.namespace());
    until("the purchase waits for the lock", CAP, async || {
        lab.server.ask::<u64>(&["ZCARD", &queue]).await == 1
    })
    .await;
    assert_eq!(lab.audit(&[]).await, []); // nothing happened yet
    held.release().await.unwrap();
    assert_eq!(buying.await.unwrap().unwrap(), Some(Buying::Bought));
}

#[tokio::test]
async fn a_purchase_waits_for_the_market() {
    a_purchase_waits_for::<Coarse>("market").await;
}

#[tokio::test]
async fn a_purchase_waits_for_its_item() {
    a_purchase_waits_for::<PerItem>("item:0").await;
}
