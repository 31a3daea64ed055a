//! The explorations of locks with many holders: readers and writers, and the processes of one owner.
//! The figures are in `docs/notes/model.md`.

use super::kinds::Role::{self, *};
use super::run::Fault::{Client, Crash, Empty, Forward, OtherKey};
use super::run::{Fault, Proposals, Run};
use super::runs::Row;
use super::seen::Witness::{self, *};
use super::variants::timeless;
use crate::rules::tests::explore::{bounded, hold, small};

/// An owner's later body may have another fence than an earlier one that still holds.
pub(super) const OWNERS_FENCES: &[&str] = &["S8", "S8one"];

/// Unless other properties are off.
pub(super) fn without_owners_fences(run: Run) -> Run {
    let off = match run.off {
        [] => OWNERS_FENCES,
        off => off,
    };
    Run { off, ..run }
}

fn row(name: &str, sees: &'static [Witness], run: Run) -> Row {
    let clients = run.roles.len();
    Row::new(name, sees, without_owners_fences(Run { clients, ..run }))
}

/// One attempt of each client, for so many ticks.
fn once(roles: &'static [Role], ticks: u32) -> Run {
    Run {
        roles,
        attempts: 1,
        timeout: 0,
        ticks,
        ..Run::default()
    }
}

fn with(faults: &'static [Fault], budget: u8, run: Run) -> Run {
    Run {
        budget,
        faults,
        ..run
    }
}

fn downgraded(run: Run) -> Run {
    Run {
        downgrades: true,
        ..run
    }
}

fn renewed(run: Run) -> Run {
    Run { renewals: 1, ..run }
}

fn fences(roles: &'static [Role], attempts: u16, give_ups: u8) -> Run {
    Run {
        roles,
        ..timeless(attempts, give_ups)
    }
}

const RW: &[Role] = &[Reads, Writes];
const RRW: &[Role] = &[Reads, Reads, Writes];
const AAB: &[Role] = &[Ann, Ann, Bob];
const AA: &[Role] = &[Ann, Ann];

/// What is exhaustive within a second or so.
fn exhaustive() -> Vec<Row> {
    vec![
        row("read; write, expiry", &[Expired, EqualDraws], once(RW, 2)),
        row(
            "read; write, another key's draws",
            &[AdoptNeeded, Adopted],
            with(&[OtherKey], 1, once(RW, 0)),
        ),
        row(
            "write; read, downgraded",
            &[Downgraded, Together],
            downgraded(once(RW, 0)),
        ),
        row(
            "one owner twice, another key's draws",
            &[AdoptNeeded, Together],
            with(&[OtherKey], 1, once(AA, 0)),
        ),
    ]
}

fn readers_and_writers() -> Vec<Row> {
    vec![
        row(
            "read; write, two attempts, a give-up, any proposal",
            &[EqualDraws, WonAfterAdopt, GrantedAfterGiveUp],
            Run {
                proposals: Proposals::Any(&[0, 3]),
                ..fences(RW, 2, 1)
            },
        ),
        row(
            "read; write, two attempts, expiry",
            &[Expired, CancelFound],
            Run {
                attempts: 2,
                timeout: 1,
                ..once(RW, 4)
            },
        ),
        row(
            "read; read; write, another key's draws",
            &[Together, AdoptNeeded, AdoptedBelow],
            with(&[OtherKey], 1, fences(RRW, 1, 0)),
        ),
        row(
            "read; read; write, expiry",
            &[Together, Expired],
            once(RRW, 2),
        ),
        row(
            "read; write, renewed, drift with margin",
            &[Renewed, DriftedEarly],
            renewed(Run {
                ttl: 3,
                margin: 1,
                drifts: true,
                ..once(RW, 5)
            }),
        ),
        row(
            "read; write, downgraded, renewed",
            &[Downgraded, Renewed, Together],
            downgraded(renewed(once(RW, 3))),
        ),
        row(
            "read; write, downgraded, two attempts, a give-up",
            &[Downgraded, Together],
            downgraded(fences(RW, 2, 1)),
        ),
        row(
            "write; write, downgraded, another key's draws",
            &[Downgraded, AdoptNeeded],
            downgraded(with(&[OtherKey], 1, fences(&[Writes, Writes], 1, 0))),
        ),
    ]
}

fn readers_with_faults() -> Vec<Row> {
    let time = |run| Run {
        proposals: Proposals::Time(&[]),
        ..run
    };
    vec![
        row(
            "read; write, downgraded, two crashes with data",
            &[RestartedWithData, Downgraded],
            downgraded(with(&[Crash], 2, once(RW, 4))),
        ),
        row(
            "read; write, downgraded, an empty restart, quarantine",
            &[RestartedEmpty, QuarantinedOut, Downgraded],
            time(downgraded(with(&[Empty], 1, once(RW, 4)))),
        ),
        row(
            "read; write, renewed, a client's crash",
            &[ClientCrashed, Renewed],
            renewed(with(&[Client], 1, once(RW, 4))),
        ),
        row(
            "read; write, clock forward: S2lin, S3, S5",
            &[ClockStepped],
            Run {
                off: &["S1", "S2"],
                ..with(&[Forward, OtherKey], 2, fences(RW, 1, 0))
            },
        ),
        row(
            "exclusive; read",
            &[EqualDraws, Expired],
            once(&[Exclusive, Reads], 4),
        ),
    ]
}

fn owners() -> Vec<Row> {
    vec![
        row(
            "one owner twice, another key's draws, twice",
            &[AdoptNeeded, Together],
            with(&[OtherKey], 2, fences(AA, 1, 0)),
        ),
        row(
            "ann; bob, two attempts, a give-up, any proposal",
            &[EqualDraws, GrantedAfterGiveUp],
            Run {
                proposals: Proposals::Any(&[0, 3]),
                ..fences(&[Ann, Bob], 2, 1)
            },
        ),
        row(
            "ann; ann; bob, another key's draws",
            &[Together, AdoptNeeded, BesideEqual],
            with(&[OtherKey], 1, fences(AAB, 1, 0)),
        ),
        row("ann; ann; bob, expiry", &[Together, Expired], once(AAB, 2)),
        row(
            "ann; ann, two attempts, renewed, expiry",
            &[Together, Renewed, Expired],
            renewed(Run {
                attempts: 2,
                ..once(AA, 3)
            }),
        ),
        row(
            "ann; ann; bob, an empty restart, quarantine",
            &[RestartedEmpty, Together],
            Run {
                proposals: Proposals::Time(&[]),
                ..with(&[Empty], 1, once(AAB, 2))
            },
        ),
        row(
            "ann; ann; bob, a client's or a node's crash",
            &[ClientCrashed, RestartedWithData],
            with(&[Client, Crash], 1, once(AAB, 2)),
        ),
        row(
            "ann; bob, clock forward: S2lin, S3, S5, S8lin",
            &[ClockStepped],
            Run {
                off: &["S1", "S2", "S8", "S8one"],
                ..with(&[Forward, OtherKey], 2, fences(&[Ann, Bob], 1, 0))
            },
        ),
    ]
}

fn rows() -> Vec<Row> {
    let mut rows = readers_and_writers();
    rows.extend(readers_with_faults());
    rows.extend(owners());
    rows
}

#[test]
fn exhaustive_runs_of_many_holders() {
    hold(bounded(exhaustive(), 300_000));
}

#[test]
fn small_bounds_of_many_holders() {
    hold(small(rows(), 1_500));
}

#[test]
#[ignore = "for a release build: docs/notes/model.md"]
fn explore_large_quorum_kinds() {
    hold(bounded(rows(), 300_000));
}
