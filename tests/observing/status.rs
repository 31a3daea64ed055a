//! What a pool says of itself.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockPool, Wait, lock_key};

use crate::CAP;

#[tokio::test]
async fn it_counts_what_is_held_and_waited_for_by_class() {
    let server = RedisServer::start();
    let pool = LockPool::connect(server.url()).await.unwrap();
    let mut held = Vec::new();
    for id in 0..3 {
        held.push(pool.lock(lock_key!("item:<id>")).acquire().await.unwrap());
    }
    held.push(pool.lock(lock_key!("book")).read().acquire().await.unwrap());
    let id = 0;
    let request = pool.lock(lock_key!("item:<id>")).wait(Wait::Forever);
    let waits = tokio::spawn(request.acquire());
    until("it waits", CAP, async || {
        let status = pool.status().unwrap();
        status.waiting == 1 && status.in_flight == 0
    })
    .await;
    let status = pool.status().unwrap();
    assert_eq!((status.held, status.cleaning_up), (4, 0));
    assert_eq!(status.unclear_releases, 0);
    assert!(status.connections >= 1, "{status:?}");
    let classes = status.classes.iter();
    let classes: Vec<_> = classes
        .map(|it| (it.class.as_str(), it.kind, it.held, it.waiting))
        .collect();
    let expected = [("book", "read", 1, 0), ("item:<id>", "exclusive", 3, 1)];
    assert_eq!(classes, expected);
    drop(held);
    waits.await.unwrap().unwrap().release().await.unwrap();
    until("nothing is left", CAP, async || {
        let status = pool.status().unwrap();
        status.held + status.waiting + status.in_flight + status.cleaning_up == 0
    })
    .await;
    assert!(pool.status().unwrap().classes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_guard_knows_how_long_its_call_waited() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let held = pool.lock("k").acquire().await.unwrap();
    assert_eq!(held.waited(), Duration::ZERO);
    let waits = tokio::spawn(pool.lock("k").wait(Wait::Forever).acquire());
    let pause = Duration::from_millis(50);
    tokio::time::sleep(pause).await;
    held.release().await.unwrap();
    let next = waits.await.unwrap().unwrap();
    assert_eq!(next.waited(), pause);
    next.release().await.unwrap();
}
