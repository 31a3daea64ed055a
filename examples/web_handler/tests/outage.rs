//! Redis goes away and comes back: the shop answers 503, also to its load balancer, and needs no
//! restart.

use dlock_harness::{RedisServer, until};

use crate::lab::{CAP, Lab};

#[tokio::test]
async fn an_outage_is_a_503_until_it_is_over() {
    let redis = RedisServer::start();
    let lab = Lab::on(&redis).await;
    assert_eq!(lab.buy(7, "ann").await.status, 200);
    assert_eq!(lab.get("/health/ready").await.status, 200);

    redis.kill9();
    let bob = lab.buy(7, "bob").await;
    bob.is(503, "unavailable");
    assert_eq!(bob.retry_after, Some(1));
    lab.get("/health/ready").await.is(503, "unavailable");
    assert_eq!(lab.get("/health/live").await.text, "alive");
    assert_eq!(lab.left(7).await, 2, "what needs no lock goes on");
    assert_eq!(lab.bank.asked(), ["order:order-of-ann"]);

    redis.restart_empty();
    until("the shop is ready again", CAP, async || {
        lab.get("/health/ready").await.status == 200
    })
    .await;
    let bob = lab.buy(7, "bob").await;
    assert_eq!(bob.status, 200, "{bob:?}");
}

#[tokio::test]
async fn a_lock_that_was_lost_is_a_503_and_nothing_is_sold() {
    let redis = RedisServer::start();
    let lab = Lab::on(&redis).await;
    lab.bank.close();
    let thief = async {
        lab.bank.until_inside(1).await;
        // It has no persistence: her lock is gone, and the next renewal finds that out.
        redis.restart_empty();
    };
    let (ann, ()) = tokio::join!(lab.buy(7, "ann"), thief);
    ann.is(503, "interrupted");
    assert_eq!(ann.retry_after, Some(1));
    assert_eq!(lab.left(7).await, 3);
    lab.bank.until_inside(0).await;

    // As the client was told, the repeated order is carried out.
    lab.bank.open();
    assert_eq!(lab.buy(7, "ann").await.status, 200);
    assert_eq!(lab.left(7).await, 2);
}
