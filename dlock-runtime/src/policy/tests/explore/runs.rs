//! The explorations of the shipped machines: small ones for every test run, large ones for a table.

use std::time::Duration;

use super::fault::Kind::{
    self, Break, Crash, Driver, Foreign, Memory, Only, Push, QueueLost, Stall, Twice,
};
use super::fault::Stall as Stands;
use super::run::{Run, Wants};
use super::search::explore;
use super::seen::Witness::{self, *};

const F: Wants = Wants::Forever;

const ALL: &[Kind] = &[Break, Push, Stall, Crash, Twice, Driver, Foreign, QueueLost];

/// A run, and what it has to have seen.
pub(super) struct Row {
    run: Run,
    sees: &'static [Witness],
}

pub(super) fn row(name: &'static str, sees: &'static [Witness], run: Run) -> Row {
    Row {
        run: Run { name, ..run },
        sees,
    }
}

/// Whatever may go wrong.
fn faults(budget: u8) -> Run {
    Run {
        budget,
        faults: ALL,
        ..Run::default()
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
            &[OfferInherited, CancelLeftQueue, CancelFreed, Rest],
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
                DriverReplaced,
                ForeignHolder,
                CrashWhileHolding,
                LimboExecuted,
                Rest,
            ],
            faults(1),
        ),
        row(
            "waits that are over",
            &[PastTheLine, CancelFreed, Rest],
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
                OfferInherited,
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
            &[HeartbeatLapsed, Gone, StaleOffer, Rest],
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

fn large() -> Vec<Row> {
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
        DriverReplaced,
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
                StaleOffer,
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
                PlaceLostByDeafness,
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
            &[Renewed, CancelLeftQueue, CancelFreed, StaleOffer, Rest],
            Run {
                attempts: 2,
                renews: true,
                cancels: 1,
                ..one.clone()
            },
        ),
        row(
            "three processes",
            &[HeldByPush, DriverReplaced, CrashWhileHolding, Rest],
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
            &[OfferInherited, CancelLeftQueue, CancelFreed, Rest],
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
                StaleOffer,
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
            "waits that are over",
            &[PastTheLine, CancelLeftQueue, Rest],
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
            &[HeldByPush, HeldByYours, StaleOffer],
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

pub(super) fn bounded(rows: Vec<Row>, most_states: usize, drain_every: usize) -> Vec<Row> {
    let bound = |mut row: Row| {
        row.run.most_states = most_states;
        row.run.drain_every = drain_every;
        row
    };
    rows.into_iter().map(bound).collect()
}

/// Explores each row and prints it as a line of the table in `docs/MODEL.md`.
pub(super) fn hold(rows: Vec<Row>) {
    println!("| run | n a b | ttl | unique states | | s |\n| --- | --- | --- | --- | --- | --- |");
    let mut wrong = Vec::new();
    for Row { run, sees } in rows {
        let found = explore(&run);
        let (n, ticks) = (
            run.processes.len(),
            run.ttl.as_millis() / run.tick.as_millis(),
        );
        let bound = match &found.violation {
            Some(violation) => violation.property.to_owned(),
            None if found.exhausted => "exhaustive".to_owned(),
            None => format!("capped, depth {}", found.depth),
        };
        println!(
            "| {} | {n} {} {} | {ticks} | {} | {bound} | {:.0} |",
            run.name,
            run.attempts,
            run.budget,
            found.states,
            found.took.as_secs_f64()
        );
        if let Some(violation) = found.violation {
            println!("{}", violation.trace);
            wrong.push(format!("{}: {}", run.name, violation.property));
        }
        let missing = found.seen.missing(sees);
        if !missing.is_empty() {
            wrong.push(format!("{}: never saw {missing:?}", run.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_small_fleet_keeps_its_promises() {
    hold(small());
}

#[test]
#[ignore = "ten minutes in a release build: docs/MODEL.md"]
fn explore_large_fleet() {
    hold(large());
}
