//! The kinds with many holders, explored: small runs for every test run, large ones for a table.

use super::fault::Kind::{self, Break, Crash, Driver, Push, QueueLost, Stall, Twice, TwiceLater};
use super::kind::Asks::{self, Alone, As, Read, Take, Write};
use super::run::{Run, Wants};
use super::runs::{Row, bounded, hold, row};
use super::seen::Witness::*;

const F: Wants = Wants::Forever;

const TWO: &[&[Wants]] = &[&[F], &[F]];
const THREE: &[&[Wants]] = &[&[F], &[F], &[F]];

const ALL: &[Kind] = &[
    Break, Push, Stall, Crash, Twice, TwiceLater, Driver, QueueLost,
];

fn of(processes: &'static [&'static [Wants]], asks: &'static [Asks]) -> Run {
    Run {
        processes,
        asks,
        ..Run::default()
    }
}

fn small() -> Vec<Row> {
    let rows = vec![
        row("read; write; read", &[BatchOfTwo, TwoBelievers, ReaderBehindWriter, Rest], of(THREE, &[Read, Write, Read])),
        row("write; read, downgraded", &[Downgraded, DowngradeLetIn, Rest], Run { downgrades: true, ..of(TWO, &[Write, Read]) }),
        row("1, 2, 1 of 2", &[SmallBehindBig, Rest], of(THREE, &[Take(1, 2), Take(2, 2), Take(1, 2)])),
        row("a, b, a", &[StillHeld, Reentered, Rest], of(THREE, &[As("a"), As("b"), As("a")])),
        row("every fault", &[Rest], Run { budget: 1, faults: ALL, ..of(TWO, &[Read, Write]) }),
        row("exclusive; read", &[WrongKind, Rest], of(TWO, &[Alone, Read])),
    ];
    bounded(rows, 6_000, 40)
}

#[test]
fn locks_with_many_holders_keep_their_promises() {
    hold(small());
}
