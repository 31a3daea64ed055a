//! What is done by a lock's key alone, while its slot moves, where it differs from the whole script
//! (`alike` compares them): somebody waits, or a step on the way fails.

use std::time::Duration;

use tokio::time::Instant;

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, seconds};
use super::refusals::as_user;
use crate::link::command_error::CommandError;
use crate::rules::commands::{Acquired, Claim, Keep, Polled};
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
