//! In which runs the known-bad variants are searched, and which property catches each.

use super::fault::{Kind, Stall};
use super::mutants::Mutant;
use super::run::{Run, Wants};
use super::search::explore;
use std::time::Duration;

/// A variant, the run that finds it, and what catches it after how many steps.
pub(super) struct Bad {
    mutant: Mutant,
    run: Run,
    caught_by: &'static str,
    steps: usize,
}

const F: Wants = Wants::Forever;

/// A variant and the run that finds it.
pub(super) fn of(mutant: Mutant, caught_by: &'static str, steps: usize, run: Run) -> Bad {
    Bad {
        mutant,
        caught_by,
        steps,
        run: Run {
            mutant: Some(mutant),
            most_states: 100_000,
            drain_every: if caught_by == "L1" { 20 } else { usize::MAX },
            ..run
        },
    }
}

/// `far`: includes those that take many states to find.
fn bad(far: bool) -> Vec<Bad> {
    let faults = |faults| Run {
        budget: 1,
        faults,
        ..Run::default()
    };
    let short = |faults| Run {
        budget: 1,
        faults,
        ttl: Duration::from_secs(2),
        ..Run::default()
    };
    let long = Run {
        min_hold: Some(Duration::from_secs(4)),
        ..Run::default()
    };
    let renews = |run| Run {
        renews: true,
        ..run
    };
    let (requests, process) = (
        &[Kind::Only(Stall::Requests)],
        &[Kind::Only(Stall::Process)],
    );
    let mut bad = vec![
        of(
            Mutant::DeadlineFromReply,
            "S3a",
            8,
            faults(&[Kind::Only(Stall::Replies)]),
        ),
        of(
            Mutant::PushForTheWholeTtl,
            "S3a",
            13,
            Run {
                ttl: Duration::from_secs(4),
                ..Run::default()
            },
        ),
        of(
            Mutant::YoursForTheWholeTtl,
            "S3a",
            17,
            faults(&[Kind::Push]),
        ),
        of(Mutant::DelWithoutToken, "S3a", 11, faults(requests)),
        of(
            Mutant::RenewalWithoutCompare,
            "S9",
            10,
            renews(faults(&[Kind::Memory])),
        ),
        of(
            Mutant::RenewalCreates,
            "S3c",
            13,
            renews(faults(&[Kind::Only(Stall::Watchdog)])),
        ),
        of(Mutant::NoCleanUp, "S3c", 4, faults(&[Kind::Break])),
        of(Mutant::FirstAnswerEnds, "S3c", 9, faults(&[Kind::Break])),
        of(Mutant::NotAfterIgnored, "S3c", 13, faults(&[Kind::Break])),
        of(Mutant::NoPoll, "L1", 28, faults(&[Kind::Push])),
        of(Mutant::AcquireSentAgain, "S3c", 9, faults(&[Kind::Break])),
        of(
            Mutant::WatchdogNotStopped,
            "L1",
            121,
            renews(Run {
                cancels: 1,
                ..Run::default()
            }),
        ),
        of(Mutant::KnownPushIsStray, "S3a", 15, Run::default()),
        of(
            Mutant::TokenReused,
            "S3b",
            9,
            Run {
                attempts: 2,
                cancels: 1,
                processes: &[&[F, F]],
                ..Run::default()
            },
        ),
        of(
            Mutant::ClaimIsWhole,
            "L1",
            78,
            Run {
                ttl: Duration::from_secs(20),
                processes: &[&[F], &[F], &[F]],
                ..faults(&[Kind::CrashInQueue])
            },
        ),
        of(Mutant::SetNxFirst, "S5", 6, faults(&[Kind::Foreign])),
        of(
            Mutant::ReleaseOfNothingGrantsNobody,
            "S6",
            11,
            faults(requests),
        ),
        of(Mutant::QueuedTwice, "S3c", 10, Run::default()),
        of(Mutant::MinHoldForgotten, "S7", 5, long.clone()),
        of(Mutant::ReleaseKeepsToken, "S3c", 6, long.clone()),
        of(
            Mutant::NotConfirmed,
            "S7",
            21,
            Run {
                attempts: 2,
                ..long.clone()
            },
        ),
        of(Mutant::TtlUnderMinHold, "S7", 6, long),
    ];
    let in_one = |run| Run {
        processes: &[&[F, F], &[F]],
        attempts: 2,
        handoffs: 1,
        ..run
    };
    bad.extend([
        of(Mutant::HandedOnAfresh, "S3a", 9, in_one(Run::default())),
        of(Mutant::FenceOfTheGrant, "S3b", 6, in_one(Run::default())),
    ]);
    if far {
        bad.extend([
            of(Mutant::PushFromReceipt, "S3a", 14, short(process)),
            of(Mutant::PollByAcquire, "S3c", 20, short(process)),
        ]);
    }
    bad
}

/// The variants that nothing has caught, or another property than expected.
pub(super) fn missed(bad: Vec<Bad>) -> Vec<String> {
    let mut missed = Vec::new();
    for Bad {
        mutant,
        run,
        caught_by,
        steps,
    } in bad
    {
        let found = explore(&run);
        let violation = found.violation.as_ref();
        let (by, after) = violation.map_or(("nothing", 0), |it| (it.property, it.steps));
        println!(
            "{mutant:?}: {by} after {after} steps, {} states",
            found.states
        );
        if !by.starts_with(caught_by) || after != steps {
            let trace = violation.map_or("", |it| &it.trace);
            missed.push(format!("{mutant:?}: {by} after {after}\n{trace}"));
        }
    }
    missed
}

#[test]
fn known_bad_variants_are_caught() {
    let missed = missed(bad(false));
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
#[ignore = "for a release build: docs/inside/model.md"]
fn explore_large_variants() {
    let missed = missed(bad(true));
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    silent_without(bad(true));
}

/// The property that catches a variant must hold without it.
pub(super) fn silent_without(bad: Vec<Bad>) {
    for Bad { mutant, run, .. } in bad {
        let found = explore(&run);
        let most_states = 2 * found.states + 500;
        let good = explore(&Run {
            mutant: None,
            most_states,
            ..run
        });
        let wrong = good.violation.map(|it| (it.property, it.trace));
        assert!(wrong.is_none(), "without {mutant:?}: {wrong:?}");
    }
}
