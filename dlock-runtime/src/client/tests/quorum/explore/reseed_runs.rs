//! Renewals that ask nodes for their vote which do not have the lock: the explorations, and the
//! known-bad variants. The figures are in `docs/notes/model.md`.

use super::kind_runs::without_owners_fences;
use super::kinds::Role::{self, *};
use super::mutants::Mutant::{self, *};
use super::run::Fault::{Back, Client, Crash, Empty, Evict};
use super::run::{Fault, Proposals, Run};
use super::runs::{Row, row};
use super::seen::Witness::*;
use super::variants::{Bad, bad};
use crate::rules::tests::explore::{bounded, catch, hold, small};

/// One attempt of each client, which may renew once, for so many ticks.
fn renewed(ticks: u32) -> Run {
    Run {
        attempts: 1,
        timeout: 0,
        ticks,
        renewals: 1,
        reseeds: true,
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

fn twice(run: Run) -> Run {
    Run { renewals: 2, ..run }
}

fn five(run: Run) -> Run {
    Run { nodes: 5, ..run }
}

fn alone(run: Run) -> Run {
    Run { clients: 1, ..run }
}

fn time(run: Run) -> Run {
    Run {
        proposals: Proposals::Time(&[]),
        ..run
    }
}

/// Who is evicted counts on the lock until the next renewal, and others may have it meanwhile.
fn evicted(run: Run) -> Run {
    Run {
        off: &["S1", "S2", "S8", "S8one"],
        ..run
    }
}

fn of(roles: &'static [Role], run: Run) -> Run {
    let clients = roles.len();
    without_owners_fences(Run {
        clients,
        roles,
        ..run
    })
}

const RW: &[Role] = &[Reads, Writes];
const WR: &[Role] = &[Writes, Reads];

fn rows() -> Vec<Row> {
    vec![
        row("re-seeds", &[Reseeded, RenewedByReseed], renewed(3)),
        row(
            "re-seeds, drift with margin",
            &[Reseeded, RenewedByReseed, DriftedEarly],
            Run {
                ttl: 3,
                margin: 1,
                drifts: true,
                ..renewed(4)
            },
        ),
        row(
            "re-seeds, two crashes",
            &[Reseeded, RenewedByReseed, RestartedWithData],
            with(&[Crash], 2, renewed(3)),
        ),
        row(
            "re-seeds, an empty restart",
            &[Reseeded, RenewedByReseed, RestartedEmpty],
            time(with(&[Empty], 1, renewed(3))),
        ),
        row(
            "re-seeds twice, two empty restarts",
            &[Reseeded, RenewedByReseed, RestartedEmpty],
            time(twice(with(&[Empty], 2, renewed(4)))),
        ),
        row(
            "re-seeds, a client's crash",
            &[Reseeded, ClientCrashed],
            with(&[Client], 1, renewed(3)),
        ),
        row(
            "re-seeds, evicted, an empty restart",
            &[Reseeded, Evicted],
            evicted(time(twice(with(&[Evict, Empty], 2, renewed(3))))),
        ),
        row(
            "re-seeds, evicted, five nodes",
            &[Reseeded, Evicted],
            evicted(alone(five(twice(with(&[Evict, Crash], 2, renewed(2)))))),
        ),
        row(
            "re-seeds, five nodes, a crash",
            &[Reseeded],
            five(with(&[Crash], 1, renewed(2))),
        ),
        row(
            "re-seeds; read; write, downgraded",
            &[Reseeded, Downgraded],
            Run {
                downgrades: true,
                ..of(RW, renewed(3))
            },
        ),
        row(
            "re-seeds; read; write, an empty restart",
            &[Reseeded, RestartedEmpty],
            time(with(&[Empty], 1, of(WR, renewed(3)))),
        ),
        row(
            "re-seeds; ann; ann; bob",
            &[Reseeded, Together],
            of(&[Ann, Ann, Bob], renewed(2)),
        ),
        row(
            "re-seeds; ann; ann, an empty restart",
            &[Reseeded, Together, RestartedEmpty],
            time(with(&[Empty], 1, of(&[Ann, Ann], renewed(3)))),
        ),
        row(
            "re-seeds, clock back: S1, S2",
            &[Reseeded],
            Run {
                off: &["S3", "S5"],
                ..with(&[Back], 1, renewed(3))
            },
        ),
    ]
}

fn variant(name: &str, caught_by: &'static str, steps: usize, it: Mutant, run: Run) -> Bad {
    let run = Run {
        mutant: Some(it),
        ..run
    };
    bad(name, caught_by, steps, run)
}

fn variants() -> Vec<Bad> {
    vec![
        variant("L16", "S3", 11, ReseedsUnanswered, alone(renewed(0))),
        variant(
            "old answer",
            "S3",
            12,
            ReseedsOnOldAnswers,
            alone(renewed(1)),
        ),
        variant("L18", "S3", 11, ReseedsUnstamped, alone(renewed(1))),
        variant(
            "asks again what was evicted",
            "S10",
            13,
            ReseedsWhatWasThere,
            evicted(alone(with(&[Evict], 1, renewed(1)))),
        ),
    ]
}

#[test]
fn known_bad_variants_of_reseeds() {
    catch(variants());
}

#[test]
fn small_bounds_of_reseeds() {
    hold(small(rows(), 4_000));
}

#[test]
#[ignore = "for a release build: docs/notes/model.md"]
fn explore_large_quorum_reseeds() {
    hold(bounded(rows(), 300_000));
}
