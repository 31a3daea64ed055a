//! What is done by a lock's key alone, while its slot moves, beside the same by the whole script: the
//! same answer and the same value at the key, unless somebody waits.

use std::time::Duration;

use tokio::time::Instant;

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, for_an_hour, seconds};
use super::refusals::as_user;
use crate::backend::Link;
use crate::backend::command_error::CommandError;
use crate::policy::commands::{Acquired, Cancelled, Claim, Keep, Polled};
use crate::values::entry;
use crate::values::error::Refusal;
use crate::values::kind::Kind;

const LOCK: &str = "lock:a";

fn until() -> Instant {
    Instant::now() + CAP
}

fn kinds() -> [Kind; 5] {
    [
        Kind::Exclusive,
        Kind::Read,
        Kind::Write,
        Kind::Permits { of: 3, take: 2 },
        Kind::Owned("one".into()),
    ]
}

fn of(kind: &Kind, token: &str) -> Claim {
    let value = entry::of_test(kind, token, "", seconds(30), "host|1|f|0");
    claim(LOCK, &value)
}

/// What stands at the key before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum There {
    Nothing,
    Ours,
    /// Another claim of this kind, of those above.
    Other(usize),
    /// Ours, as a writer that has become a reader.
    Downgraded,
    /// Ours, but its time is over.
    Lapsed,
    List,
    OtherLayout,
    OtherSet,
    Endless,
}

const STATES: [There; 13] = [
    There::Nothing,
    There::Ours,
    There::Other(0),
    There::Other(1),
    There::Other(2),
    There::Other(3),
    There::Other(4),
    There::Downgraded,
    There::Lapsed,
    There::List,
    There::OtherLayout,
    There::OtherSet,
    There::Endless,
];

