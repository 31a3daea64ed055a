//! Known-bad variants of the kinds with many holders, and worlds in which an owner's fences are not
//! in order, with what catches each after how many steps.

use super::kind_runs::without_owners_fences;
use super::kinds::Role::{self, *};
use super::mutants::Mutant::{self, *};
use super::run::Fault::OtherKey;
use super::run::Run;
use super::variants::{Bad, bad, once, timeless};
use crate::rules::tests::explore::catch;

fn variant(name: &str, caught_by: &'static str, steps: usize, mutant: Mutant, run: Run) -> Bad {
    let mutant = Some(mutant);
    let run = without_owners_fences(Run { mutant, ..run });
    bad(name, caught_by, steps, run)
}

fn of(roles: &'static [Role], run: Run) -> Run {
    Run {
        roles,
        clients: roles.len(),
        ..run
    }
}

fn another_keys_draws(roles: &'static [Role]) -> Run {
    Run {
        budget: 1,
        faults: &[OtherKey],
        ..of(roles, timeless(1, 0))
    }
}

const RW: &[Role] = &[Reads, Writes];
const RR: &[Role] = &[Reads, Reads];
const AA: &[Role] = &[Ann, Ann];
const AB: &[Role] = &[Ann, Bob];

fn readers_and_writers() -> Vec<Bad> {
    let downgrades = |run| Run {
        downgrades: true,
        ..run
    };
    let renews = |roles, ticks| Run {
        renewals: 1,
        ..of(roles, once(ticks))
    };
    vec![
        variant(
            "reader beside a writer",
            "S1",
            8,
            ReaderBesideWriter,
            Run {
                off: &["S2", "S2lin"],
                ..of(RW, once(0))
            },
        ),
        variant(
            "release of the set",
            "S3a",
            8,
            ReleasesTheSet,
            of(RR, once(0)),
        ),
        variant("renewal of the set", "S3a", 9, RenewsTheSet, renews(RR, 1)),
        variant(
            "renewal at one node",
            "S1",
            14,
            RenewalAtOneNode,
            renews(&[Writes, Writes], 2),
        ),
        variant(
            "nothing adopted",
            "S2",
            11,
            NoWriteBack,
            another_keys_draws(RW),
        ),
        variant(
            "confirmed by one node",
            "S6",
            8,
            DowngradeAtOneNode,
            downgrades(of(RW, once(0))),
        ),
        variant(
            "a writer until confirmed",
            "S1",
            11,
            WritesUntilAnswered,
            downgrades(of(RW, once(0))),
        ),
    ]
}

fn owners() -> Vec<Bad> {
    let draws = another_keys_draws;
    vec![
        variant(
            "another owner beside",
            "S1",
            8,
            AnyoneBesideOwner,
            of(AB, once(0)),
        ),
        variant(
            "hold keeps its epoch",
            "S8lin",
            12,
            HoldKeepsItsEpoch,
            draws(AA),
        ),
        variant("nothing adopted, owners", "S2", 11, NoWriteBack, draws(AB)),
        bad(
            "world: an owner's bodies with two fences",
            "S8one",
            12,
            Run {
                off: &["S8"],
                ..draws(AA)
            },
        ),
        bad(
            "world: an owner's later body with the lower fence",
            "S8",
            12,
            Run {
                off: &["S8one"],
                ..draws(AA)
            },
        ),
    ]
}

#[test]
fn known_bad_variants_of_readers_and_writers() {
    catch(readers_and_writers());
}

#[test]
fn known_bad_variants_of_owners() {
    catch(owners());
}
