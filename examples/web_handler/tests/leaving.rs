//! A client disconnects while its purchase runs: the handler is dropped inside its lock, which is
//! free at once, and nothing was sold.

use dlock_harness::RedisServer;

use crate::lab::{Lab, SOON};

#[tokio::test]
async fn who_leaves_gives_the_lock_back_in_memory() {
    leaves(Lab::in_memory().await).await;
}

#[tokio::test]
async fn who_leaves_gives_the_lock_back_on_redis() {
    let redis = RedisServer::start();
    leaves(Lab::on(&redis).await).await;
}

async fn leaves(lab: Lab) {
    lab.bank.close();
    let ann = lab.buy_and_may_leave(9, "ann").await;
    lab.bank.until_inside(1).await;
    assert!(lab.locks.holder("item:9").await.unwrap().is_some());
    drop(ann);
    lab.bank.until_inside(0).await; // the handler was dropped in the middle of its call
    lab.bank.open();

    // Her lease was 10 s, and was renewed. He waits for at most 2 s, and buys the last item, which
    // was not half sold.
    let bob = lab.buy(9, "bob").await;
    assert_eq!(bob.status, 200, "{bob:?}");
    assert_eq!(lab.left(9).await, 0);
    let asked = ["order:order-of-ann", "order:order-of-bob"];
    assert_eq!(
        lab.bank.asked(),
        asked,
        "her money was reserved, and lapses"
    );
    dlock_harness::until("the lock is free", SOON, async || {
        lab.locks.holder("item:9").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn who_leaves_the_queue_does_not_hold_it_up() {
    let redis = RedisServer::start();
    let lab = Lab::on(&redis).await;
    lab.bank.close();
    let first = lab.buy_and_may_leave(7, "ann").await;
    lab.bank.until_inside(1).await;
    let waiting = lab.buy_and_may_leave(7, "bob").await;
    lab.until_arrived(2).await;
    drop((waiting, first));
    lab.bank.until_inside(0).await;
    lab.bank.open();
    let cy = lab.buy(7, "cy").await;
    assert_eq!(cy.status, 200, "{cy:?}");
    assert_eq!(lab.left(7).await, 2);
}
