//! The rights in `docs/operate/server.md`: enough for every operation of a lock, and each of
//! them is needed.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use dlock_harness::until;
use dlock_runtime::{LockError, LockGuard, LockPool, Refusal};
use dlock_tests::served::documented_rules;

use crate::everything::{As, Waiter, everything, many_at_once, many_wait, wait_for};
use crate::user::{Lab, denied};

const CAP: Duration = Duration::from_secs(20);
const CHANNELS: &str = "&lock:@grant:*";

/// Redis 7 and newer require no right for HELLO; 6.2 does, so the documented line also has
/// `+hello`.
const RIGHTS: [&str; 23] = [
    "+ping",
    "+command|info",
    "+info",
    "+time",
    "+get",
    "+getrange",
    "+mget",
    "+exists",
    "+set",
    "+del",
    "+pttl",
    "+pexpire",
    "+eval",
    "+evalsha",
    "+zadd",
    "+zrem",
    "+zrange",
    "+zscore",
    "+zmscore",
    "+zcard",
    "+zremrangebyscore",
    "+publish",
    "+subscribe",
];

/// The line that users copy.
pub(crate) fn documented() -> Vec<&'static str> {
    documented_rules("ACL SETUSER dlock on >… ")
}

#[test]
fn the_documented_rights_are_these() {
    let patterns = ["resetkeys", "~lock:*", "resetchannels", CHANNELS, "-@all"];
    let mut commands = documented();
    commands.retain(|word| !patterns.contains(word) && *word != "+hello");
    assert_eq!(commands, RIGHTS);
    assert_eq!(documented().len(), RIGHTS.len() + patterns.len() + 1);
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    for lab in [
        Lab::new(documented()).await,
        Lab::with_tls(documented()).await,
    ] {
        let lab = lab.and_native().await;
        everything(&lab).await.unwrap();
        assert_eq!(lab.refused().await, [""; 0]);
        assert_eq!(lab.server.keys().await, ["lock:@fence"]);
    }
}

/// The step at which a removed right is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Connect,
    Ping,
    Holder,
    Acquire,
    Busy,
    Extend,
    Release,
    Keep,
    Wait,
    Poll,
    HandOver,
}

use Step::{Acquire, Busy, Connect, Extend, HandOver, Holder, Keep, Ping, Poll, Release};

const STEPS: [Step; 11] = [
    Connect,
    Ping,
    Holder,
    Acquire,
    Busy,
    Extend,
    Release,
    Keep,
    Step::Wait,
    Poll,
    HandOver,
];

const TTL: Duration = Duration::from_secs(60);

/// The lock that is held when the right is removed.
async fn held(pool: &LockPool, key: &str, kind: As, step: Step) -> Option<LockGuard> {
    let request = kind(pool.lock(key)).ttl(TTL);
    let request = match step {
        Connect | Ping | Holder | Acquire => return None,
        Keep => request.min_hold(TTL),
        _ => request,
    };
    Some(request.acquire().await.unwrap())
}

