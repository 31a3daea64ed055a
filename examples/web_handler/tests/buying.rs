//! What the lock is for: one buyer of an item at a time, other items concurrently, and an order
//! that is carried out once.

use std::time::Instant;

use dlock_harness::wait::scaled;

use crate::lab::{Lab, SOON};

#[tokio::test]
async fn an_item_is_bought() {
    let lab = Lab::in_memory().await;
    let answer = lab.buy(7, "ann").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.fields().buyer.as_deref(), Some("ann"));
    assert_eq!(lab.left(7).await, 2);
    assert_eq!(lab.bank.asked(), ["order:order-of-ann"]);
    assert!(lab.get("/health/ready").await.text.starts_with("ready"));
}

#[tokio::test]
async fn two_buyers_of_one_item_take_turns() {
    let lab = Lab::in_memory().await;
    lab.bank.close();
    let buyers = async { tokio::join!(lab.buy(9, "ann"), lab.buy(9, "bob")) };
    let meanwhile = async {
        lab.until_arrived(2).await;
        lab.bank.until_inside(1).await;
        lab.bank.open();
    };
    let ((ann, bob), ()) = tokio::join!(buyers, meanwhile);
    let mut statuses = [ann.status, bob.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 410], "one is left: {ann:?}, {bob:?}");
    // The second buyer was refused before any money was reserved.
    assert_eq!(lab.bank.asked().len(), 1, "{:?}", lab.bank.asked());
}

#[tokio::test]
async fn a_buyer_who_waited_in_vain_is_told_when_to_come_back() {
    let lab = Lab::in_memory().await;
    lab.bank.close();
    let ann = lab.buy(7, "ann");
    let bob = async {
        lab.bank.until_inside(1).await;
        let asked = Instant::now();
        let bob = lab.buy(7, "bob").await;
        bob.is(409, "busy");
        assert!(asked.elapsed().as_secs() >= 2, "he did not wait");
        let seconds = bob.retry_after.expect("a Retry-After");
        assert!((1..=10).contains(&seconds), "no longer than ann's lease");
        assert_eq!(lab.bank.asked(), ["order:order-of-ann"]);
        lab.bank.open();
    };
    let (ann, ()) = tokio::join!(ann, bob);
    assert_eq!(ann.status, 200, "{ann:?}");
    assert_eq!(lab.buy(7, "bob").await.status, 200);
}

#[tokio::test]
async fn different_items_are_bought_at_the_same_time() {
    let lab = Lab::in_memory().await;
    lab.bank.close();
    let buyers = async { tokio::join!(lab.buy(7, "ann"), lab.buy(8, "bob")) };
    let meanwhile = async {
        lab.bank.until_inside(2).await;
        lab.bank.open();
    };
    let ((ann, bob), ()) = tokio::join!(buyers, meanwhile);
    assert_eq!((ann.status, bob.status), (200, 200), "{ann:?}, {bob:?}");
}

#[tokio::test]
async fn an_order_that_is_sent_again_is_answered_again() {
    let lab = Lab::in_memory().await;
    let (first, again) = (lab.buy(7, "ann").await, lab.buy(7, "ann").await);
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.text, again.text);
    assert_eq!(lab.left(7).await, 2);
    assert_eq!(lab.bank.asked().len(), 1);
    // Another buyer does not get her receipt by the order's id.
    let thief = r#"{"id":"order-of-ann","buyer":"eve"}"#;
    let thief = lab.post("/items/7/purchases", thief).await;
    thief.is(422, "order_reused");
}

#[tokio::test]
async fn a_double_click_is_told_at_once_and_pays_once() {
    let lab = Lab::in_memory().await;
    lab.bank.close();
    let bonus = || lab.post("/buyers/ann/welcome-bonus", "");
    let second = async {
        lab.bank.until_inside(1).await;
        let begun = Instant::now();
        for _ in 0..3 {
            bonus().await.is(409, "busy");
        }
        assert!(begun.elapsed() < scaled(SOON), "they sat in a queue");
        lab.bank.open();
    };
    let (first, ()) = tokio::join!(bonus(), second);
    assert_eq!(first.status, 200, "{first:?}");
    bonus().await.is(410, "bonus_paid");
    assert_eq!(lab.bank.asked(), ["welcome:ann"]);
}
