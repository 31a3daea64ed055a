//! In which runs the known-bad variants are searched, and which property catches each.

use std::time::Duration;

use super::fault::{Kind, Stall};
use super::mutants::Mutant;
use super::run::{Run, Wants};
use super::runs::Row;
use super::world::World;
use crate::rules::tests::explore::{self, catch, hold};

pub(super) type Bad = explore::Bad<World>;

const F: Wants = Wants::Forever;

/// A variant and the run that finds it.
pub(super) fn of(mutant: Mutant, caught_by: &'static str, steps: usize, run: Run) -> Bad {
    Bad {
        name: format!("{mutant:?}"),
        run: Run {
            mutant: Some(mutant),
            drain_every: if caught_by == "L1" { 20 } else { usize::MAX },
            ..run
        },
        most_states: 100_000,
        caught_by,
        steps,
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

#[test]
fn known_bad_variants_are_caught() {
    catch(bad(false));
}

#[test]
#[ignore = "for a release build: docs/notes/model.md"]
fn explore_large_variants() {
    catch(bad(true));
    silent_without(bad(true));
}

/// The property that catches a variant must hold without it.
pub(super) fn silent_without(bad: Vec<Bad>) {
    let good = bad.into_iter().map(|it| {
        let states = explore::explore::<World>(&it.run, it.most_states).states;
        let good = Run {
            mutant: None,
            ..it.run
        };
        Row {
            most_states: 2 * states + 500,
            ..Row::new(&format!("without {}", it.name), &[], good)
        }
    });
    hold(good.collect());
}