/// The result of a call whose user loses a right just before it; `None`: it still waits,
/// undisturbed.
async fn without(lab: &Lab, kind: As, right: &str, step: Step) -> Option<Result<(), LockError>> {
    let key = &*format!("{step:?}");
    // So that the waiter has not polled yet when it is observed.
    let seldom = Duration::from_secs(1);
    let often = Duration::from_millis(50);
    let interval = if step == Step::Wait { seldom } else { often };
    let one = lab.pool().await.unwrap();
    let two = lab.pool_that_polls_every(interval).await.unwrap();
    for pool in [&one, &two] {
        // With the first release of a connection, the pool learns that the user may not call the
        // native compare-and-delete.
        let first = pool.lock("first").acquire().await.unwrap();
        first.release().await.unwrap();
    }
    let held = held(&one, key, kind, step).await;
    let waiter = match step {
        Poll | HandOver => {
            let waiter = wait_for(kind(two.lock(key)));
            lab.queued(key).await;
            Some(waiter)
        }
        _ => None,
    };
    lab.server.cmd(&["SCRIPT", "FLUSH"]).await; // so that the texts have to be sent
    lab.deny(right).await;
    let outcome = match (step, held, waiter) {
        (Connect, ..) => lab.pool().await.map(drop),
        (Ping, ..) => one.ping().await.map(drop),
        (Holder, ..) => one.holder(key).await.map(drop),
        (Acquire, ..) => kind(one.lock(key)).try_acquire().await.map(drop),
        (Busy, Some(_held), _) => kind(two.lock(key)).try_acquire().await.map(drop),
        (Extend, Some(held), _) => held.extend(2 * TTL).await,
        (Release | Keep | HandOver, Some(held), _) => held.release().await.map(drop),
        (Step::Wait, Some(_held), _) => {
            let waiter = wait_for(kind(two.lock(key)));
            let alive = format!("lock:@a:{{lock:{key}}}");
            let is_in = async || lab.server.pttl(&alive).await > 0;
            return refused_before(waiter, is_in).await;
        }
        (Poll, Some(_held), Some(waiter)) => {
            // Two more heartbeats: the poll that sent the first one succeeded, because a refused
            // waiter sends no second one.
            let beats = Mutex::new(BTreeSet::new());
            let polled = async || {
                let beat = lab.beat(key).await;
                let mut beats = beats.lock().unwrap();
                beats.extend(beat);
                beats.len() > 2
            };
            return refused_before(waiter, polled).await;
        }
        other => panic!("{other:?}"),
    };
    Some(outcome)
}

/// How a wait ended, unless `something` happens first.
async fn refused_before(
    waiter: Waiter,
    something: impl AsyncFn() -> bool,
) -> Option<Result<(), LockError>> {
    until("it waits, or was refused", CAP, async || {
        waiter.is_finished() || something().await
    })
    .await;
    if waiter.is_finished() {
        return Some(waiter.await.unwrap().map(drop));
    }
    waiter.abort();
    None
}

/// Removes the right at each step: checks at which steps it is reported, and that the server
/// refused something.
async fn check_needed(right: &str, expected: &[Step]) {
    check_needed_by(|it| it, right, expected).await;
}

async fn check_needed_by(kind: As, right: &str, expected: &[Step]) {
    let lab = Lab::new(RIGHTS.into_iter().chain([CHANNELS])).await;
    if right == "+get" {
        lab.deny("+getrange").await; // which takes its place
    }
    let mut told = Vec::new();
    for step in STEPS {
        match without(&lab, kind, right, step).await {
            None | Some(Ok(())) => {}
            Some(Err(error)) => {
                let is_named = matches!(
                    error,
                    LockError::Refused {
                        reason: Refusal::NoPermission,
                        ..
                    }
                );
                // One failing key must not stop the renewal of others, so `renew` does not report
                // its error.
                let is_renewal = step == Extend && matches!(error, LockError::Unavailable { .. });
                assert!(is_named || is_renewal, "{right}, {step:?}: {error:?}");
                let words = format!("{:?}", error.source()).to_lowercase();
                let command = right.trim_start_matches('+');
                assert!(
                    words.contains(command) || is_renewal,
                    "{right}, {step:?}: which command? {words}"
                );
                told.push(step);
            }
        }
        lab.user([right]).await;
    }
    assert_eq!(told, expected, "{right}");
    let refused = lab.refused().await;
    assert!(refused.contains(&denied(right).to_owned()), "{refused:?}");
}

/// No step reports these: waiters poll, and releases take the slow path.
const QUIET: [Step; 0] = [];

#[tokio::test]
async fn each_right_of_every_lock_is_missed() {
    use Step::Wait;
    let scripts = [Acquire, Busy, Extend, Release, Keep, Wait, Poll, HandOver];
    check_needed("+eval", &scripts).await;
    check_needed("+evalsha", &scripts).await;
    check_needed("+ping", &[Ping]).await;
    check_needed("+command|info", &QUIET).await;
    check_needed("+info", &QUIET).await;
    // A release without waiters and without `min_hold` does not need the time.
    let time = [Connect, Acquire, Busy, Keep, Wait, Poll, HandOver];
    check_needed("+time", &time).await;
    let get = [Holder, Busy, Release, Keep, Wait, Poll, HandOver];
    check_needed("+get", &get).await;
    check_needed("+getrange", &QUIET).await;
    check_needed("+set", &[Acquire, Keep, Wait]).await;
    check_needed("+del", &[Release]).await;
    check_needed("+pttl", &[Holder, Busy, Extend, Wait, Poll]).await;
    check_needed("+pexpire", &[Extend, Keep, Wait, Poll]).await;
}

