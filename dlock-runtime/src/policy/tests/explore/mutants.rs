//! Known-bad variants of the protocol: each has to be caught, or the exploration is blind to it.

use super::fault::Kind;
use super::run::{Run, Wants};
use super::search::explore;
use std::time::Duration;

/// Where a variant is made is where it is asked for: in the model's glue, or around a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    DeadlineFromReply,
    PushFromReceipt,
    PushForTheWholeTtl,
    YoursForTheWholeTtl,
    DelWithoutToken,
    RenewalWithoutCompare,
    RenewalCreates,
    NoCleanUp,
    FirstAnswerEnds,
    NotAfterIgnored,
    NoPoll,
    PollByAcquire,
    AcquireSentAgain,
    WatchdogNotStopped,
    KnownPushIsStray,
    TokenReused,
    ClaimIsWhole,
    SetNxFirst,
    ReleaseOfNothingGrantsNobody,
    QueuedTwice,
    MinHoldForgotten,
    ReleaseKeepsToken,
    NotConfirmed,
    TtlUnderMinHold,
}

/// A variant, where it is looked for, and what catches it after how many steps.
struct Bad {
    mutant: Mutant,
    run: Run,
    caught_by: &'static str,
    steps: usize,
}

const LINE: &[&[Wants]] = &[&[Wants::Forever], &[Wants::Forever]];

fn bad() -> Vec<Bad> {
    let of = |mutant, caught_by, steps, run: Run| Bad {
        mutant,
        caught_by,
        steps,
        run: Run {
            mutant: Some(mutant),
            most_states: 1_000_000,
            ..run
        },
    };
    let faults = |faults| Run {
        budget: 1,
        faults,
        ..Run::default()
    };
    let long = Run {
        min_hold: Some(Duration::from_secs(4)),
        ..Run::default()
    };
    vec![
        of(Mutant::DeadlineFromReply, "S1", 11, faults(&[Kind::Stall])),
        of(Mutant::PushFromReceipt, "S1", 11, faults(&[Kind::Stall])),
        of(Mutant::PushForTheWholeTtl, "S1", 11, Run { ttl: Duration::from_secs(4), ..faults(&[Kind::Stall]) }),
        of(Mutant::YoursForTheWholeTtl, "S1", 11, faults(&[Kind::Push])),
        of(Mutant::DelWithoutToken, "S3a", 7, faults(&[Kind::Stall])),
        of(Mutant::RenewalWithoutCompare, "S9", 7, Run { renews: true, ..faults(&[Kind::Memory]) }),
        of(Mutant::RenewalCreates, "S3c", 7, Run { renews: true, ..faults(&[Kind::Stall]) }),
        of(Mutant::NoCleanUp, "S3c", 3, faults(&[Kind::Break])),
        of(Mutant::FirstAnswerEnds, "S3c", 6, faults(&[Kind::Break])),
        of(Mutant::NotAfterIgnored, "S3c", 6, faults(&[Kind::Break])),
        of(Mutant::NoPoll, "L1", 21, faults(&[Kind::Push])),
        of(Mutant::PollByAcquire, "S3", 12, faults(&[Kind::Stall])),
        of(Mutant::AcquireSentAgain, "S3", 12, faults(&[Kind::Break])),
        of(Mutant::WatchdogNotStopped, "L1", 10, Run { renews: true, cancels: 1, ..Run::default() }),
        of(Mutant::KnownPushIsStray, "S3a", 10, Run::default()),
        of(Mutant::TokenReused, "S", 10, Run { attempts: 2, cancels: 1, processes: &[&[Wants::Forever, Wants::Forever]], ..Run::default() }),
        of(Mutant::ClaimIsWhole, "L1", 10, Run { ttl: Duration::from_secs(20), budget: 1, faults: &[Kind::Crash], ..Run::default() }),
        of(Mutant::SetNxFirst, "S5", 10, Run::default()),
        of(Mutant::ReleaseOfNothingGrantsNobody, "S6", 10, faults(&[Kind::Stall])),
        of(Mutant::QueuedTwice, "S3", 7, Run::default()),
        of(Mutant::MinHoldForgotten, "S7", 5, long.clone()),
        of(Mutant::ReleaseKeepsToken, "S3c", 8, long.clone()),
        of(Mutant::NotConfirmed, "S7", 10, Run { attempts: 2, ..long.clone() }),
        of(Mutant::TtlUnderMinHold, "S7", 5, long),
    ]
}

#[test]
fn known_bad_variants_are_caught() {
    let mut missed = Vec::new();
    for bad in bad() {
        let found = explore(&bad.run);
        let caught = found.violation;
        let (by, steps) = caught.as_ref().map_or(("nothing", 0), |it| (it.property, it.steps));
        println!(
            "{:?}: {by} after {steps} steps ({} states, {:?})",
            bad.mutant, found.states, found.took
        );
        if std::env::var("TRACE").is_ok_and(|of| of == format!("{:?}", bad.mutant)) {
            println!("{}", caught.map(|it| it.trace).unwrap_or_default());
        }
        if !by.starts_with(bad.caught_by) || steps != bad.steps {
            missed.push((bad.mutant, by, steps));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
