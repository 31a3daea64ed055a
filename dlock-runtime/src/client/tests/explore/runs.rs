//! The explorations of the shipped machines: small ones for every test run; `large_runs` has those
//! for a table.

use std::time::Duration;

use super::fault::Kind::{
    self, Break, Crash, Foreign, Leader, Only, Push, QueueLost, Stall, Twice,
};
use super::fault::Stall as Stands;
use super::run::{Run, Wants};
use super::seen::Witness::{self, *};
use super::world::World;
use crate::rules::tests::explore::{self, hold};

const F: Wants = Wants::Forever;

const ALL: &[Kind] = &[Break, Push, Stall, Crash, Twice, Leader, Foreign, QueueLost];

pub(super) type Row = explore::Row<World>;

pub(super) fn row(name: &str, sees: &'static [Witness], run: Run) -> Row {
    Row::new(name, sees, run)
}

/// All faults.
pub(super) fn faults(budget: u8) -> Run {
    Run {
        budget,
        faults: ALL,
        ..Run::default()
    }
}

/// Two of three contenders are in one process, which forgets its local queue while one of them has
/// the lock.
pub(super) fn forgetful(run: Run) -> Run {
    Run {
        processes: &[&[F, F], &[F]],
        attempts: 2,
        handoffs: 1,
        forgets_queues: true,
        ..run
    }
}

fn small() -> Vec<Row> {
    let long = Some(Duration::from_secs(4));
    let plain = Run::default;
    let rows = vec![
        row(
            "no fault",
            &[HeldByPush, HeldByYours, HeldAtOnce, PushBeforeReply, Rest],
            plain(),
        ),
        row(
            "cancelled waits",
            &[GrantInherited, CancelLeftQueue, CancelFreed, Rest],
            Run {
                processes: &[&[F, F], &[F]],
                attempts: 2,
                cancels: 1,
                ..plain()
            },
        ),
        row(
            "every fault",
            &[
                HeldByPush,
                LeaderReplaced,
                ForeignHolder,
                CrashWhileHolding,
                LimboExecuted,
                Rest,
            ],
            faults(1),
        ),
        row(
            "waits that are over",
            &[PastTheQueue, CancelFreed, Rest],
            Run {
                processes: &[&[Wants::For], &[Wants::Once]],
                attempts: 2,
                cancels: 1,
                ..plain()
            },
        ),
        row(
            "handed on",
            &[
                HandedOn,
                HandedOnToTheThird,
                HeldByPush,
                GrantInherited,
                Rest,
            ],
            Run {
                processes: &[&[F, F, F], &[F]],
                attempts: 2,
                cancels: 1,
                handoffs: 2,
                ..plain()
            },
        ),
        row(
            "its local queue forgotten",
            &[QueueForgotten, HandedOn, HeldByPush, Rest],
            forgetful(plain()),
        ),
        row(
            "min_hold",
            &[KeptForMinHold, Confirmed, Rest],
            Run {
                attempts: 2,
                min_hold: long,
                ..plain()
            },
        ),
        row(
            "renewals",
            &[Renewed, Rest],
            Run {
                renews: true,
                ..plain()
            },
        ),
        row(
            "crashes in line",
            &[DeadWaiterSkipped, ExpiryWithQueue, Rest],
            Run {
                budget: 1,
                faults: &[Crash],
                ..plain()
            },
        ),
        row(
            "stopped in line",
            &[HeartbeatLapsed, Gone, StaleGrant, Rest],
            Run {
                tick: Duration::from_millis(1750),
                ttl: Duration::from_millis(3500),
                budget: 1,
                faults: &[Only(Stands::Process)],
                ..plain()
            },
        ),
    ];
    bounded(rows, 6_000, 40)
}

pub(super) fn bounded(mut rows: Vec<Row>, most_states: usize, drain_every: usize) -> Vec<Row> {
    for row in &mut rows {
        row.run.drain_every = drain_every;
    }
    explore::bounded(rows, most_states)
}

#[test]
fn a_small_fleet_keeps_its_promises() {
    hold(small());
}

#[test]
#[ignore = "ten minutes in a release build: docs/notes/model.md"]
fn explore_large_fleet() {
    hold(super::large_runs::large());
}
