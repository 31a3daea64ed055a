//! The simulations: an hour of fleets in every test run, a year for a night, and a single seed
//! again.

use std::time::Instant;

use super::fleet::{Count, Fleet, Outcome};
use crate::client::tests::explore::mutants::Mutant;
use crate::client::tests::explore::seen::{Seen, Witness};

/// The first seed of each test run.
const FIRST: u64 = 1;

pub(super) const HOUR: u64 = 3_600_000_000;

/// Runs one seed.
pub(super) fn live(seed: u64, mutant: Option<Mutant>) -> Outcome {
    Fleet::new(seed, mutant, 0).live(u64::MAX)
}

/// What went wrong, with the last steps before it, and how to repeat it.
pub(super) fn report(seed: u64, mutant: Option<Mutant>) -> String {
    let again = Fleet::new(seed, mutant, 60).live(u64::MAX);
    let wrong = again.wrong.unwrap_or("nothing");
    let steps = again.steps;
    format!(
        "{}\nseed {seed}, step {steps}: {wrong}\nagain: DLOCK_SIM_SEED={seed} cargo test -p dlock-runtime --lib simulate_seed -- --ignored --nocapture",
        again.told
    )
}

fn add(total: &mut Count, more: Count) {
    total.bodies += more.bodies;
    total.commands += more.commands;
    total.hazards += more.hazards;
    total.micros += more.micros;
}

/// Runs fleets from this seed on, until their simulated time adds up to `micros`.
fn simulate(first: u64, micros: u64, tells: bool) -> (Count, Seen) {
    let (mut total, mut saw) = (Count::default(), Seen::default());
    let begun = Instant::now();
    let (mut seed, mut hours) = (first, 0);
    while total.micros < micros {
        let outcome = live(seed, None);
        assert!(outcome.wrong.is_none(), "{}", report(seed, None));
        add(&mut total, outcome.count);
        saw.and(outcome.seen);
        seed += 1;
        if tells && total.micros / HOUR > hours {
            hours = total.micros / HOUR;
            println!(
                "{hours} h simulated in {:?}: seeds {first} to {seed}, {total:?}",
                begun.elapsed()
            );
        }
    }
    println!(
        "seeds {first} to {}: {total:?}, {:?}",
        seed - 1,
        begun.elapsed()
    );
    (total, saw)
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn an_hour_of_fleets_keeps_its_promises() {
    let (total, seen) = simulate(FIRST, HOUR, false);
    assert!(
        total.bodies > 1_000 && total.hazards > 300,
        "{total:?} is no hour"
    );
    seen.shows(&[
        Witness::HeldByPush,
        Witness::HeldByYours,
        Witness::HeldAtOnce,
        Witness::HandedOn,
        Witness::Renewed,
        Witness::Confirmed,
        Witness::Downgraded,
        Witness::Reentered,
        Witness::BatchOfTwo,
        Witness::DeadWaiterSkipped,
        Witness::CancelLeftQueue,
        Witness::CancelFreed,
        Witness::StrayCleaned,
        Witness::PastTheQueue,
        Witness::Gone,
    ]);
}

#[test]
fn a_seed_repeats_to_the_step() {
    let (one, other) = (live(FIRST, None), live(FIRST, None));
    assert_eq!((one.steps, one.count), (other.steps, other.count));
}

#[test]
#[ignore = "for a night, in a release build: CONTRIBUTING.md"]
fn simulate_night() {
    let first = from_environment("DLOCK_SIM_SEED").unwrap_or(1_000_000);
    let hours = from_environment("DLOCK_SIM_HOURS").unwrap_or(24 * 365);
    simulate(first, hours * HOUR, true);
}

#[test]
#[ignore = "one seed again: CONTRIBUTING.md"]
fn simulate_seed() {
    let seed = from_environment("DLOCK_SIM_SEED").expect("DLOCK_SIM_SEED is a number");
    let steps = from_environment("DLOCK_SIM_STEPS").unwrap_or(u64::MAX);
    let told = from_environment("DLOCK_SIM_TOLD").unwrap_or(60);
    let told = usize::try_from(told).expect("a number");
    let outcome = Fleet::new(seed, None, told).live(steps);
    println!(
        "{}{:?} after {} steps, {:?}",
        outcome.told, outcome.wrong, outcome.steps, outcome.count
    );
    assert!(outcome.wrong.is_none());
}
