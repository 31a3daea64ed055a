//! Each known-bad variant of the explorer, with a seed that shows it. The shipped machines pass the
//! same seeds.

use std::collections::BTreeSet;

use super::runs::{live, report};
use crate::client::tests::explore::mutants::Mutant;

/// A change of the machines may move a variant to another seed: one of the next this many must show
/// it then.
const AHEAD: u64 = 600;

/// The first seed from `from` on that shows a variant, what it breaks there, and after how many
/// steps.
fn shown(mutant: Mutant, from: u64, seeds: u64) -> Option<(u64, &'static str, u64)> {
    (from..from + seeds).find_map(|seed| {
        let outcome = live(seed, Some(mutant));
        Some((seed, outcome.wrong?, outcome.steps))
    })
}

#[test]
fn each_known_bad_variant_has_a_seed_that_shows_it() {
    let (mut missed, mut seeds) = (Vec::new(), BTreeSet::new());
    for (mutant, seed) in SHOWN {
        let Some((found, wrong, steps)) = shown(mutant, seed, AHEAD) else {
            missed.push(mutant);
            continue;
        };
        let moved = if found == seed {
            ""
        } else {
            " (moved: `search_variants` writes the table anew)"
        };
        println!("{mutant:?}: seed {found}{moved}, {wrong} after {steps} steps");
        seeds.insert(found);
    }
    assert!(missed.is_empty(), "no seed shows {missed:?}");
    for seed in seeds {
        assert!(live(seed, None).wrong.is_none(), "{}", report(seed, None));
    }
}

#[test]
#[ignore = "looks for the seeds of the table: minutes"]
fn search_variants() {
    for (mutant, _) in SHOWN {
        match shown(mutant, 1, 2_000) {
            Some((seed, wrong, steps)) => {
                println!("    (Mutant::{mutant:?}, {seed}), // {wrong}, {steps} steps");
            }
            None => println!("    {mutant:?}: none"),
        }
    }
}

const SHOWN: [(Mutant, u64); 39] = [
    (Mutant::DeadlineFromReply, 43),
    (Mutant::PushFromReceipt, 10),
    (Mutant::PushForTheWholeTtl, 1),
    (Mutant::YoursForTheWholeTtl, 135),
    (Mutant::DelWithoutToken, 1),
    (Mutant::RenewalWithoutCompare, 1),
    (Mutant::RenewalCreates, 2),
    (Mutant::NoCleanUp, 1),
    (Mutant::FirstAnswerEnds, 50),
    (Mutant::NotAfterIgnored, 10),
    (Mutant::NoPoll, 1),
    (Mutant::PollByAcquire, 40),
    (Mutant::AcquireSentAgain, 261),
    (Mutant::WatchdogNotStopped, 3),
    (Mutant::KnownPushIsStray, 1),
    (Mutant::TokenReused, 1),
    (Mutant::ClaimIsWhole, 1),
    (Mutant::SetNxFirst, 1),
    (Mutant::ReleaseOfNothingGrantsNobody, 4),
    (Mutant::QueuedTwice, 9),
    (Mutant::MinHoldForgotten, 3),
    (Mutant::ReleaseKeepsToken, 3),
    (Mutant::NotConfirmed, 205),
    (Mutant::TtlUnderMinHold, 3),
    (Mutant::HandedOnAfresh, 105),
    (Mutant::FenceOfTheGrant, 4),
    (Mutant::NoHeartbeat, 3),
    (Mutant::ReleaseDropsAll, 1),
    (Mutant::ReleaseGrantsNobody, 1),
    (Mutant::CancelGrantsNobody, 1),
    (Mutant::OneGrantForEach, 1),
    (Mutant::ReentryQueues, 2),
    (Mutant::RenewsAll, 1),
    (Mutant::DowngradeShortens, 10),
    (Mutant::DowngradeWithGap, 10),
    (Mutant::PassesTheHead, 3),
    (Mutant::TakesIfOneIsFree, 1),
    (Mutant::LastComerEndsAll, 1),
    (Mutant::LeavesOtherKinds, 10),
];
