//! A caller that goes while its connection is certainly being made: a proxy holds the handshake
//! back. `faults/unanswered` has those that go while a command is under way.

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{LockPool, LockRequest};
use tokio::task::JoinHandle;

use crate::world::{SOON, patient};

/// Runs a future on a task of its own, which [`stop`] drops.
fn start(request: LockRequest) -> JoinHandle<()> {
    tokio::spawn(async move {
        request
            .run(async |_| std::future::pending::<()>().await)
            .await
            .unwrap();
    })
}

async fn stop(task: JoinHandle<()>) {
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_connection_that_is_being_made_serves_the_next_caller() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = LockPool::connect(patient(&proxy.url()).lazy())
        .await
        .unwrap();
    let hello = proxy.on(Matcher::any(), Action::Hold);
    let task = start(pool.lock("item"));
    hello.seen().await;
    stop(task).await;
    proxy.release_held();
    let lock = pool.lock("item").acquire().await.unwrap();
    lock.release().await.unwrap();
    assert_eq!(proxy.accepted(), 1, "no caller's patience ends an attempt");
    drop(pool);
    until("the connection is closed", SOON, async || proxy.live() == 0).await;
}

#[tokio::test]
async fn a_connection_that_is_being_made_ends_with_its_pool() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = LockPool::connect(patient(&proxy.url()).lazy())
        .await
        .unwrap();
    let hello = proxy.on(Matcher::any(), Action::Hold);
    let task = start(pool.lock("item"));
    drop(pool);
    hello.seen().await;
    assert_eq!(proxy.live(), 1);
    stop(task).await;
    proxy.release_held();
    until("the connection is closed", SOON, async || proxy.live() == 0).await;
}
