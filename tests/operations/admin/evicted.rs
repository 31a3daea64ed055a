//! An eviction ends one hold, grants to the next waiter in the same step, and the evicted holder
//! notices.

use std::time::Duration;

use dlock_harness::until;
use dlock_runtime::{
    Admin, Config, Eviction, Fingerprint, LockError, LockGuard, LockPool, LostCause, Notice,
    Refusal,
};
use dlock_tests::patient;
use dlock_tests::served::documented_user;

use super::{CAP, Lab, granted, held, pool, show, soon, wait};

async fn fingerprint(admin: &Admin, key: &str) -> Fingerprint {
    show(admin, key).await.holders()[0].fingerprint()
}

fn lost(result: Result<(), LockError>) -> LostCause {
    match result {
        Err(LockError::Lost { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

/// When the call returns, the server has granted the lock to the waiter and told it, so nothing
/// waits for a poll.
#[tokio::test]
async fn the_next_waiter_is_granted_the_lock_at_once() {
    let lab = Lab::new().await;
    let guard = held(lab.here.lock("item:7")).await;
    let waiter = wait(&lab.admin, lab.there.lock("item:7"), "item:7", 1).await;
    let before = show(&lab.admin, "item:7").await;
    let told = lab.server.commandstats("publish").await;
    let done = lab.admin.evict("item:7", before.holders()[0].fingerprint());
    assert_eq!(done.await.unwrap(), Eviction::Done(Notice::Sent));
    let after = show(&lab.admin, "item:7").await;
    assert_eq!(lab.server.commandstats("publish").await, told + 2);
    assert_eq!(after.waiter_count(), 0);
    assert_eq!(
        after.holders()[0].fingerprint(),
        before.waiters()[0].fingerprint()
    );
    let next = granted(waiter).await;
    assert!(next.fence() > guard.fence());
    assert_eq!(lost(guard.verify().await), LostCause::Gone);
    next.verify().await.unwrap();
}

/// An administrator that may not publish, at all or there.
#[tokio::test]
async fn a_holder_that_is_not_told_notices_at_its_next_renewal() {
    let lab = Lab::new().await;
    for (rule, key) in [("-publish", "a"), ("resetchannels", "b")] {
        documented_user(&lab.server, &[rule]).await;
        let url = format!("redis://dlock:secret@{}", lab.server.addr());
        let admin = pool(patient(url)).await.admin();
        for request in [lab.here.lock(key), lab.here.lock(format!("{key}s")).read()] {
            let guard = held(request.renew_every(Duration::from_millis(100))).await;
            let key = guard.key().as_str()["lock:".len()..].to_owned();
            let holder = fingerprint(&admin, &key).await;
            let done = admin.evict(&*key, holder).await.unwrap();
            assert_eq!(done, Eviction::Done(Notice::Failed), "{rule}");
            assert_eq!(soon(guard.lost()).await, LostCause::Gone);
        }
    }
}

/// Its entry still names the channel of its first connection.
#[tokio::test]
async fn a_holder_that_has_reconnected_notices_at_its_next_renewal() {
    let lab = Lab::new().await;
    let request = lab.here.lock("item:7");
    let guard = held(request.renew_every(Duration::from_millis(100))).await;
    let holder = fingerprint(&lab.admin, "item:7").await;
    let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
    lab.server.cmd(&kill).await;
    until("all are connected again", CAP, async || {
        guard.verify().await.is_ok() && lab.admin.show("item:7").await.is_ok()
    })
    .await;
    let done = lab.admin.evict("item:7", holder).await.unwrap();
    assert_eq!(done, Eviction::Done(Notice::Sent));
    assert_eq!(soon(guard.lost()).await, LostCause::Gone);
}

#[tokio::test]
async fn nobody_is_evicted_by_another_fingerprint() {
    let lab = Lab::new().await;
    let guard = held(lab.here.lock("item:7")).await;
    let _waiter = wait(&lab.admin, lab.there.lock("item:7"), "item:7", 1).await;
    let lock = show(&lab.admin, "item:7").await;
    let others = held(lab.here.lock("item:8")).await;
    let wrong = [
        "0123456789abcdef".parse().unwrap(),
        lock.waiters()[0].fingerprint(),
        fingerprint(&lab.admin, "item:8").await,
    ];
    for holder in wrong {
        let done = lab.admin.evict("item:7", holder).await.unwrap();
        assert_eq!(done, Eviction::NoSuchHolder);
    }
    assert_eq!(show(&lab.admin, "item:7").await.waiter_count(), 1);
    guard.verify().await.unwrap();
    others.release().await.unwrap();
    let free = lab.admin.evict("item:8", wrong[2]).await.unwrap();
    assert_eq!(free, Eviction::Free);
}

/// A waiter that was granted the lock meanwhile is not hit by the eviction of the one before.
#[tokio::test]
async fn a_late_eviction_does_not_hit_the_next_holder() {
    let lab = Lab::new().await;
    let guard = held(lab.here.lock("item:7")).await;
    let first = fingerprint(&lab.admin, "item:7").await;
    guard.release().await.unwrap();
    let next = held(lab.there.lock("item:7")).await;
    let done = lab.admin.evict("item:7", first).await.unwrap();
    assert_eq!(done, Eviction::NoSuchHolder);
    next.verify().await.unwrap();
}

#[tokio::test]
async fn one_of_many_holders() {
    let lab = Lab::new().await;
    let one = held(lab.here.lock("catalogue").read()).await;
    let one_is = fingerprint(&lab.admin, "catalogue").await;
    let other = held(lab.there.lock("catalogue").read()).await;
    let writer = wait(
        &lab.admin,
        lab.there.lock("catalogue").write(),
        "catalogue",
        1,
    )
    .await;
    let evict = async |holder| lab.admin.evict("catalogue", holder).await.unwrap();
    assert_eq!(evict(one_is).await, Eviction::Done(Notice::Sent));
    assert_eq!(evict(one_is).await, Eviction::NoSuchHolder);
    assert_eq!(lost(one.verify().await), LostCause::Gone);
    other.verify().await.unwrap();
    let rest = fingerprint(&lab.admin, "catalogue").await;
    assert_eq!(evict(rest).await, Eviction::Done(Notice::Sent));
    let writer = granted(writer).await;
    writer.downgrade().await.unwrap();
    let reads = fingerprint(&lab.admin, "catalogue").await;
    assert_eq!(evict(reads).await, Eviction::Done(Notice::Sent));
    assert_eq!(lost(writer.verify().await), LostCause::Gone);
}

/// All permits of the holder, so that the waiter fits.
#[tokio::test]
async fn a_holder_of_several_permits() {
    let lab = Lab::new().await;
    let render = |take| lab.here.lock("render").permits(5).take(take);
    let three = held(render(3)).await;
    let three_is = fingerprint(&lab.admin, "render").await;
    let one = held(render(1)).await;
    let waiter = wait(&lab.admin, render(4), "render", 1).await;
    let done = lab.admin.evict("render", three_is).await.unwrap();
    assert_eq!(done, Eviction::Done(Notice::Sent));
    let four = granted(waiter).await;
    four.verify().await.unwrap();
    one.verify().await.unwrap();
    assert_eq!(lost(three.verify().await), LostCause::Gone);
    assert_eq!(show(&lab.admin, "render").await.holder_count(), 2);
}

#[tokio::test]
async fn an_owners_entry_and_what_min_hold_keeps() {
    let lab = Lab::new().await;
    let owned = |pool: &LockPool| pool.lock("order:7").reentrant().owner("w1");
    let one = held(owned(&lab.here)).await;
    let one_is = fingerprint(&lab.admin, "order:7").await;
    let other = held(owned(&lab.there)).await;
    let evict = async |key: &str, holder| lab.admin.evict(key, holder).await.unwrap();
    assert_eq!(evict("order:7", one_is).await, Eviction::Done(Notice::Sent));
    assert_eq!(lost(one.verify().await), LostCause::Gone);
    other.verify().await.unwrap();

    let kinds = [
        lab.here.lock("x"),
        lab.here.lock("p").permits(3).take(2),
        lab.here.lock("o").reentrant().owner("w1"),
    ];
    for request in kinds {
        let guard = held(request.min_hold(super::LONG)).await;
        let key = guard.key().as_str()["lock:".len()..].to_owned();
        guard.release().await.unwrap();
        let kept = show(&lab.admin, &key).await.holders()[0].clone();
        assert!(kept.is_kept());
        let done = evict(&key, kept.fingerprint()).await;
        assert_eq!(done, Eviction::Done(Notice::NoAddress), "it is done");
        assert_eq!(lab.admin.show(&*key).await.unwrap(), None);
    }
}

/// Holder and waiter of one process share a local queue.
async fn in_one_process(pool: &LockPool, notice: Notice) {
    let admin = pool.admin();
    let guard = held(pool.lock("item:7")).await;
    let waiter = wait(&admin, pool.lock("item:7"), "item:7", 1).await;
    let holder = fingerprint(&admin, "item:7").await;
    let done = admin.evict("item:7", holder).await.unwrap();
    assert_eq!(done, Eviction::Done(notice));
    let next: LockGuard = granted(waiter).await;
    assert!(next.fence() > guard.fence());
    assert_eq!(lost(guard.verify().await), LostCause::Gone);
    next.release().await.unwrap();
    until("it is free", CAP, async || {
        admin.show("item:7").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn in_one_process_on_every_server() {
    in_one_process(&Lab::new().await.here, Notice::Sent).await;
    let without_scripts = Lab::with(Config::without_scripts).await;
    in_one_process(&without_scripts.here, Notice::NoAddress).await;
    in_one_process(&pool("memory://".into()).await, Notice::Sent).await;
}

#[tokio::test]
async fn without_scripts_only_an_exclusive_holder() {
    let lab = Lab::new().await;
    let plain = pool(dlock_tests::patient(lab.server.url()).without_scripts()).await;
    let guard = held(lab.here.lock("item:7")).await;
    let waiter = wait(&lab.admin, lab.there.lock("item:7"), "item:7", 1).await;
    let holder = fingerprint(&plain.admin(), "item:7").await;
    let done = plain.admin().evict("item:7", holder).await.unwrap();
    assert_eq!(done, Eviction::Done(Notice::Sent));
    granted(waiter).await.verify().await.unwrap();
    assert_eq!(lost(guard.verify().await), LostCause::Gone);

    let reader = held(lab.here.lock("catalogue").read()).await;
    let holder = fingerprint(&plain.admin(), "catalogue").await;
    let refused = plain.admin().evict("catalogue", holder).await.unwrap_err();
    assert!(matches!(refused, LockError::Config { .. }), "{refused:?}");
    assert!(refused.to_string().contains("needs scripts"), "{refused}");
    reader.verify().await.unwrap();
}

/// A lock of redis-py can be evicted like any other.
#[tokio::test]
async fn another_programs_lock() {
    let lab = Lab::new().await;
    let set = ["SET", "lock:item:7", "a token of redis-py", "NX"];
    lab.server.cmd(&set).await;
    let lock = show(&lab.admin, "item:7").await;
    assert_eq!(lock.remaining(), None, "it has no end");
    let holder = lock.holders()[0].fingerprint();
    let done = lab.admin.evict("item:7", holder).await.unwrap();
    assert_eq!(done, Eviction::Done(Notice::NoAddress));
    let _ours = held(lab.here.lock("item:7")).await;
}

#[tokio::test]
async fn what_can_name_no_lock_is_refused() {
    let lab = Lab::new().await;
    let holder = "0123456789abcdef".parse().unwrap();
    let refused = lab.admin.evict("@w:{item}", holder).await;
    assert!(matches!(refused, Err(LockError::InvalidKey { .. })));
    lab.server.cmd(&["RPUSH", "lock:list", "a"]).await;
    let refused = lab.admin.evict("list", holder).await.unwrap_err();
    let LockError::Refused { reason, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, Refusal::WrongType);
}
