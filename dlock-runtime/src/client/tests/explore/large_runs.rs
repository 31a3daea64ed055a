//! The explorations of the shipped machines whose figures are the table in `docs/notes/model.md`.

use std::time::Duration;

use super::fault::Kind::{Break, Crash, Memory, Push, Stall};
use super::run::{Run, Wants};
use super::runs::{Row, bounded, faults, forgetful, row};
use super::seen::Witness::{self, *};

const F: Wants = Wants::Forever;

pub(super) fn large() -> Vec<Row> {
    let one = faults(1);
    let three: &[&[Wants]] = &[&[F], &[F], &[F]];
    let all_ways: &[Witness] = &[
        HeldByPush,
        HeldByYours,
        HeldAtOnce,
        PushBeforeReply,
        ExpiryWithQueue,
        LimboExecuted,
        CancelFreed,
        ForeignHolder,
        CrashWhileHolding,
        LeaderReplaced,
        Rest,
    ];
    let rows = vec![
        row("every fault", all_ways, one.clone()),
        row(
            "every fault, two at once",
            &[HeldByPush, LimboExecuted],
            faults(2),
        ),
        row(
            "break and stall, two at once",
            &[
                HeldByPush,
                HeldByYours,
                Late,
                LimboExecuted,
                StaleGrant,
                Rest,
            ],
            Run {
                budget: 2,
                faults: &[Break, Stall],
                ..Run::default()
            },
        ),
        row(
            "lost pushes and crashes, two at once",
            &[
                HeldByYours,
                Gone,
                EntryLostBySilence,
                HeartbeatLapsed,
                DeadWaiterSkipped,
                Rest,
            ],
            Run {
                budget: 2,
                attempts: 2,
                faults: &[Push, Crash],
                ..Run::default()
            },
        ),
        row(
            "renewals, fresh tokens, cancelled waits",
            &[Renewed, CancelLeftQueue, CancelFreed, StaleGrant, Rest],
            Run {
                attempts: 2,
                renews: true,
                cancels: 1,
                ..one.clone()
            },
        ),
        row(
            "three processes",
            &[HeldByPush, LeaderReplaced, CrashWhileHolding, Rest],
            Run {
                processes: three,
                ..one.clone()
            },
        ),
        row(
            "three processes, two crashes",
            &[DeadWaiterSkipped, HeartbeatLapsed, CrashWhileHolding, Rest],
            Run {
                processes: three,
                budget: 2,
                faults: &[Crash, Push],
                ..Run::default()
            },
        ),
        row(
            "two in a line, cancelled waits",
            &[GrantInherited, CancelLeftQueue, CancelFreed, Rest],
            Run {
                processes: &[&[F, F], &[F]],
                attempts: 3,
                cancels: 1,
                ..one.clone()
            },
        ),
        row(
            "handed on, every fault",
            &[
                HandedOn,
                HeldByPush,
                CrashWhileHolding,
                LimboExecuted,
                StaleGrant,
                Rest,
            ],
            Run {
                processes: &[&[F, F], &[F]],
                attempts: 2,
                handoffs: 2,
                ..one.clone()
            },
        ),
        row(
            "handed on to the third, renewals, cancelled waits",
            &[HandedOn, HandedOnToTheThird, Renewed, CancelFreed, Rest],
            Run {
                processes: &[&[F, F, F], &[F]],
                attempts: 2,
                cancels: 1,
                renews: true,
                handoffs: 2,
                ..one.clone()
            },
        ),
        row(
            "handed on, FLUSHALL, DEL",
            &[HandedOn, HeldByPush, Rest],
            Run {
                processes: &[&[F, F], &[F]],
                attempts: 2,
                handoffs: 1,
                faults: &[Memory, Stall],
                ..one.clone()
            },
        ),
        row(
            "local queues forgotten, every fault",
            &[QueueForgotten, HandedOn, HeldByPush, Rest],
            forgetful(one.clone()),
        ),
        row(
            "waits that are over",
            &[PastTheQueue, CancelLeftQueue, Rest],
            Run {
                processes: &[&[Wants::For, F], &[Wants::Once]],
                attempts: 3,
                ..one.clone()
            },
        ),
        row(
            "min_hold longer than the ttl",
            &[KeptForMinHold, Confirmed, Rest],
            Run {
                attempts: 2,
                cancels: 1,
                min_hold: Some(Duration::from_secs(4)),
                ..one.clone()
            },
        ),
        row(
            "min_hold shorter than the ttl, renewals",
            &[KeptForMinHold, Confirmed, Renewed, Rest],
            Run {
                attempts: 2,
                renews: true,
                min_hold: Some(Duration::from_secs(2)),
                ..one.clone()
            },
        ),
        row(
            "FLUSHALL, DEL",
            &[HeldByPush, Rest],
            Run {
                attempts: 2,
                renews: true,
                faults: &[Memory, Stall],
                ..one.clone()
            },
        ),
        row(
            "pushes without a time",
            &[HeldByYours, Rest],
            Run {
                timeless_pushes: true,
                ..one.clone()
            },
        ),
        row(
            "PUBLISH refused",
            &[HeldByYours, Rest],
            Run {
                publish_refused: true,
                ..one.clone()
            },
        ),
        row(
            "asynchronous, no fault",
            &[HeldByPush, HeldByYours, StaleGrant],
            Run {
                asynchronous: true,
                tick: Duration::from_millis(1500),
                ..Run::default()
            },
        ),
        row(
            "asynchronous, break, lost push, crash",
            &[HeldByPush, HeldByYours],
            Run {
                asynchronous: true,
                tick: Duration::from_millis(1500),
                budget: 1,
                faults: &[Break, Push, Crash],
                ..Run::default()
            },
        ),
    ];
    bounded(rows, 1_000_000, 50)
}
