//! The explorations of the kinds with many holders: small ones for every test run, large ones for a
//! table.

use std::time::Duration;

use super::fault::Kind::{
    self, Break, Crash, Foreign, Leader, Memory, Only, Push, QueueLost, Stall, Twice, TwiceLater,
};
use super::fault::Stall as Stands;
use super::kind::Asks::{self, Alone, As, Read, Take, Write};
use super::kind::Keeps;
use super::run::{Run, Wants};
use super::runs::{Row, bounded, row};
use super::seen::Witness::*;
use crate::rules::tests::explore::hold;

const F: Wants = Wants::Forever;

const TWO: &[&[Wants]] = &[&[F], &[F]];
const THREE: &[&[Wants]] = &[&[F], &[F], &[F]];

const ALL: &[Kind] = &[
    Break, Push, Stall, Crash, Twice, TwiceLater, Leader, Foreign, QueueLost,
];

pub(super) fn of_kinds(processes: &'static [&'static [Wants]], asks: &'static [Asks]) -> Run {
    Run {
        processes,
        asks,
        ..Run::default()
    }
}

fn two(asks: &'static [Asks]) -> Run {
    of_kinds(TWO, asks)
}

fn three(asks: &'static [Asks]) -> Run {
    of_kinds(THREE, asks)
}

/// All faults.
fn faults(budget: u8, run: Run) -> Run {
    Run {
        budget,
        faults: ALL,
        ..run
    }
}

fn renews(run: Run) -> Run {
    Run {
        renews: true,
        ..run
    }
}

fn downgrades(run: Run) -> Run {
    Run {
        downgrades: true,
        ..run
    }
}

/// The first process holds the lock for ever; the second gives up at some time.
fn ever(asks: &'static [Asks]) -> Run {
    Run {
        keeps: Keeps::TheFirst,
        rest: 22,
        ..renews(of_kinds(&[&[F], &[Wants::For], &[F]], asks))
    }
}

/// The first process's body calls the last one's, of the same owner, and waits for it.
fn outer() -> Run {
    Run {
        keeps: Keeps::TheOuter,
        ..renews(three(&[As("a"), As("b"), As("a")]))
    }
}

fn kept(seconds: u64, run: Run) -> Run {
    Run {
        min_hold: Some(Duration::from_secs(seconds)),
        ..run
    }
}

const RW: &[Asks] = &[Read, Write, Read];
const PERMITS: &[Asks] = &[Take(1, 2), Take(2, 2), Take(1, 2)];
const OWNERS: &[Asks] = &[As("a"), As("b"), As("a")];

fn small() -> Vec<Row> {
    let rows = vec![
        row(
            "read; write; read",
            &[BatchOfTwo, TwoBelievers, ReaderBehindWriter, Rest],
            three(RW),
        ),
        row(
            "write; read, downgraded, renewed",
            &[Downgraded, DowngradeLetIn, Renewed, Rest],
            renews(downgrades(two(&[Write, Read]))),
        ),
        row(
            "1; 2; 1 of 2",
            &[BatchOfTwo, TwoBelievers, SmallBehindBig, Rest],
            three(PERMITS),
        ),
        row("a; b; a", &[StillHeld, Reentered, Rest], three(OWNERS)),
        row("a around a; b", &[Reentered, Rest], outer()),
        row(
            "read; write, every fault",
            &[CrashWhileHolding, LimboExecuted, Rest],
            faults(1, two(&[Read, Write])),
        ),
        row(
            "read; write, a crash",
            &[ExpiryWithQueue, DeadWaiterSkipped, CrashWhileHolding, Rest],
            some(1, &[Crash], two(&[Read, Write])),
        ),
        row(
            "exclusive; read",
            &[OtherKindLetIn, HeldByPush, Rest],
            two(&[Alone, Read]),
        ),
        row(
            "read; exclusive; read",
            &[OtherKindLetIn, ReaderBehindWriter, Rest],
            three(&[Read, Alone, Read]),
        ),
        row(
            "exclusive; read, which does not wait",
            &[WrongKind, Rest],
            of_kinds(&[&[F], &[Wants::Once]], &[Alone, Read]),
        ),
        row(
            "1 of 1; 1 of 2",
            &[TwoBelievers, Rest],
            two(&[Take(1, 1), Take(1, 2)]),
        ),
        row(
            "min_hold",
            &[KeptForMinHold, Confirmed, Rest],
            kept(4, two(&[Read, Write])),
        ),
    ];
    bounded(rows, 3_500, 40)
}

fn some(budget: u8, kinds: &'static [Kind], run: Run) -> Run {
    Run {
        budget,
        faults: kinds,
        ..run
    }
}

