//! A grant that its waiter learns of late: the lease counts from when it was made, not from when it
//! was read.
//!
//! Counterexamples of the protocol's model (M1, M2, M3, M10, M19), each with a rival that holds the
//! lock by then.

use std::time::{Duration, Instant};

use dlock_harness::{Action, until, wait};
use dlock_runtime::{LockGuard, LockPool, LostCause, Wait};

use crate::lab::{CAP, ITEM, Lab, ON_SERVER, SLACK, acquires, requests};
use crate::waiters::{AT_ONCE, CLAIM, Waiter, grants, item, one_waits, turn, waits};

/// A lease that is over before a waiter's second poll.
const SHORT: Duration = Duration::from_millis(300);

/// The rival takes the lock as soon as the waiter's grant is over.
async fn rival(lab: &Lab, direct: &LockPool) -> LockGuard {
    until("the grant is over", CAP, async || {
        lab.value(ON_SERVER).await.is_none()
    })
    .await;
    item(direct).wait(Wait::Once).acquire().await.unwrap()
}

/// The rival keeps the lock undisturbed; then the waiter gets it after all.
async fn rival_first(lab: &Lab, rival: LockGuard, waiter: Waiter) {
    lab.stays(&rival).await;
    assert!(!waiter.is_finished(), "two hold it");
    rival.release().await.unwrap();
    turn(waiter).await;
}

/// M10. The client has just read the server's clock, so it knows that the push is old; or nothing
/// was read for longer than an estimate of that clock may be old.
#[tokio::test]
async fn a_push_read_after_its_lease_begins_nothing() {
    for is_silent in [false, true] {
        let lab = Lab::new();
        let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
        let direct = lab.direct().await;
        let holder = item(&direct).acquire().await.unwrap();
        let mut request = item(&pool);
        if !is_silent {
            request = request.ttl(SHORT).renew();
        }
        let waiter = waits(request);
        lab.until_queued(1).await;
        if is_silent {
            lab.no_polls();
        }
        let late = lab.proxy.on(grants(), Action::HoldMessage);
        holder.release().await.unwrap();
        late.seen().await;
        let rival = rival(&lab, &direct).await;
        lab.all_passes(); // the polls too, which find that the queue entry is gone
        rival_first(&lab, rival, waiter).await;
    }
}

/// M1. A poll that took the lock again would give one token two lives.
#[tokio::test]
async fn a_poll_executed_after_the_lease_creates_nothing() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let direct = lab.direct().await;
    let holder = item(&direct).acquire().await.unwrap();
    let waiter = waits(item(&pool).ttl(SHORT).renew());
    lab.until_queued(1).await;
    let old = lab.places().await.remove(0);
    let held = lab.proxy.on(requests("poll"), Action::Hold);
    lab.no_pushes();
    held.seen().await;
    holder.release().await.unwrap();
    until("the grant is over", CAP, async || {
        lab.value(ON_SERVER).await.is_none()
    })
    .await;
    let monitor = lab.server.monitor();
    lab.all_passes();
    turn(waiter).await;
    let lines = monitor.settled().await;
    let set = |line: &&String| line.contains("\"SET\" \"lock:item\"");
    let tokens: Vec<_> = lines.iter().filter(set).collect();
    assert!(!tokens.is_empty());
    for line in tokens {
        let value = line.split('"').nth(5).unwrap();
        assert!(!old.ends_with(value), "the old token lives again");
    }
}

/// M2. Granted while the answer to its acquire was lost: no second acquire is sent for that token.
#[tokio::test]
async fn an_acquire_whose_answer_is_lost_is_not_sent_again() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let direct = lab.direct().await;
    let holder = item(&direct).acquire().await.unwrap();
    let answer = lab.proxy.on(acquires(), Action::HoldReply);
    let waiter = waits(item(&pool));
    answer.seen().await;
    let old = lab.places().await.remove(0);
    holder.release().await.unwrap();
    let granted = lab.value(ON_SERVER).await.unwrap();
    assert!(old.ends_with(&granted));
    let cut = Instant::now();
    lab.proxy.cut_all();
    let turn = turn(waiter).await;
    assert_ne!(lab.value(ON_SERVER).await.unwrap(), granted);
    let took = turn.at - cut;
    assert!(took < wait::scaled(AT_ONCE), "it expired: {took:?}");
    lab.stays(&turn.guard).await;
}

