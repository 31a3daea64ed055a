//! A server that is out of memory: waiters that are queued already get the lock, as `waiting_pushes`
//! shows too; new ones are refused and leave nothing.

use dlock_runtime::{Refusal, Released, Wait};

use crate::body::refused;
use crate::lab::{CAP, ITEM, LONG, Lab, ON_SERVER, requests};
use crate::waiters::{item, one_waits, turn};
use dlock_harness::Action;

/// From here on every write that needs memory fails.
pub(crate) async fn fill(lab: &Lab) {
    lab.server
        .cmd(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])
        .await;
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let full = lab.server.try_cmd(&["SET", "more", "1"]).await;
    assert!(full.unwrap_err().to_string().contains("OOM"));
}

/// A release that finds nothing still grants a lock that is free.
#[tokio::test]
async fn a_waiter_gets_by_push_what_its_holder_had_lost() {
    let (lab, _pool, _direct, holder, waiter) = one_waits().await;
    fill(&lab).await;
    lab.no_polls();
    lab.server.cmd(&["DEL", ON_SERVER]).await;
    assert_eq!(holder.release().await.unwrap(), Released::NotHeld);
    let turn = turn(waiter).await;
    lab.all_passes();
    lab.stays(&turn.guard).await;
}

/// Polling takes no memory, so the queue entry is kept; neither does granting a lock that a dead
/// holder left.
#[tokio::test]
async fn a_waiter_keeps_its_place_and_gets_what_expires() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = direct.lock(ITEM).ttl(LONG).acquire().await.unwrap();
    let waiter = lab.queued(&pool).await;
    let place = lab.places().await;
    fill(&lab).await;
    let polls = lab.proxy.on(requests("poll").nth(3), Action::Signal);
    polls.seen().await;
    assert_eq!(lab.places().await, place);
    lab.server.cmd(&["PEXPIRE", ON_SERVER, "10"]).await;
    lab.stays(&turn(waiter).await.guard).await;
    drop(holder);
}

#[tokio::test]
async fn who_comes_now_is_refused_and_leaves_nothing() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    fill(&lab).await;
    for (key, wait) in [
        (ITEM, Wait::For(CAP)),
        ("free", Wait::For(CAP)),
        (ITEM, Wait::Forever),
        ("free", Wait::Forever),
        ("free", Wait::Once),
    ] {
        let answer = pool.lock(key).wait(wait).acquire().await;
        assert_eq!(refused(answer), Refusal::OutOfMemory);
    }
    assert_eq!(lab.locks().await, [ON_SERVER], "the holder's alone");
    lab.stays(&holder).await;
    holder.release().await.unwrap();
    assert!(lab.locks().await.is_empty());
}