async fn prepare(lab: &Lab, there: There, ours: &Claim) {
    lab.tell::<()>(&["FLUSHDB"]).await;
    match there {
        There::Nothing => {}
        There::Ours | There::Downgraded | There::Lapsed => {
            lab.granted(ours).await;
        }
        There::Other(kind) => {
            lab.granted(&of(&kinds()[kind], "other")).await;
        }
        There::List => lab.tell(&["RPUSH", LOCK, "a list"]).await,
        There::OtherLayout => lab.tell(&["SET", LOCK, "2|x|a value", "PX", "30000"]).await,
        There::OtherSet => lab.tell(&["ZADD", LOCK, "inf", "2|#|a set"]).await,
        There::Endless => lab.tell(&["SET", LOCK, "a value"]).await,
    }
    match there {
        There::Downgraded => {
            lab.link.downgrade(ours, seconds(30), CAP).await.unwrap();
        }
        There::Lapsed if ours.kind().is_shared() => {
            let now = lab.link.server_time().to_string();
            lab.tell::<u64>(&["ZADD", LOCK, "XX", &now, &ours.value])
                .await;
        }
        There::Lapsed => lab.tell(&["DEL", LOCK]).await,
        _ => {}
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Acquire,
    AcquireLate,
    Poll,
    Release,
    Keep,
    Cancel,
    CancelOpen,
    Downgrade,
}

const OPERATIONS: [Operation; 8] = [
    Operation::Acquire,
    Operation::AcquireLate,
    Operation::Poll,
    Operation::Release,
    Operation::Keep,
    Operation::Cancel,
    Operation::CancelOpen,
    Operation::Downgrade,
];

/// The answer, as text, and what stands at the key behind it.
async fn run(lab: &Lab, operation: Operation, ours: &Claim, by_key: bool) -> String {
    let link = &lab.link;
    let now = link.server_time();
    let command = acquire(ours, now + HOUR);
    let late = acquire(ours, now - HOUR);
    let polled = |answer| match answer {
        // The key alone does not tell whether a claim waits.
        Ok(Polled::Queued(_) | Polled::Gone { .. }) => "not ours".to_owned(),
        answer => format!("{answer:?}"),
    };
    let cancelled = |answer| match answer {
        // By the key alone it may have overtaken the acquire, so it has to be repeated.
        Err(CommandError::Unclear(_))
        | Ok(Cancelled {
            conclusive: false, ..
        }) => "not conclusive".to_owned(),
        answer => format!("{answer:?}"),
    };
    let answer = match (operation, by_key) {
        (Operation::Acquire, false) => format!("{:?}", link.acquire(&command, CAP).await),
        (Operation::Acquire, true) => format!("{:?}", link.acquire_by_key(&command, until()).await),
        (Operation::AcquireLate, false) => format!("{:?}", link.acquire(&late, CAP).await),
        (Operation::AcquireLate, true) => {
            format!("{:?}", link.acquire_by_key(&late, until()).await)
        }
        (Operation::Poll, false) => polled(link.poll(ours, CAP).await),
        (Operation::Poll, true) => polled(link.poll_by_key(ours, until()).await),
        (Operation::Release, false) => format!("{:?}", link.release(ours, Keep::NOT, CAP).await),
        (Operation::Release, true) => {
            format!("{:?}", link.release_by_key(ours, Keep::NOT, until()).await)
        }
        (Operation::Keep, false) => {
            format!("{:?}", link.release(ours, for_an_hour(link), CAP).await)
        }
        (Operation::Keep, true) => {
            format!(
                "{:?}",
                link.release_by_key(ours, for_an_hour(link), until()).await
            )
        }
        (Operation::Cancel, false) => format!("{:?}", link.cancel(ours, Keep::NOT, 0, CAP).await),
        (Operation::Cancel, true) => {
            format!(
                "{:?}",
                link.cancel_by_key(ours, (Keep::NOT, 0), until()).await
            )
        }
        (Operation::CancelOpen, false) => {
            cancelled(link.cancel(ours, for_an_hour(link), now + HOUR, CAP).await)
        }
        (Operation::CancelOpen, true) => {
            let times = (for_an_hour(link), now + HOUR);
            cancelled(link.cancel_by_key(ours, times, until()).await)
        }
        (Operation::Downgrade, false) => {
            format!("{:?}", link.downgrade(ours, seconds(60), CAP).await)
        }
        (Operation::Downgrade, true) => {
            format!(
                "{:?}",
                link.downgrade_by_key(ours, seconds(60), until()).await
            )
        }
    };
    let there: String = match lab.tell::<String>(&["TYPE", LOCK]).await.as_str() {
        "string" => lab.tell(&["GET", LOCK]).await,
        "zset" => {
            let members: Vec<String> = lab.tell(&["ZRANGE", LOCK, "0", "-1"]).await;
            members.join(" ")
        }
        other => other.to_owned(),
    };
    let left: i64 = lab.tell(&["PTTL", LOCK]).await;
    let seconds = (left + 500) / 1000; // as exact as a busy machine allows
    without_times(&format!("{answer}\nthere: {there}, {seconds} s"))
}

/// Times and epochs differ from one run to the next, and times left by milliseconds.
fn without_times(text: &str) -> String {
    let is_part = |it: char| it.is_ascii_digit() || it == '.';
    let mut all = String::new();
    for word in text.split_inclusive(|it| !is_part(it)) {
        let number = word.trim_end_matches(|it| !is_part(it));
        let unit = &word[number.len()..];
        match number.parse::<f64>() {
            Ok(seconds) if unit == "s" => all += &seconds.round().to_string(),
            Ok(time) if time > 1e10 => all += "#",
            _ => all += number,
        }
        all += unit;
    }
    all
}

#[tokio::test]
async fn by_its_key_a_lock_is_as_by_the_whole_script() {
    let lab = Lab::new().await;
    for kind in kinds() {
        let ours = of(&kind, "ours");
        for there in STATES {
            for operation in OPERATIONS {
                let mut answers = [String::new(), String::new()];
                for (by_key, answer) in [false, true].into_iter().zip(&mut answers) {
                    prepare(&lab, there, &ours).await;
                    *answer = run(&lab, operation, &ours, by_key).await;
                }
                let [whole, by_key] = answers;
                assert_eq!(by_key, whole, "{operation:?} of {kind:?}, there {there:?}");
            }
        }
    }
}

/// A claim that waits is told of the holder, and leaves the queue once the lock is free.
#[tokio::test]
async fn whoever_waits_leaves_the_queue_only_for_a_free_lock() {
    let lab = Lab::new().await;
    for kind in kinds() {
        lab.tell::<()>(&["FLUSHDB"]).await;
        let other = of(&Kind::Exclusive, "other");
        lab.granted(&other).await;
        let ours = Claim {
            queues: true,
            ..of(&kind, "ours")
        };
        let queued = lab.acquire(&ours).await;
        assert!(matches!(queued, Ok(Acquired::Queued(_))), "{queued:?}");
        let busy = lab.link.poll_by_key(&ours, until()).await;
        assert!(matches!(busy, Ok(Polled::Queued(_))), "{busy:?}");
        assert_eq!(lab.keys().await.len(), 4);

        let again = acquire(&ours, lab.link.server_time() + HOUR);
        let busy = lab.link.acquire_by_key(&again, until()).await;
        assert!(matches!(busy, Ok(Acquired::Busy(_))), "{busy:?}");

        lab.tell::<u64>(&["DEL", LOCK]).await;
        let free = lab.link.poll_by_key(&ours, until()).await;
        assert!(matches!(free, Ok(Polled::Gone { .. })), "{free:?}");
        assert_eq!(lab.keys().await, [FENCES]);
    }
}

#[tokio::test]
async fn a_cancel_finds_a_claim_in_the_queue() {
    let lab = Lab::new().await;
    lab.granted(&of(&Kind::Exclusive, "other")).await;
    let ours = Claim {
        queues: true,
        ..of(&Kind::Read, "ours")
    };
    let queued = lab.acquire(&ours).await;
    assert!(matches!(queued, Ok(Acquired::Queued(_))), "{queued:?}");
    let later = lab.link.server_time() + HOUR;
    let cancelled = lab
        .link
        .cancel_by_key(&ours, (Keep::NOT, later), until())
        .await;
    assert!(cancelled.is_ok_and(|it| it.found && it.conclusive));
    let again = lab
        .link
        .cancel_by_key(&ours, (Keep::NOT, later), until())
        .await;
    assert!(matches!(again, Err(CommandError::Unclear(_))), "{again:?}");
    assert_eq!(lab.keys().await.len(), 2, "the counter and the holder");
}

/// An owner's hold has one epoch, also if it was taken by its key.
#[tokio::test]
async fn an_owner_that_was_taken_by_its_key_has_one_epoch() {
    let lab = Lab::new().await;
    let kind = Kind::Owned("one".into());
    let mut epochs = Vec::new();
    for token in ["one", "two"] {
        let command = acquire(&of(&kind, token), lab.link.server_time() + HOUR);
        match lab.link.acquire_by_key(&command, until()).await {
            Ok(Acquired::Granted { epoch, .. }) => epochs.push(epoch),
            other => panic!("not granted: {other:?}"),
        }
    }
    epochs.push(lab.granted(&of(&kind, "three")).await);
    assert!(
        epochs[0] > 0 && epochs.iter().all(|it| *it == epochs[0]),
        "{epochs:?}"
    );
    let members: Vec<String> = lab.tell(&["ZRANGE", LOCK, "-1", "-1"]).await;
    assert_eq!(members, [format!("1|#|o|one|{}", epochs[0])]);
}

/// May take a lock by its key, and neither draw an epoch nor give the lock back.
const MAY_TAKE: [&str; 6] = [
    "+@all",
    "-del",
    "-zrem",
    "resetkeys",
    "~lock:a",
    "allchannels",
];

/// The take of its first entry was abandoned before its epoch was drawn.
#[tokio::test]
async fn an_owner_without_an_epoch_gets_one_for_all() {
    let lab = Lab::new().await;
    let link = as_user(&lab.server, &MAY_TAKE).await;
    let kind = Kind::Owned("one".into());
    let command = acquire(&of(&kind, "one"), link.server_time() + HOUR);
    let answer = link.acquire_by_key(&command, until()).await;
    assert!(answer.is_err_and(|error| error.leaves_open()));
    let two = lab.granted(&of(&kind, "two")).await;
    let three = lab.granted(&of(&kind, "three")).await;
    assert_eq!(two, three);
}

/// A take that is abandoned is refused later, or found by the clean-up.
#[tokio::test]
async fn a_take_without_time_is_not_known_to_have_happened() {
    let lab = Lab::new().await;
    let ours = of(&Kind::Exclusive, "ours");
    let command = acquire(&ours, lab.link.server_time() + HOUR);
    let over = Instant::now() - Duration::from_millis(1);
    let answer = lab.link.acquire_by_key(&command, over).await;
    assert!(
        answer.is_err_and(|error| !error.leaves_open()),
        "nothing was sent"
    );
    assert!(lab.keys().await.is_empty());
}

/// The error is the server's own, and ends the wait of all.
#[tokio::test]
async fn a_take_whose_epoch_is_refused_is_given_back() {
    let lab = Lab::new().await;
    let rights = ["+@all", "resetkeys", "~lock:a", "allchannels"];
    let link = as_user(&lab.server, &rights).await;
    for kind in kinds() {
        let command = acquire(&of(&kind, "ours"), link.server_time() + HOUR);
        let answer = link.acquire_by_key(&command, until()).await;
        let is_refusal = |it: &_| matches!(it, CommandError::Refused(Refusal::NoPermission, _));
        assert!(answer.as_ref().is_err_and(is_refusal), "{answer:?}");
        assert!(lab.keys().await.is_empty());
    }
}

/// Taken, and nobody knows its epoch: the clean-up has to find it.
#[tokio::test]
async fn a_take_that_can_not_be_given_back_either_leaves_the_lock_open() {
    let lab = Lab::new().await;
    let link = as_user(&lab.server, &MAY_TAKE).await;
    for kind in kinds() {
        let ours = of(&kind, "ours");
        let command = acquire(&ours, link.server_time() + HOUR);
        let answer = link.acquire_by_key(&command, until()).await;
        assert!(answer.is_err_and(|error| error.leaves_open()), "{kind:?}");
        assert_eq!(lab.keys().await, [LOCK]);
        let cancelled = lab
            .link
            .cancel_by_key(&ours, (Keep::NOT, 0), until())
            .await
            .unwrap();
        assert!(cancelled.found && cancelled.conclusive);
        assert!(lab.keys().await.is_empty());
    }
}