/// M3. The answer to a poll is read when the lease that it reports is over.
#[tokio::test]
async fn a_grant_found_by_a_poll_counts_from_when_that_was_sent() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let direct = lab.direct().await;
    let holder = item(&direct).acquire().await.unwrap();
    let waiter = waits(item(&pool).ttl(SHORT).renew());
    lab.until_queued(1).await;
    lab.no_pushes();
    let held = lab.proxy.on(requests("poll"), Action::Hold);
    held.seen().await;
    let monitor = lab.server.monitor();
    holder.release().await.unwrap();
    lab.proxy.stall_replies();
    lab.proxy.release_held();
    monitor
        .wait_for(&format!("\"{}\"", crate::lab::sha("poll")), CAP)
        .await;
    let rival = rival(&lab, &direct).await;
    lab.proxy.clear_triggers();
    lab.proxy.pass();
    rival_first(&lab, rival, waiter).await;
}

/// M19, and M3 if no push comes. It is had in its turn; then the wire goes silent: the lock is lost
/// when the server's claim ends, not after a whole ttl.
#[tokio::test]
async fn a_grant_is_worth_its_claim_until_it_is_confirmed() {
    for is_told in [true, false] {
        let lab = Lab::new();
        let (pool, direct) = (lab.pool().await, lab.direct().await);
        if !is_told {
            lab.no_pushes();
        }
        let holder = item(&direct).acquire().await.unwrap();
        let waiter = waits(item(&pool).renew());
        lab.until_queued(1).await;
        let renewals = lab.proxy.on(requests("renew").every(), Action::CutBefore);
        holder.release().await.unwrap();
        let had = turn(waiter).await;
        // Read first: the lease ends no earlier than this and what is left.
        let begun = Instant::now();
        let left = had.guard.remaining();
        assert!(left <= CLAIM, "more than was granted");
        let rival = waits(item(&direct));
        let cause = wait::within(CAP, had.guard.lost()).await;
        assert_eq!(cause, Some(LostCause::Deadline));
        assert!(renewals.fired() > 0, "it tried to make it longer");
        let took = had.at.elapsed();
        assert!(
            took < wait::scaled(CLAIM + SLACK * 2),
            "lost after {took:?}"
        );
        drop(had.guard);
        assert!(turn(rival).await.at >= begun + left, "two hold it");
    }
}

/// The time that the push took is subtracted from its lease.
#[tokio::test]
async fn a_grant_heard_over_a_slow_wire_is_worth_less() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let holder = item(&lab.direct().await).acquire().await.unwrap();
    let slow = Duration::from_millis(200);
    lab.proxy.delay(slow);
    let waiter = lab.queued(&pool).await;
    lab.no_polls();
    holder.release().await.unwrap();
    let turn = turn(waiter).await;
    let left = turn.guard.remaining();
    assert!(left + slow <= CLAIM, "{left:?}");
    lab.all_passes();
    lab.stays(&turn.guard).await;
}

/// Once it is confirmed, the lock lasts its whole ttl.
#[tokio::test]
async fn a_grant_in_turn_outlives_its_claim() {
    let (lab, _pool, direct, holder, waiter) = one_waits().await;
    holder.release().await.unwrap();
    let turn = turn(waiter).await;
    assert!(turn.guard.remaining() <= CLAIM);
    let past_the_claim = turn.at + CLAIM + SLACK;
    while Instant::now() < past_the_claim {
        assert!(turn.guard.is_held());
        wait::pause(Duration::from_millis(50)).await;
    }
    lab.stays(&turn.guard).await;
    let busy = direct.lock(ITEM).wait(Wait::Once).acquire().await;
    busy.unwrap_err();
}
