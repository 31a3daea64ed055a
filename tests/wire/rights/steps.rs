//! The line in `docs/operate/server.md`, and at which call exactly each of its rights is missed, on
//! one server.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use dlock_harness::until;
use dlock_runtime::{LockError, LockGuard, LockPool, Refusal};
use dlock_tests::served::documented_rules;
use dlock_tests::{of_kind, refusal};

use crate::user::{CAP, Lab, Waiter, denied, wait_for};

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
fn documented() -> Vec<&'static str> {
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

/// Without the server's own compare-and-delete.
async fn without_native() -> Lab {
    let lab = Lab::new("", "dlock").await;
    for right in ["-delex", "-delifeq"] {
        let denies = ["ACL", "SETUSER", "dlock", right];
        let _ = lab.server().try_cmd(&denies).await; // fails if the server has no such command
    }
    lab
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
async fn held(pool: &LockPool, key: &str, kind: &str, step: Step) -> Option<LockGuard> {
    let request = of_kind(pool.lock(key), kind).ttl(TTL);
    let request = match step {
        Connect | Ping | Holder | Acquire => return None,
        Keep => request.min_hold(TTL),
        _ => request,
    };
    Some(request.acquire().await.unwrap())
}

/// The result of a call whose user loses a right just before it; `None`: it still waits,
/// undisturbed.
async fn without(lab: &Lab, kind: &str, right: &str, step: Step) -> Option<Result<(), LockError>> {
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
            let waiter = wait_for(of_kind(two.lock(key), kind));
            lab.queued(key).await;
            Some(waiter)
        }
        _ => None,
    };
    lab.server().cmd(&["SCRIPT", "FLUSH"]).await; // so that the texts have to be sent
    lab.deny(right).await;
    let outcome = match (step, held, waiter) {
        (Connect, ..) => lab.pool().await.map(drop),
        (Ping, ..) => one.ping().await.map(drop),
        (Holder, ..) => one.holder(key).await.map(drop),
        (Acquire, ..) => of_kind(one.lock(key), kind).try_acquire().await.map(drop),
        (Busy, Some(_held), _) => of_kind(two.lock(key), kind).try_acquire().await.map(drop),
        (Extend, Some(held), _) => held.extend(2 * TTL).await,
        (Release | Keep | HandOver, Some(held), _) => held.release().await.map(drop),
        (Step::Wait, Some(_held), _) => {
            let waiter = wait_for(of_kind(two.lock(key), kind));
            let alive = format!("lock:@a:{{lock:{key}}}");
            let is_in = async || lab.server().pttl(&alive).await > 0;
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
    check_needed_by("x", right, expected).await;
}

async fn check_needed_by(kind: &str, right: &str, expected: &[Step]) {
    let lab = without_native().await;
    if right == "+get" {
        lab.deny("+getrange").await; // which takes its place
    }
    let mut told = Vec::new();
    for step in STEPS {
        match without(&lab, kind, right, step).await {
            None | Some(Ok(())) => {}
            Some(Err(error)) => {
                let is_named = refusal(&error) == Some(Refusal::NoPermission);
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
        lab.rules([right]).await;
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
        check_needed_by("p:1/1", right, expected).await;
    }
}
