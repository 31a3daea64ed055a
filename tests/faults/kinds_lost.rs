//! Leases of every kind: they are renewed through an outage, and lost when their key or entry is
//! gone (each holder's alone); and what a body may do then.

use std::time::Duration;

use dlock_harness::{Action, until, wait};
use dlock_runtime::{LockError, LockGuard, LockPool, LostCause, distributed_lock};
use dlock_tests::{KINDS, of_kind};
use futures_util::future::join_all;
use tokio::sync::Notify;

use crate::body::{lost, tick};
use crate::lab::{CAP, ITEM, LONG, Lab, ON_SERVER, SLACK, TTL, requests};

/// One lock of each kind, each at a key of its own, and one of several keys; all are renewed.
async fn one_of_each(pool: &LockPool, ttl: Duration) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for (kind, _) in KINDS {
        let request = of_kind(pool.lock(format!("{ITEM}:{kind}")), kind);
        guards.push(request.ttl(ttl).renew().acquire().await.unwrap());
    }
    let keys = pool.lock_all(["one", "other"]).ttl(ttl).renew();
    guards.push(keys.acquire().await.unwrap());
    guards
}

#[tokio::test]
async fn every_kind_is_renewed_through_an_outage() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let ttl = TTL * 2;
    let guards = one_of_each(&pool, ttl).await;
    let renewals = lab.proxy.on(requests("renew").every(), Action::Signal);
    until("the first renewal", CAP, async || renewals.fired() >= 1).await;
    lab.proxy.blackhole();
    until("one that is lost", CAP, async || renewals.fired() >= 2).await;
    lab.proxy.pass();
    wait::pause(ttl).await;
    for guard in &guards {
        assert!(guard.remaining() > ttl / 3, "{guard:?}");
        guard.verify().await.unwrap();
    }
    drop(guards);
    lab.until_free().await;
}

/// The next renewal tells each guard, and stops its body.
async fn all_lose(fault: &[&str]) {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let guards = one_of_each(&pool, TTL).await;
    let shared = of_kind(pool.lock(ITEM), "r").ttl(TTL).renew();
    let body = shared.run(async |_| tick().await);
    let told = async {
        until("all are held", CAP, async || {
            lab.locks().await.len() == KINDS.len() + 3
        })
        .await;
        let mut words: Vec<String> = fault.iter().map(|&word| word.to_owned()).collect();
        if words[0] == "DEL" {
            words.extend(lab.locks().await);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        lab.server.cmd(&words).await;
        let all = join_all(guards.iter().map(LockGuard::lost));
        wait::within(TTL + SLACK, all).await.expect("told in time")
    };
    let (stopped, causes) = tokio::join!(body, told);
    assert_eq!(lost(stopped), (LostCause::Gone, false));
    for (guard, cause) in guards.iter().zip(causes) {
        assert_eq!(cause, LostCause::Gone, "{guard:?}");
        assert!(!guard.is_held());
    }
    drop(guards);
    assert!(lab.locks().await.is_empty(), "what was deleted stays so");
}

#[tokio::test]
async fn every_kind_notices_that_its_key_was_deleted() {
    all_lose(&["DEL"]).await;
}

#[tokio::test]
async fn every_kind_notices_that_all_keys_were_flushed() {
    all_lose(&["FLUSHALL"]).await;
}

/// One entry is removed from the set: its holder has lost the lock, the others have not.
#[tokio::test]
async fn an_entry_that_is_gone_is_its_holders_loss_alone() {
    for kind in ["r", "p:1/3", "o:a"] {
        let lab = Lab::new();
        let pool = lab.pool().await;
        let request = || of_kind(pool.lock(ITEM), kind).ttl(TTL).renew();
        let mut guards = Vec::new();
        for _ in 0..3 {
            guards.push(request().acquire().await.unwrap());
        }
        let entries: Vec<String> = lab.server.ask(&["ZRANGE", ON_SERVER, "0", "0"]).await;
        lab.server.cmd(&["ZREM", ON_SERVER, &entries[0]]).await;
        let any_lost = async || guards.iter().any(|guard| !guard.is_held());
        until("one is lost", CAP, any_lost).await;
        wait::pause(TTL).await; // all of them have been renewed since
        let held = guards.iter().filter(|guard| guard.is_held()).count();
        assert_eq!(held, 2, "{kind}");
    }
}

/// The downgrade does not bring the lock back either.
#[tokio::test]
async fn a_downgrade_of_what_is_gone_is_its_loss() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let writer = pool.lock(ITEM).write().ttl(LONG).acquire().await.unwrap();
    lab.server.cmd(&["DEL", ON_SERVER]).await;
    assert!(writer.is_held(), "nobody has asked yet");
    assert_eq!(lost(writer.downgrade().await), (LostCause::Gone, false));
    assert!(!writer.is_held());
    assert_eq!(lab.locks().await, [""; 0]);
}

/// One of several keys is gone: the body is stopped, and the other keys are given back.
#[tokio::test]
async fn one_of_several_keys_that_is_gone_ends_all() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let body = pool.lock_all(["a", "b", "c"]).ttl(TTL).renew();
    let body = body.run(async |_| tick().await);
    let deleting = async {
        until("held", CAP, async || lab.locks().await.len() == 3).await;
        lab.server.cmd(&["DEL", "lock:b"]).await;
    };
    let both = async { tokio::join!(body, deleting) };
    let (stopped, ()) = wait::within(TTL + SLACK, Box::pin(both))
        .await
        .expect("stopped");
    assert_eq!(lost(stopped), (LostCause::Gone, false));
    lab.until_free().await;
}

/// Reports that it began, waits for its loss, and reports that.
macro_rules! outlives {
    ($name:ident, $($kind:tt)*) => {
        #[distributed_lock($($kind)*, ttl = "2s", renew, on_lost = "finish", guard = lock, pool = pool)]
        async fn $name(pool: &LockPool, began: &Notify) -> Result<(LostCause, bool, Duration), LockError> {
            began.notify_one();
            let cause = lock.lost().await;
            tokio::time::sleep(Duration::from_millis(20)).await; // it is still polled
            Ok((cause, lock.is_held(), lock.remaining()))
        }
    };
}

outlives!(has_it_alone, key = "item");
outlives!(reads, key = "item", read);
outlives!(writes, key = "item", write);
outlives!(has_a_permit, key = "item", permits = 3);
outlives!(is_an_owner, key = "item", reentrant, owner = "order:7");
outlives!(is_fair, key = "item", fair);
outlives!(has_several, keys = ["item", "other"]);

#[tokio::test]
async fn a_body_of_any_kind_may_finish_after_its_loss() {
    let lab = Lab::new();
    let (pool, began) = (lab.pool().await, Notify::new());
    let deleting = async || {
        began.notified().await;
        lab.server.cmd(&["DEL", ON_SERVER]).await;
    };
    macro_rules! finishes {
        ($($name:ident),*) => {$(
            let (value, ()) = tokio::join!($name(&pool, &began), deleting());
            let told = (LostCause::Gone, false, Duration::ZERO);
            assert_eq!(value.unwrap(), told, stringify!($name));
            assert_eq!(lab.server.pttl(ON_SERVER).await, -2, "what was deleted stays so");
            lab.until_free().await;
        )*};
    }
    finishes!(
        has_it_alone,
        reads,
        writes,
        has_a_permit,
        is_an_owner,
        is_fair,
        has_several
    );
}