fn read_and_write() -> Vec<Row> {
    let rows = vec![
        row(
            "read; write, every fault",
            &[
                HeldByPush,
                HeldByYours,
                LimboExecuted,
                CrashWhileHolding,
                LateRelease,
                Rest,
            ],
            faults(1, two(&[Read, Write])),
        ),
        row(
            "read; write; read, every fault",
            &[
                BatchOfTwo,
                TwoBelievers,
                ReaderBehindWriter,
                CrashWhileHolding,
                Rest,
            ],
            faults(1, three(RW)),
        ),
        row(
            "read; write; read, two crashes",
            &[
                BatchOfTwo,
                ExpiryWithQueue,
                DeadWaiterSkipped,
                GrantByAnothersPoll,
                Rest,
            ],
            some(2, &[Crash, Push], three(RW)),
        ),
        row(
            "read for ever; write; read, a crash or a stop",
            &[HeartbeatLapsed, ReaderBehindWriter, TwoBelievers, Rest],
            some(1, &[Crash, Only(Stands::Process)], ever(RW)),
        ),
        row(
            "write; read, every fault, renewed, downgraded",
            &[
                Renewed,
                Downgraded,
                DowngradeLetIn,
                LateDowngradeRefused,
                Rest,
            ],
            faults(1, renews(downgrades(two(&[Write, Read])))),
        ),
        row(
            "write; read; write, downgraded",
            &[Downgraded, DowngradeLetIn, Rest],
            downgrades(three(&[Write, Read, Write])),
        ),
        row(
            "read; write, cancelled waits, fresh tokens, every fault",
            &[CancelLeftQueue, CancelFreed, StaleGrant, Rest],
            Run {
                attempts: 2,
                cancels: 1,
                ..faults(1, two(&[Read, Write]))
            },
        ),
        row(
            "read; write, waits that are over or none",
            &[PastTheQueue, CancelLeftQueue, ReaderBehindWriter, Rest],
            Run {
                attempts: 2,
                cancels: 1,
                ..of_kinds(&[&[F], &[Wants::For], &[Wants::Once]], RW)
            },
        ),
    ];
    bounded(rows, 2_000_000, 50)
}

fn permits_and_owners() -> Vec<Row> {
    let rows = vec![
        row(
            "1; 2; 1 of 2, every fault",
            &[BatchOfTwo, SmallBehindBig, TwoBelievers, Rest],
            faults(1, three(PERMITS)),
        ),
        row(
            "1 for ever; 2; 1 of 2, a crash or a stop",
            &[HeartbeatLapsed, SmallBehindBig, TwoBelievers, Rest],
            some(1, &[Crash, Only(Stands::Process)], ever(PERMITS)),
        ),
        row(
            "2; 1; 2 of 3, two crashes",
            &[TwoBelievers, DeadWaiterSkipped, Rest],
            some(
                2,
                &[Crash, Push],
                three(&[Take(2, 3), Take(1, 3), Take(2, 3)]),
            ),
        ),
        row(
            "1 of 2; 1 of 3; 1 of 2",
            &[TwoBelievers, Rest],
            three(&[Take(1, 2), Take(1, 3), Take(1, 2)]),
        ),
        row(
            "a; b; a, every fault",
            &[StillHeld, Reentered, TwoBelievers, Rest],
            faults(1, three(OWNERS)),
        ),
        row(
            "a around a; b, a crash",
            &[StillHeld, Reentered, TwoBelievers, Rest],
            some(1, &[Crash], outer()),
        ),
        row(
            "exclusive; read; permit, every fault",
            &[OtherKindLetIn, Rest],
            faults(1, three(&[Alone, Read, Take(1, 2)])),
        ),
        row(
            "a; a; b, min_hold",
            &[KeptForMinHold, StillHeld, Rest],
            kept(3, three(&[As("a"), As("a"), As("b")])),
        ),
    ];
    bounded(rows, 2_000_000, 50)
}

fn min_hold_and_weather() -> Vec<Row> {
    let asynchronous = |run| Run {
        asynchronous: true,
        tick: Duration::from_millis(1500),
        ..run
    };
    let rows = vec![
        row(
            "read; write, min_hold longer than the ttl",
            &[KeptForMinHold, Confirmed, Rest],
            kept(4, faults(1, two(&[Read, Write]))),
        ),
        row(
            "write; read, min_hold shorter than the ttl, renewed, downgraded",
            &[KeptForMinHold, Confirmed, Renewed, Downgraded, Rest],
            kept(2, renews(downgrades(faults(1, two(&[Write, Read]))))),
        ),
        row(
            "read; write, FLUSHALL, DEL",
            &[HeldByPush, Rest],
            some(1, &[Memory, Stall], renews(two(&[Read, Write]))),
        ),
        row(
            "read; write, PUBLISH refused",
            &[HeldByYours, Rest],
            Run {
                publish_refused: true,
                ..faults(1, two(&[Read, Write]))
            },
        ),
        row(
            "read; write, asynchronous",
            &[HeldByPush, StaleGrant],
            asynchronous(some(1, &[Break, Crash], two(&[Read, Write]))),
        ),
    ];
    bounded(rows, 2_000_000, 50)
}

#[test]
fn locks_with_many_holders_keep_their_promises() {
    hold(small());
}

#[test]
#[ignore = "minutes in a release build: docs/notes/model.md"]
fn explore_large_read_and_write() {
    hold(read_and_write());
}

#[test]
#[ignore = "minutes in a release build: docs/notes/model.md"]
fn explore_large_permits_and_owners() {
    hold(permits_and_owners());
}

#[test]
#[ignore = "minutes in a release build: docs/notes/model.md"]
fn explore_large_min_hold_and_weather() {
    hold(min_hold_and_weather());
}
