//! The explorations for every test run: those of `large_runs` in small bounds.

use super::large_runs::rows;
use super::mutants::Mutant;
use super::run::{Fault, Run};
use super::seen::Witness;
use super::world::World;
use crate::rules::tests::explore::{self, bounded, hold, small};

pub(super) type Row = explore::Row<World>;

pub(super) fn row(name: &str, sees: &'static [Witness], run: Run) -> Row {
    Row::new(name, sees, run)
}

#[test]
fn small_bounds_of_every_run() {
    hold(small(rows(), 2_500));
}

/// One attempt of each client, with everything that may happen to a lease.
#[test]
fn one_lease_each() {
    let once = Run {
        attempts: 1,
        timeout: 0,
        ticks: 2,
        ..Run::default()
    };
    let rows = vec![
        row(
            "expiry",
            &[Witness::EqualDraws, Witness::Expired, Witness::LateBallot],
            once.clone(),
        ),
        row(
            "another key's draws",
            &[Witness::AdoptNeeded, Witness::Adopted],
            Run {
                budget: 1,
                faults: &[Fault::OtherKey],
                ticks: 0,
                ..once.clone()
            },
        ),
        row(
            "handed on",
            &[Witness::HandedOn, Witness::Expired],
            Run {
                handoffs: 1,
                ..once.clone()
            },
        ),
        row(
            "handed on though renewed",
            &[Witness::HandedOn, Witness::Renewed],
            Run {
                handoffs: 1,
                renewals: 1,
                mutant: Some(Mutant::HandsOnRenewed),
                ..once
            },
        ),
    ];
    hold(bounded(rows, 12_000));
}
