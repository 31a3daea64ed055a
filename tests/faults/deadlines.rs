//! The deadline depends on time alone: it needs no answer, and nothing begins or is renewed after
//! it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dlock_harness::{Action, until, wait};
use dlock_runtime::LostCause;
use tokio::sync::oneshot;

use crate::body::{Polls, Watched, lost, tick};
use crate::lab::{CAP, ITEM, Lab, ON_SERVER, SLACK, deletes_the_item, requests, sha};

const TTL: Duration = Duration::from_millis(900);

#[tokio::test]
async fn it_fires_although_a_renewal_hangs() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP * 2)).await;
    let renewing = lab.proxy.on(requests("renew"), Action::Hold);
    let begun = Instant::now();
    // Nothing but the deadline wakes this body.
    let locked = pool
        .lock(ITEM)
        .ttl(TTL)
        .renew()
        .run(async |_| std::future::pending::<()>().await);
    let result = wait::within(CAP, locked).await.expect("the timer fires");
    let took = begun.elapsed();
    assert_eq!(lost(result), (LostCause::Deadline, false));
    assert_eq!(renewing.fired(), 1, "a renewal hung");
    assert!(took > TTL * 9 / 10, "already after {took:?}");
    assert!(took < wait::scaled(TTL + SLACK), "only after {took:?}");
}

#[tokio::test]
async fn it_fires_in_a_black_hole_with_long_timeouts() {
    let lab = Lab::new();
    let pool = lab
        .pool_of(
            lab.config()
                .command_timeout(CAP * 2)
                .connect_timeout(CAP * 2),
        )
        .await;
    let begun = Instant::now();
    let locked = pool.lock(ITEM).ttl(TTL).renew().run(async |_| {
        lab.proxy.blackhole();
        std::future::pending::<()>().await;
    });
    let result = wait::within(CAP, locked).await.expect("the timer fires");
    assert_eq!(lost(result), (LostCause::Deadline, false));
    assert!(begun.elapsed() < wait::scaled(TTL + SLACK));
}

/// The deadline counts from before the request was sent; the server's lease, from when it arrived.
#[tokio::test]
async fn it_is_never_later_than_the_servers() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    lab.proxy.delay(Duration::from_millis(100)); // each way
    let lock = pool.lock(ITEM).ttl(Duration::from_secs(4));
    let lock = lock.renew_every(Duration::from_millis(500));
    let guard = lock.acquire().await.unwrap();
    let renewing = lab.proxy.on(requests("renew").every(), Action::Signal);
    while renewing.fired() < 3 {
        let (at, ours) = (Instant::now(), guard.remaining());
        let servers = Duration::from_millis(lab.server.pttl(ON_SERVER).await.try_into().unwrap());
        assert!(
            ours <= servers + at.elapsed(),
            "{ours:?} here, {servers:?} there"
        );
        wait::pause(Duration::from_millis(10)).await;
    }
    guard.release().await.unwrap();
}

/// The reply has arrived, but the caller was blocked until its lease was over: it gets another
/// lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_read_after_it_is_none() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    lab.proxy.delay(Duration::from_millis(100)); // so that the reply arrives during the block
    let granted = lab.proxy.on(requests("acquire").every(), Action::Signal);
    let acquire = pool.lock(ITEM).ttl(TTL).wait(CAP).acquire();
    let blocking = async { thread::sleep(TTL * 3 / 2) };
    let (guard, ()) = tokio::join!(acquire, blocking);
    let guard = guard.unwrap();
    assert!(guard.is_held() && guard.remaining() > Duration::ZERO);
    assert!(granted.fired() >= 2, "the first grant was over");
    guard.release().await.unwrap();
    lab.until_free().await;
}

/// The body's own waker fires while another task blocks the executor past the deadline.
#[tokio::test]
async fn a_body_that_was_woken_too_late_is_not_polled_again() {
    let lab = Lab::new();
    let (pool, polls) = (lab.pool().await, Arc::new(Polls::default()));
    let (wake, woken) = oneshot::channel();
    let locked = pool
        .lock(ITEM)
        .ttl(TTL)
        .run(async |_| Watched::new(&polls, woken).await);
    let blocking = async {
        until("the body waits", CAP, async || polls.all() > 0).await;
        wake.send(()).unwrap();
        thread::sleep(TTL * 3 / 2);
        polls.all()
    };
    let (result, before) = tokio::join!(locked, blocking);
    assert_eq!(lost(result), (LostCause::Deadline, false));
    assert_eq!(polls.all(), before, "polled again");
    assert_eq!(polls.late(), 0);
}

#[tokio::test]
async fn a_body_blocked_past_it_that_wants_more_is_stopped() {
    let lab = Lab::new();
    let (pool, polls) = (lab.pool().await, Arc::new(Polls::default()));
    let locked = pool.lock(ITEM).ttl(TTL).run(async |_| {
        let body = async {
            thread::sleep(TTL * 3 / 2);
            tick().await;
        };
        Watched::new(&polls, body).await;
    });
    assert_eq!(lost(locked.await), (LostCause::Deadline, false));
    assert_eq!((polls.all(), polls.late()), (1, 0));
}

/// Renewals arrive and lengthen the key's life, but their answers are lost: after the deadline the
/// key is given back, not left for a whole ttl, and no renewal follows.
#[tokio::test]
async fn no_renewal_outlives_it_and_the_key_is_given_back() {
    const LONGER: Duration = Duration::from_secs(4);
    let lab = Lab::new();
    let (pool, polls) = (lab.pool().await, Arc::new(Polls::default()));
    let monitor = lab.server.monitor();
    let unanswered = lab.proxy.on(requests("renew").every(), Action::HoldReply);
    let every = Duration::from_millis(200);
    let locked = pool.lock(ITEM).ttl(LONGER).renew_every(every);
    let result = locked
        .run(async |_| Watched::new(&polls, tick()).await)
        .await;
    assert_eq!(lost(result), (LostCause::Deadline, false));
    assert_eq!(polls.late(), 0);
    assert!(
        unanswered.count() >= 3,
        "renewals were executed all the time"
    );
    let left = lab.server.pttl(ON_SERVER).await;
    assert!(left == -2 || left > 2000, "only {left} ms were left");
    until("the key is free", Duration::from_millis(1500), async || {
        lab.locks().await.is_empty()
    })
    .await;
    wait::pause(every * 5).await;
    let lines = monitor.settled().await;
    let renew = sha("renew");
    let (renewed, freed) = (
        lines.iter().rposition(|line| line.contains(&renew)),
        lines.iter().rposition(|line| deletes_the_item(line)),
    );
    assert!(
        renewed.is_some() && renewed < freed,
        "renewed at {renewed:?}, freed at {freed:?}"
    );
}
