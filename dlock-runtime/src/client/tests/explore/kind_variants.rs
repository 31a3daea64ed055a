//! In which runs the known-bad variants of the kinds with many holders are searched, and which
//! property catches them.

use std::time::Duration;

use super::fault::Kind::{self, Break, CrashInQueue, Only, Push};
use super::fault::Stall as Stands;
use super::kind::Asks::{self, Alone, As, Read, Take, Write};
use super::kind::Keeps;
use super::kind_runs::of_kinds;
use super::mutants::Mutant;
use super::run::{Run, Wants};
use super::variants::{Bad, of, silent_without};
use crate::rules::tests::explore::catch;

const F: Wants = Wants::Forever;
const THREE: &[&[Wants]] = &[&[F], &[F], &[F]];

fn two(asks: &'static [Asks]) -> Run {
    of_kinds(&[&[F], &[F]], asks)
}

fn three(asks: &'static [Asks]) -> Run {
    of_kinds(THREE, asks)
}

/// The first process holds for ever, the second gives up at some time.
fn ever(asks: &'static [Asks]) -> Run {
    Run {
        keeps: Keeps::TheFirst,
        renews: true,
        rest: 22,
        ..of_kinds(&[&[F], &[Wants::For], &[F]], asks)
    }
}

fn faults(faults: &'static [Kind], run: Run) -> Run {
    Run {
        budget: 1,
        faults,
        ..run
    }
}

fn downgrades(run: Run) -> Run {
    Run {
        downgrades: true,
        ..run
    }
}

fn bad(far: bool) -> Vec<Bad> {
    let long = Run {
        min_hold: Some(Duration::from_secs(4)),
        ..two(&[Read, Write])
    };
    let renews = Run {
        renews: true,
        ..two(&[Read, Read])
    };
    let outer = Run {
        keeps: Keeps::TheOuter,
        renews: true,
        ..three(&[As("a"), As("b"), As("a")])
    };
    let rw: &[Asks] = &[Read, Write, Read];
    let permits: &[Asks] = &[Take(1, 2), Take(2, 2), Take(1, 2)];
    let mut bad = vec![
        of(Mutant::RenewsAll, "S9", 9, renews),
        of(
            Mutant::LastComerEndsAll,
            "S9",
            4,
            Run {
                ttls: &[3, 2],
                ..two(&[Read, Read])
            },
        ),
        of(
            Mutant::DowngradeShortens,
            "S7",
            5,
            downgrades(two(&[Write, Read])),
        ),
        of(
            Mutant::DowngradeWithGap,
            "S3a",
            7,
            downgrades(two(&[Write, Write])),
        ),
        of(Mutant::ReleaseDropsAll, "S3a", 7, two(&[Read, Read])),
        of(
            Mutant::TakesIfOneIsFree,
            "S1",
            6,
            two(&[Take(1, 2), Take(2, 2)]),
        ),
        of(Mutant::PassesTheHead, "S5", 6, three(rw)),
        of(Mutant::PassesTheHead, "S5", 6, three(permits)),
        of(Mutant::ReleaseGrantsNobody, "S6", 7, two(&[Write, Read])),
        of(Mutant::LeavesOtherKinds, "S6", 7, two(&[Alone, Read])),
        of(Mutant::LeavesOtherKinds, "S6", 7, two(&[Read, Alone])),
        of(Mutant::PassesTheHead, "S5", 6, three(&[Read, Alone, Read])),
        of(
            Mutant::ReleaseOfNothingGrantsNobody,
            "S6",
            11,
            faults(&[Only(Stands::Requests)], two(&[As("a"), As("b")])),
        ),
        of(
            Mutant::CancelGrantsNobody,
            "S6",
            6,
            Run {
                cancels: 1,
                ..three(rw)
            },
        ),
        of(
            Mutant::OneGrantForEach,
            "S6",
            9,
            three(&[Write, Read, Read]),
        ),
        of(Mutant::ReentryQueues, "L1", 170, outer),
        of(
            Mutant::NoHeartbeat,
            "L1",
            165,
            faults(&[CrashInQueue], ever(rw)),
        ),
        of(
            Mutant::NoPoll,
            "L1",
            28,
            faults(&[Push], two(&[Write, Read])),
        ),
        of(
            Mutant::NoCleanUp,
            "S3c",
            4,
            faults(&[Break], two(&[Read, Write])),
        ),
        of(Mutant::MinHoldForgotten, "S7", 5, long.clone()),
        of(Mutant::TtlUnderMinHold, "S9", 5, long),
    ];
    if far {
        bad.extend([
            of(
                Mutant::NoHeartbeat,
                "L1",
                165,
                faults(&[CrashInQueue], ever(permits)),
            ),
            of(
                Mutant::YoursForTheWholeTtl,
                "S3a",
                17,
                faults(&[Push], two(&[Take(1, 1), Take(1, 1)])),
            ),
        ]);
    }
    bad
}

#[test]
fn known_bad_variants_of_the_kinds_are_caught() {
    catch(bad(false));
}

#[test]
#[ignore = "for a release build: docs/notes/model.md"]
fn explore_large_kind_variants() {
    catch(bad(true));
    silent_without(bad(true));
}