#[tokio::test]
async fn each_right_of_the_queue_is_missed() {
    use Step::Wait;
    // A release that can't hand the lock over frees it all the same: the waiter's poll is told why.
    check_needed("+zrange", &QUIET).await;
    check_needed("+zadd", &[Wait, Poll]).await;
    check_needed("+zrem", &QUIET).await;
    check_needed("+zscore", &[Poll]).await;
    check_needed("+publish", &QUIET).await;
    check_needed("+subscribe", &QUIET).await;
}

/// Without these rights, many locks at the same time are still taken and released.
#[tokio::test]
async fn the_rights_of_many_at_once_make_it_cheaper() {
    for missing in ["mget", "exists"] {
        let lab = Lab::new(RIGHTS.into_iter().chain([CHANNELS])).await;
        let lab = lab.and_native().await;
        let pool = lab.pool().await.unwrap();
        lab.user([format!("-{missing}").as_str()]).await;
        many_at_once(&pool).await.unwrap();
        let mut refused = lab.refused().await;
        refused.dedup();
        assert_eq!(refused, [missing]);
    }
}

/// Without this right, many waiters still keep their queue entries, each by its own poll.
#[tokio::test]
async fn the_right_of_many_heartbeats_makes_them_cheaper() {
    let lab = Lab::new(RIGHTS.into_iter().chain([CHANNELS])).await;
    let lab = lab.and_native().await;
    let pool = lab.pool().await.unwrap();
    lab.user(["-zmscore"]).await;
    many_wait(&pool).await.unwrap();
    let mut refused = lab.refused().await;
    refused.dedup();
    assert_eq!(refused, ["zmscore"]);
}

/// A lock of a kind with many holders is a sorted set, so it needs the same rights at more steps,
/// and two more.
#[tokio::test]
async fn each_right_of_the_other_kinds_is_missed() {
    use Step::Wait;
    let set = [Busy, Extend, Release, Keep, Wait, Poll, HandOver];
    let any = [Acquire, Busy, Extend, Release, Keep, Wait, Poll, HandOver];
    let adding = [Acquire, Extend, Keep, Wait, Poll];
    for (right, expected) in [
        ("+zcard", &[Busy, Wait, Poll][..]),
        ("+zremrangebyscore", &set),
        ("+zscore", &set),
        ("+zrange", &any),
        ("+zadd", &adding),
        ("+pexpire", &adding),
        ("+zrem", &[Extend, Release, Keep, HandOver]),
        ("+del", &[Release, HandOver]),
    ] {
        check_needed_by(|it| it.permits(1), right, expected).await;
    }
}

/// Without pushes the lock is still handed over, and a poll finds the grant.
#[tokio::test]
async fn without_a_channel_everything_works() {
    for missing in ["-publish", "-subscribe", "resetchannels"] {
        let lab = Lab::new(RIGHTS.into_iter().chain([CHANNELS])).await;
        let lab = lab.and_native().await;
        lab.user([missing]).await;
        everything(&lab).await.unwrap();
        let refused = lab.refused().await;
        let is_quiet = |what: &String| {
            what.contains("publish")
                || what.contains("subscribe")
                || what.starts_with("lock:@grant:")
        };
        assert!(
            !refused.is_empty() && refused.iter().all(is_quiet),
            "{missing}: {refused:?}"
        );
    }
}

/// The key pattern is the namespace, and the queue's keys are in it.
#[tokio::test]
async fn keys_outside_the_pattern_are_refused() {
    let lab = Lab::new(RIGHTS.into_iter().chain([CHANNELS])).await;
    lab.user(["resetkeys", "~other:*"]).await;
    let pool = lab.pool().await.unwrap();
    let error = pool.lock("key").acquire().await.unwrap_err();
    assert!(matches!(
        error,
        LockError::Refused {
            reason: Refusal::NoPermission,
            ..
        }
    ));
    assert_eq!(lab.server.keys().await, [""; 0]);
}
