//! `extend` and `verify` called by hand; and neither they nor a renewal ever create a key.

use std::time::Duration;

use dlock_harness::{Action, until, wait};
use dlock_runtime::{LockError, LostCause};

use crate::body::lost;
use crate::lab::{CAP, ITEM, LONG, Lab, ON_SERVER, SOON, TTL, requests};

#[tokio::test]
async fn neither_it_nor_a_renewal_shortens_a_lease() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(TTL).renew().acquire().await.unwrap();
    guard.extend(LONG).await.unwrap();
    assert!(lab.server.pttl(ON_SERVER).await > 27_000);
    guard.extend(TTL).await.unwrap();
    assert!(guard.remaining() > LONG / 2);
    assert!(lab.server.pttl(ON_SERVER).await > 20_000);
    let renewing = lab.proxy.on(requests("renew").every(), Action::Signal);
    until("two renewals", CAP, async || renewing.fired() >= 2).await;
    assert!(guard.remaining() > LONG / 2);
    assert!(lab.server.pttl(ON_SERVER).await > 20_000);
}

#[tokio::test]
async fn verify_tells_of_what_was_deleted_or_taken() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    for taken in [
        &[][..],
        &["SET", ON_SERVER, "theirs"],
        &["LPUSH", ON_SERVER, "theirs"],
    ] {
        let guard = pool.lock(ITEM).ttl(LONG).acquire().await.unwrap();
        guard.verify().await.unwrap();
        lab.server.cmd(&["DEL", ON_SERVER]).await;
        if !taken.is_empty() {
            lab.server.cmd(taken).await;
        }
        assert!(guard.is_held(), "nobody has asked yet");
        let told = lost(guard.verify().await);
        assert_eq!(told, (LostCause::Gone, false), "{taken:?}");
        assert!(!guard.is_held());
        assert_eq!(wait::within(CAP, guard.lost()).await, Some(LostCause::Gone));
        drop(guard);
        lab.server.cmd(&["DEL", ON_SERVER]).await;
    }
}

#[tokio::test]
async fn an_outage_is_no_loss() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(LONG).acquire().await.unwrap();
    lab.proxy.blackhole();
    assert!(matches!(
        guard.verify().await,
        Err(LockError::Unavailable { .. })
    ));
    assert!(matches!(
        guard.extend(LONG).await,
        Err(LockError::Unavailable { .. })
    ));
    assert!(guard.is_held());
    lab.proxy.pass();
    until("it is confirmed again", SOON, async || {
        guard.verify().await.is_ok()
    })
    .await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn nothing_creates_a_key_that_was_deleted() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let renewed = pool.lock(ITEM).ttl(TTL).renew().acquire().await.unwrap();
    let by_hand = pool.lock("by-hand").ttl(TTL).acquire().await.unwrap();
    let monitor = lab.server.monitor();
    lab.server
        .cmd(&["DEL", ON_SERVER, by_hand.key().as_str()])
        .await;
    assert_eq!(lost(by_hand.extend(LONG).await), (LostCause::Gone, false));
    assert_eq!(
        wait::within(TTL * 2, renewed.lost()).await,
        Some(LostCause::Gone)
    );
    wait::pause(TTL).await; // three periods
    drop((renewed, by_hand));
    let lines = monitor.settled().await;
    assert!(
        !lines.iter().any(|line| line.contains("\"SET\"")),
        "{lines:?}"
    );
    assert!(lab.locks().await.is_empty());
}

/// The answer comes a second late, and the lease is no longer than the server keeps it.
#[tokio::test]
async fn a_late_answer_counts_from_when_it_was_asked_for() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let guard = pool.lock(ITEM).ttl(CAP).acquire().await.unwrap();
    let answer = lab.proxy.on(requests("renew"), Action::HoldReply);
    let late = async {
        answer.seen().await;
        wait::pause(Duration::from_secs(1)).await;
        lab.proxy.release_held();
    };
    let (extended, ()) = tokio::join!(guard.extend(LONG), late);
    extended.unwrap();
    let left = lab.server.pttl(ON_SERVER).await;
    let left = Duration::from_millis(u64::try_from(left).unwrap());
    let counted = guard.remaining();
    assert!(counted > CAP && counted <= left, "{counted:?} of {left:?}");
}

#[tokio::test]
async fn an_answer_that_comes_after_the_lease_was_over_is_a_loss() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let lease = Duration::from_millis(700);
    let guard = pool.lock(ITEM).ttl(lease).acquire().await.unwrap();
    let answer = lab.proxy.on(requests("renew"), Action::HoldReply);
    let late = async {
        answer.seen().await;
        until("its lease is over", CAP, async || !guard.is_held()).await;
        lab.proxy.release_held();
    };
    let (extended, ()) = tokio::join!(guard.extend(LONG), late);
    assert_eq!(lost(extended), (LostCause::Deadline, false));
    assert!(!guard.is_held());
}

/// An extended lease has to be given back even if that takes longer than the lock's own ttl.
#[tokio::test]
async fn an_extended_lease_is_given_back_after_an_outage() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(TTL).acquire().await.unwrap();
    guard.extend(LONG).await.unwrap();
    lab.proxy.blackhole();
    drop(guard);
    wait::pause(TTL * 2 + Duration::from_secs(1)).await; // longer than ttl and clean-up
    lab.proxy.pass();
    lab.until_free().await;
}

/// The same if the answer to the extension was lost.
#[tokio::test]
async fn an_extension_without_an_answer_is_given_back_after_an_outage() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(TTL).acquire().await.unwrap();
    lab.proxy.drop_replies();
    assert!(matches!(
        guard.extend(LONG).await,
        Err(LockError::Unavailable { .. })
    ));
    assert!(lab.server.pttl(ON_SERVER).await > 27_000);
    lab.proxy.blackhole();
    wait::pause(TTL * 2 + Duration::from_secs(1)).await;
    drop(guard);
    lab.proxy.pass();
    lab.until_free().await;
}
