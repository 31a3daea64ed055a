//! Every operation of a lock, of every kind: the Redis user's rights have to be enough for all of
//! them.

use std::time::Duration;

use dlock_harness::until;
use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest, Released, Wait};
use futures_util::future::try_join_all;
use tokio::task::JoinHandle;

use crate::user::Lab;

const CAP: Duration = Duration::from_secs(20);

pub(crate) type Waiter = JoinHandle<Result<LockGuard, LockError>>;

/// Makes a request one of its kind.
pub(crate) type As = fn(LockRequest) -> LockRequest;

pub(crate) fn wait_for(request: LockRequest) -> Waiter {
    let request = request.wait(Wait::Forever);
    tokio::spawn(async move { request.acquire().await })
}

pub(crate) async fn everything(lab: &Lab) -> Result<(), LockError> {
    let kinds: [(&str, As); 7] = [
        ("exclusive", |it| it),
        ("fair", LockRequest::fair),
        ("reentrant", LockRequest::reentrant),
        ("read", LockRequest::read),
        ("write", LockRequest::write),
        ("permits", |it| it.permits(3).take(3)),
        ("owner", |it| it.reentrant().owner("a")),
    ];
    for (name, kind) in kinds {
        every_step(lab, name, kind).await?;
    }
    several(lab).await?;
    many_at_once(&lab.pool().await?).await?;
    many_wait(&lab.pool().await?).await?;
    beside_each_other(lab).await
}

/// More locks than are sent one by one: the rest is acquired in one command, and released in one.
pub(crate) async fn many_at_once(pool: &LockPool) -> Result<(), LockError> {
    let guards = try_join_all((0..8).map(|it| pool.lock(format!("many:{it}")).acquire())).await?;
    try_join_all(guards.into_iter().map(LockGuard::release)).await?;
    Ok(())
}

/// Enough waiters that their heartbeats are batched; when each has sent some, they get the lock.
pub(crate) async fn many_wait(pool: &LockPool) -> Result<(), LockError> {
    let held = pool.lock("many").write().acquire().await?;
    let wait = || pool.lock("many").read().wait(Wait::Forever).acquire();
    let waiters: Vec<_> = (0..20).map(|_| tokio::spawn(wait())).collect();
    tokio::time::sleep(Duration::from_millis(300)).await; // six polls
    held.release().await?;
    for waiter in waiters {
        waiter.await.unwrap()?.release().await?;
    }
    Ok(())
}

/// First all are free and taken in one command; then one is held, so that they are taken one after
/// the other.
async fn several(lab: &Lab) -> Result<(), LockError> {
    let pool = lab.pool().await?;
    let both = || pool.lock_all(["several:a", "several:b"]);
    both().acquire().await?.release().await?;
    let held = pool.lock("several:b").acquire().await?;
    assert!(both().try_acquire().await?.is_none());
    lab.free("several:a").await;
    held.release().await?;
    both().read().acquire().await?.release().await?;
    Ok(())
}

/// A writer that is downgraded to a reader, and two entries of one owner.
async fn beside_each_other(lab: &Lab) -> Result<(), LockError> {
    let (one, two) = (lab.pool().await?, lab.pool().await?);
    let writer = one.lock("rw").write().acquire().await?;
    let reader = wait_for(two.lock("rw").read());
    lab.queued("rw").await;
    writer.downgrade().await?;
    reader.await.unwrap()?.release().await?;
    writer.release().await?;
    let step = |pool: &LockPool| pool.lock("steps").reentrant().owner("a");
    let (first, second) = (step(&one).acquire().await?, step(&two).acquire().await?);
    assert_eq!(second.release().await?, Released::StillHeld(1));
    first.release().await.map(drop)
}

async fn every_step(lab: &Lab, name: &str, kind: As) -> Result<(), LockError> {
    let key = |what: &str| format!("{name}:{what}");
    let ask = |pool: &LockPool, what: &str| kind(pool.lock(key(what)));
    let other = |pool: &LockPool, what: &str| match name {
        "read" => pool.lock(key(what)).write(), // because another reader would not wait
        "owner" => pool.lock(key(what)).reentrant().owner("b"),
        _ => ask(pool, what),
    };
    let (one, two) = (lab.pool().await?, lab.pool().await?);
    one.ping().await?;
    let held = ask(&one, "plain").renew().acquire().await?;
    held.extend(Duration::from_secs(40)).await?;
    held.verify().await?;
    assert!(two.holder(key("plain")).await?.is_some());
    assert!(other(&two, "plain").try_acquire().await?.is_none());
    held.release().await?;

    // A lock that is handed over after a heartbeat; then a waiter that gives up, and a dropped
    // lock.
    let held = ask(&one, "queue").acquire().await?;
    let waiter = wait_for(other(&two, "queue"));
    lab.queued(&key("queue")).await;
    let polls = lab.server.commandstats("evalsha").await + 2;
    until("it polled", CAP, async || {
        lab.server.commandstats("evalsha").await >= polls
    })
    .await;
    held.release().await?;
    let held = waiter.await.unwrap()?;
    let waiter = wait_for(ask(&one, "queue"));
    lab.queued(&key("queue")).await;
    waiter.abort();
    drop(held);
    lab.free(&key("queue")).await;

    let keep = ask(&one, "kept").min_hold(Duration::from_millis(50));
    keep.run(async |_| ()).await?;
    lab.free(&key("kept")).await;
    let renewed = ask(&one, "renewed").renew_every(Duration::from_millis(20));
    let renewed = renewed.run(async |_| tokio::time::sleep(Duration::from_millis(80)).await);
    renewed.await
}
