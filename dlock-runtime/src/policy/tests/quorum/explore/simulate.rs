//! A random walk through a larger world than can be searched: five nodes, four clients, thousands of
//! steps, all faults. A seed repeats to the step.

use super::kind_runs::OWNERS_FENCES;
use super::kinds::Role::{self, *};
use super::mutants::Mutant;
use super::run::Fault::{Back, Client, Crash, Empty, Forward, OtherKey};
use super::run::{Proposals, Run};
use super::seen::{Seen, Witness};
use super::step::{Outcome, Step};
use super::world::World;

const STEPS: usize = 1_500;

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

/// How often of a hundred times a step is taken when it is drawn.
fn percent(step: Step) -> u32 {
    match step {
        Step::Die(_) => 1,
        Step::Down(_) | Step::Forward(_) | Step::Back(_) | Step::OtherKey(_) => 3,
        Step::GiveUp(_) | Step::Early(_) => 10,
        Step::Tick => 30,
        Step::Downgrade(_) => 20,
        Step::End(_) | Step::Hurry(_) | Step::Renew(_) => 40,
        _ => 100,
    }
}

/// Walks one seed; the error retells the last steps.
fn walk(run: &Run, number: u64) -> Result<Seen, String> {
    let mut random = fastrand::Rng::with_seed(number);
    let mut world = World::new(run);
    let mut seen = Seen::default();
    let (mut steps, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        (world.budget, world.give_ups) = (9, 9);
        steps.clear();
        world.steps(run, &mut steps);
        let step = steps[random.usize(..steps.len())];
        if random.u32(..100) >= percent(step) {
            continue;
        }
        let mut next = world.clone();
        match next.step(run, step, &mut seen) {
            Outcome::Pointless => continue,
            Outcome::Right => {}
            Outcome::Wrong(property) => {
                taken.push(step);
                let last: Vec<_> = taken.iter().rev().take(40).rev().collect();
                let now = next.describe();
                return Err(format!("seed {number}: {property}\n{last:?}\n{now}"));
            }
        }
        taken.push(step);
        world = next;
    }
    Ok(seen)
}

fn walk_all(run: &Run, seeds: std::ops::Range<u64>) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        match walk(run, seed) {
            Ok(seen) => all.and(seen),
            Err(told) => panic!("{told}"),
        }
    }
    all
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
    for witness in [Witness::Together, Witness::Downgraded, Witness::Renewed] {
        assert!(seen.has_seen(witness), "never {witness:?}");
    }
    walk_all(&of(READERS_AND_WRITERS, with_clocks_that_step()), 0..6);
}

#[test]
fn many_steps_of_owners_and_of_all_kinds() {
    let seen = walk_all(&of(OWNERS, with_true_clocks()), 0..12);
    for witness in [Witness::Together, Witness::BesideEqual, Witness::Renewed] {
        assert!(seen.has_seen(witness), "never {witness:?}");
    }
    walk_all(&of(OWNERS, with_clocks_that_step()), 0..6);
    walk_all(&of(ANY_KIND, with_true_clocks()), 0..6);
}

#[test]
fn many_steps_with_true_clocks() {
    let seen = walk_all(&with_true_clocks(), 0..25);
    for witness in [
        Witness::EqualDraws,
        Witness::WonAfterAdopt,
        Witness::Renewed,
        Witness::HandedOn,
        Witness::RestartedEmpty,
        Witness::ClientCrashed,
        Witness::CancelFound,
        Witness::Reseeded,
    ] {
        assert!(seen.has_seen(witness), "never {witness:?}");
    }
}

#[test]
fn many_steps_with_clocks_that_step() {
    let seen = walk_all(&with_clocks_that_step(), 0..15);
    assert!(seen.has_seen(Witness::ClockStepped));
}

#[test]
fn a_walk_finds_known_bad_nodes_without_quarantine() {
    let run = Run {
        quarantine: 0,
        ..with_true_clocks()
    };
    let told = (0..200).find_map(|seed| walk(&run, seed).err());
    assert!(told.is_some_and(|it| it.contains("S1") || it.contains("S2")));
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
    assert!(walk_all(&run, 0..5).has_seen(Witness::AdoptedBelow));
    let lowers = Run {
        mutant: Some(Mutant::AdoptLowers),
        ..run
    };
    let told = (0..1_000).find_map(|seed| walk(&lowers, seed).err());
    assert!(told.is_some_and(|it| it.contains("S2")));
}

#[test]
#[ignore = "for a release build: docs/inside/model.md"]
fn explore_large_quorum_walks() {
    walk_all(&with_true_clocks(), 0..20_000);
    walk_all(&with_clocks_that_step(), 0..10_000);
}

#[test]
#[ignore = "for a release build: docs/inside/model.md"]
fn explore_large_quorum_walks_of_kinds() {
    for roles in [READERS_AND_WRITERS, OWNERS, ANY_KIND] {
        walk_all(&of(roles, with_true_clocks()), 0..3_000);
        walk_all(&of(roles, with_clocks_that_step()), 0..1_500);
    }
}
