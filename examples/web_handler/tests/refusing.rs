//! What a client gets for a request that can't be carried out, and what it is not told.

use std::time::Duration;

use dlock_harness::RedisServer;
use dlock_runtime::LockPool;

use crate::error::ShopError;
use crate::lab::{Lab, SECRET_HOST, order};
use crate::log;
use crate::store::{Order, Store};

#[tokio::test]
async fn outcomes_of_the_shop_have_statuses_of_their_own() {
    let lab = Lab::in_memory().await;
    assert_eq!(lab.buy(9, "ann").await.status, 200);
    lab.buy(9, "bob").await.is(410, "sold_out");
    lab.buy(1, "bob").await.is(404, "no_such_item");
    lab.buy(7, "poor").await.is(402, "declined");
    let unlucky = lab.buy(7, "unlucky").await;
    unlucky.is(502, "bank");
    assert_eq!(unlucky.retry_after, Some(1));
    assert_eq!(lab.left(7).await, 3, "none of them got one");
}

#[tokio::test]
async fn a_write_with_an_older_token_is_refused() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let fence = async || {
        let lock = pool.lock("item:7").run(async |lock| lock.fence());
        lock.await.unwrap()
    };
    let (older, newer) = (fence().await, fence().await);
    let of = |buyer: &str| Order {
        id: format!("order-of-{buyer}"),
        buyer: buyer.to_owned(),
    };
    let store = Store::default();
    store.stock(7, 1999, 3);
    assert!(store.sell(7, &of("ann"), newer).is_ok());
    let late = store.sell(7, &of("bob"), older);
    assert!(matches!(late, Err(ShopError::Overtaken)));
    assert_eq!(store.item(7).unwrap().left, 2);
    assert!(store.sell(7, &of("ann"), older).is_ok(), "her receipt");
}

#[tokio::test]
async fn values_that_are_none_are_bad_requests() {
    let lab = Lab::in_memory().await;
    let order = order("ann");
    for id in ["seven", "-1", "7%2F8", "99999999999999999999"] {
        let answer = lab.post(&format!("/items/{id}/purchases"), &order).await;
        answer.is(400, "bad_request");
    }
    // A name too long for a key: the path is valid, but the lock refuses it.
    let endless = format!("/buyers/{}/welcome-bonus", "a".repeat(600));
    lab.post(&endless, "").await.is(400, "bad_request");
    lab.post("/items/7/purchases", "{")
        .await
        .is(400, "bad_request");
    lab.post("/items/7/purchases", "{}")
        .await
        .is(422, "bad_request");
    lab.get("/item/7").await.is(404, "bad_request");
    lab.get("/items/7/purchases").await.is(405, "bad_request");
    assert_eq!(lab.bank.asked(), [""; 0]);
    // A name may contain any characters, and is still one name.
    let odd = lab.post("/buyers/a%2Fb:*%7Bx/welcome-bonus", "").await;
    assert_eq!(odd.status, 200, "{odd:?}");
}

#[tokio::test]
async fn a_request_past_its_deadline_gives_its_lock_back() {
    let lab = Lab::start("memory://", Duration::from_millis(300)).await;
    lab.bank.close();
    let late = lab.buy(7, "ann").await;
    late.is(504, "too_slow");
    assert_eq!(late.retry_after, Some(1));
    lab.bank.until_inside(0).await;
    assert!(
        lab.locks
            .lock("item:7")
            .try_acquire()
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(lab.left(7).await, 3);
}

#[tokio::test]
async fn the_log_knows_what_the_client_is_not_told() {
    let redis = RedisServer::start();
    let lab = Lab::on(&redis).await;
    // As a process on another host writes it.
    let value = format!(
        "1|x|{:016x}-{0:016x}-1||10000|0|0||{SECRET_HOST}|4711|shop::restock|1790000000000",
        1
    );
    let held = ["SET", "lock:buyer:grumpy", &value, "PX", "10000"];
    redis.cmd(&held).await;

    let busy = lab.post("/buyers/grumpy/welcome-bonus", "").await;
    busy.is(409, "busy");
    assert!(
        busy.retry_after
            .is_some_and(|seconds| (1..=10).contains(&seconds))
    );
    let request = "path=\"/buyers/grumpy/welcome-bonus\"";
    let log = log::lines_with(request).join("\n");
    for told in [SECRET_HOST, "4711", "shop::restock", "status=409"] {
        assert!(log.contains(told), "{told:?} is missing:\n{log}");
    }
}
