//! Random walks through a larger world than can be searched: five nodes, four clients, thousands of
//! steps, all faults.

use std::ops::Range;

use fastrand::Rng;

use super::kind_runs::OWNERS_FENCES;
use super::kinds::Role::{self, *};
use super::mutants::Mutant;
use super::run::Fault::{Back, Client, Crash, Empty, Forward, OtherKey};
use super::run::{Proposals, Run};
use super::seen::{Seen, Witness};
use super::step::Step;
use super::world::World;
use crate::rules::tests::explore::{self, Walks};

fn fleet() -> Run {
    Run {
        nodes: 5,
        clients: 4,
        attempts: 400,
        ttl: 4,
        margin: 1,
        timeout: 2,
        ticks: u32::MAX,
        jump: 3,
        drifts: true,
        renewals: 3,
        reseeds: true,
        handoffs: 2,
        proposals: Proposals::Time(&[]),
        quarantine: 4,
        ..Run::default()
    }
}

impl Walks for World {
    const DRAWS: usize = 1_500;

    fn takes(random: &mut Rng, step: Step) -> bool {
        let percent = match step {
            Step::Die(_) => 1,
            Step::Down(_) | Step::Forward(_) | Step::Back(_) | Step::OtherKey(_) => 3,
            Step::GiveUp(_) | Step::Early(_) => 10,
            Step::Tick => 30,
            Step::Downgrade(_) => 20,
            Step::End(_) | Step::Hurry(_) | Step::Renew(_) => 40,
            _ => 100,
        };
        random.u32(..100) < percent
    }

    fn refill(&mut self) {
        (self.budget, self.give_ups) = (9, 9);
    }
}

/// What was seen.
#[track_caller]
fn walk_all(run: &Run, seeds: Range<u64>) -> Seen {
    explore::walk_all::<World>(run, seeds).seen
}

/// The property that some seed breaks.
fn broken(run: &Run, seeds: Range<u64>) -> &'static str {
    let (_, violation) = explore::first_wrong::<World>(run, seeds).expect("some seed shows it");
    violation.property
}

fn with_true_clocks() -> Run {
    Run {
        faults: &[Crash, Empty, Client, OtherKey],
        ..fleet()
    }
}

/// Of what is promised, only that fences rise against acquires that are sent later.
fn with_clocks_that_step() -> Run {
    Run {
        faults: &[Crash, Client, Forward, Back, OtherKey],
        off: &["S1", "S2", "S3", "S5"],
        ..fleet()
    }
}

/// Hand-offs are between waiters of one exclusive lock.
fn of(roles: &'static [Role], run: Run) -> Run {
    let mut off = run.off.to_vec();
    off.extend(OWNERS_FENCES);
    Run {
        roles,
        handoffs: 0,
        downgrades: true,
        off: off.leak(),
        ..run
    }
}

const READERS_AND_WRITERS: &[Role] = &[Reads, Reads, Writes, Writes];
const OWNERS: &[Role] = &[Ann, Ann, Bob, Bob];
const ANY_KIND: &[Role] = &[Exclusive, Reads, Writes, Ann];

#[test]
fn many_steps_of_readers_and_writers() {
    let seen = walk_all(&of(READERS_AND_WRITERS, with_true_clocks()), 0..12);
    seen.shows(&[Witness::Together, Witness::Downgraded, Witness::Renewed]);
    walk_all(&of(READERS_AND_WRITERS, with_clocks_that_step()), 0..6);
}

#[test]
fn many_steps_of_owners_and_of_all_kinds() {
    let seen = walk_all(&of(OWNERS, with_true_clocks()), 0..12);
    seen.shows(&[Witness::Together, Witness::BesideEqual, Witness::Renewed]);
    walk_all(&of(OWNERS, with_clocks_that_step()), 0..6);
    walk_all(&of(ANY_KIND, with_true_clocks()), 0..6);
}

#[test]
fn many_steps_with_true_clocks() {
    let seen = walk_all(&with_true_clocks(), 0..25);
    seen.shows(&[
        Witness::EqualDraws,
        Witness::WonAfterAdopt,
        Witness::Renewed,
        Witness::HandedOn,
        Witness::RestartedEmpty,
        Witness::ClientCrashed,
        Witness::CancelFound,
        Witness::Reseeded,
    ]);
}

#[test]
fn many_steps_with_clocks_that_step() {
    let seen = walk_all(&with_clocks_that_step(), 0..15);
    seen.shows(&[Witness::ClockStepped]);
}

#[test]
fn a_walk_finds_known_bad_nodes_without_quarantine() {
    let run = Run {
        quarantine: 0,
        ..with_true_clocks()
    };
    let broken = broken(&run, 0..200);
    assert!(["S1", "S2", "S2lin"].contains(&broken), "{broken}");
}

#[test]
fn a_walk_finds_known_bad_adoptions_that_lower_the_counter() {
    let run = Run {
        faults: &[Crash, Client, OtherKey],
        proposals: Proposals::Any(&[0]), // so that only the counters lift a fence
        nodes: 3,
        clients: 3,
        drifts: false,
        ..of(&[Reads, Reads, Writes], fleet())
    };
    walk_all(&run, 0..5).shows(&[Witness::AdoptedBelow]);
    let lowers = Run {
        mutant: Some(Mutant::AdoptLowers),
        ..run
    };
    let broken = broken(&lowers, 0..1_000);
    assert!(["S2", "S2lin"].contains(&broken), "{broken}");
}

#[test]
#[ignore = "for a release build: docs/notes/model.md"]
fn explore_large_quorum_walks() {
    walk_all(&with_true_clocks(), 0..20_000);
    walk_all(&with_clocks_that_step(), 0..10_000);
}

#[test]
#[ignore = "for a release build: docs/notes/model.md"]
fn explore_large_quorum_walks_of_kinds() {
    for roles in [READERS_AND_WRITERS, OWNERS, ANY_KIND] {
        walk_all(&of(roles, with_true_clocks()), 0..3_000);
        walk_all(&of(roles, with_clocks_that_step()), 0..1_500);
    }
}
