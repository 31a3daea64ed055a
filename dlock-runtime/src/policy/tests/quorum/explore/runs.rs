//! The explorations for every test run: those of `large_runs` in small bounds.

use super::large_runs::rows;
use super::mutants::Mutant;
use super::run::{Fault, Run};
use super::search::explore;
use super::seen::Witness;

/// A run, and what must have happened in it.
pub(super) struct Row {
    pub(super) run: Run,
    pub(super) sees: &'static [Witness],
}

/// The rows whose run breaks a property, or shows nothing.
pub(super) fn wrong(rows: Vec<Row>) -> Vec<String> {
    let mut wrong = Vec::new();
    for Row { run, sees } in rows {
        let found = explore(&run);
        let covered = if found.exhausted {
            "exhaustive".into()
        } else {
            format!("every trace of {} steps", found.depth - 1)
        };
        let (name, states, took) = (run.name, found.states, found.took);
        println!("{name}: {states} states, {covered}, {took:.1?}");
        if let Some(it) = found.violation {
            wrong.push(format!(
                "{name}: {} after {}\n{}",
                it.property, it.steps, it.trace
            ));
        }
        for witness in sees.iter().filter(|it| !found.seen.has_seen(**it)) {
            wrong.push(format!("{name}: never {witness:?}"));
        }
    }
    wrong
}

/// The same run, ended after so many states; what takes longer to happen is not asked for.
fn small(row: Row) -> Row {
    Row {
        run: Run {
            most_states: 2_500,
            ..row.run
        },
        sees: &[],
    }
}

#[test]
fn small_bounds_of_every_run() {
    let wrong = wrong(rows().into_iter().map(small).collect());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    let row = |name, sees, run| Row {
        run: Run {
            name,
            most_states: 12_000,
            ..run
        },
        sees,
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
    let wrong = wrong(rows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
