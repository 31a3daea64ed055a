//! Whichever right is missing, nothing is left without a time to live: each right is taken away in
//! turn, for each operation of each kind, and the keys that it left are checked.

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, for_an_hour, renewal, seconds, waiter};
use super::refusals::{RIGHTS, as_user};
use super::shared::MORE_RIGHTS;
use crate::link::Link;
use crate::link::redis::link::RedisLink;
use crate::link::redis::link::batcher::HeartbeatPace;
use crate::link::redis::link::batcher::OwnedCommand;
use crate::rules::commands::{Claim, Keep};
use crate::values::entry;
use crate::values::kind::Kind;

const LOCK: &str = "lock:a";

#[derive(Debug, Clone, Copy)]
enum Operation {
    Acquire,
    Queue,
    QueueAgain,
    Poll,
    PollOfAFreeLock,
    Heartbeats,
    Release,
    HandOver,
    Keep,
    Leave,
    Cancel,
    Renew,
    Downgrade,
    AcquireAll,
    Combined,
}

use Operation::*;

const OPERATIONS: [Operation; 15] = [
    Acquire,
    Queue,
    QueueAgain,
    Poll,
    PollOfAFreeLock,
    Heartbeats,
    Release,
    HandOver,
    Keep,
    Leave,
    Cancel,
    Renew,
    Downgrade,
    AcquireAll,
    Combined,
];

fn kinds() -> [Kind; 5] {
    [
        Kind::Exclusive,
        Kind::Read,
        Kind::Write,
        Kind::Permits { of: 3, take: 2 },
        Kind::Owned("one".into()),
    ]
}

/// A kind that can't hold the lock together with this one.
fn against(kind: &Kind) -> Kind {
    match kind {
        Kind::Read => Kind::Write,
        Kind::Owned(_) => Kind::Owned("other".into()),
        other => other.clone(),
    }
}

fn of(lab: &Lab, kind: &Kind, token: &str) -> Claim {
    let address = lab.link.address().unwrap();
    let value = entry::of_test(kind, token, address, seconds(30), "host|1|f|0");
    Claim {
        queues: true,
        ..claim(LOCK, &value)
    }
}

/// The state before the operation, set up by a user with all rights.
async fn prepare(lab: &Lab, operation: Operation, ours: &Claim, other: &Claim) {
    let before: &[&Claim] = match operation {
        Acquire | AcquireAll | Combined => &[],
        Queue => &[other],
        QueueAgain | Poll | PollOfAFreeLock | Heartbeats | Leave => &[other, ours],
        HandOver => &[ours, other],
        Release | Keep | Cancel | Renew | Downgrade => &[ours],
    };
    for claim in before {
        lab.acquire(claim).await.unwrap();
    }
    if matches!(operation, PollOfAFreeLock) {
        lab.tell::<u64>(&["DEL", LOCK]).await;
    }
}

/// Runs the operation; its answer does not matter.
async fn operate(link: &RedisLink, operation: Operation, ours: &Claim) {
    let until = link.server_time() + HOUR;
    let command = |claim: &Claim| acquire(claim, until);
    match operation {
        Acquire | Queue | QueueAgain => drop(link.acquire(&command(ours), CAP).await),
        Poll | PollOfAFreeLock => drop(link.poll(ours, CAP).await),
        Heartbeats => {
            let twice = vec![ours.clone(); 2];
            let heartbeats = link.heartbeats(HeartbeatPace::of(CAP));
            drop(heartbeats.beat_together(twice, CAP).await);
        }
        Release | HandOver => drop(link.release(ours, Keep::NOT, CAP).await),
        Keep => drop(link.release(ours, for_an_hour(link), CAP).await),
        Leave | Cancel => drop(link.cancel(ours, Keep::NOT, 0, CAP).await),
        Renew => drop(link.renew(&[renewal(ours, 60)], CAP).await),
        Downgrade => drop(link.downgrade(ours, seconds(60), CAP).await),
        AcquireAll => {
            let all = ["lock:b", "lock:c"].map(|key| command(&claim(key, "all")));
            drop(link.acquire_all(&all, CAP).await);
        }
        Combined => {
            let commands = ["lock:b", "lock:c", "lock:b"]
                .map(|key| OwnedCommand::Acquire(command(&waiter(key, "", "all"))));
            drop(link.batcher(4).ask_together(commands.into(), CAP).await);
        }
    }
}

#[tokio::test]
async fn nothing_stays_for_ever_whatever_right_is_missing() {
    let lab = Lab::new().await;
    let endless = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
                   if redis.call('PTTL', key) == -1 then all[#all + 1] = key end end return all";
    let rights = [&RIGHTS[..], &MORE_RIGHTS, &["+zmscore"]].concat();
    let mut wrote = 0;
    for missing in rights.iter().filter(|it| it.starts_with('+')) {
        let link = as_user(&lab.server, &rights).await;
        let without = missing.replacen('+', "-", 1);
        lab.tell::<()>(&["ACL", "SETUSER", "worker", &without])
            .await;
        for kind in kinds() {
            let (ours, other) = (of(&lab, &kind, "ours"), of(&lab, &against(&kind), "other"));
            for operation in OPERATIONS {
                prepare(&lab, operation, &ours, &other).await;
                operate(&link, operation, &ours).await;
                let mut keys: Vec<String> = lab.tell(&["EVAL", endless, "0"]).await;
                keys.retain(|key| key != FENCES);
                assert!(
                    keys.is_empty(),
                    "without {missing}, {operation:?} of {kind:?} left {keys:?}"
                );
                wrote += lab.tell::<u64>(&["DBSIZE"]).await;
                lab.tell::<()>(&["FLUSHDB"]).await;
            }
        }
    }
    assert!(wrote > 1000);
}
