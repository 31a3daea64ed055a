//! The machine under shuttle: threads that wait, lead and push at one key, in thousands of
//! schedules.
//!
//! No time passes, so a lost wake-up ends as shuttle's `deadlock`. Invariants: every waiter that
//! stays gets the lock or an error, in order of arrival and one at a time; each token that an
//! acquire was sent with ends once, given back by its last holder or cleaned up; a lock that is
//! handed on has the next index; nothing is left.

mod answered;
mod kept;
mod roles;
mod site;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::Runner;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

use self::site::{Chances, Site};
use crate::sync::scheduled;

const WAITERS: usize = 3;
const SCHEDULES: usize = 150;
const SEEDS: [u64; 2] = [20_261_121, 4];

/// Runs many schedules; returns how often a lock was handed on.
fn runs(scheduler: impl Scheduler + 'static, chances: Chances, waiters_may_go: bool) -> usize {
    let handed_on = Arc::new(AtomicUsize::new(0));
    let count = handed_on.clone();
    let mut config = shuttle::Config::new();
    config.stack_size = 0x4_0000; // enough for a debug build
    let run = move || scheduled(|| one_run(chances, waiters_may_go, &count));
    Runner::new(scheduler, config).run(run);
    handed_on.load(Ordering::Relaxed)
}

fn one_run(chances: Chances, waiters_may_go: bool, handed_on: &Arc<AtomicUsize>) {
    let site = Site::new(chances, handed_on.clone());
    let mut stay = 0;
    for _ in 0..WAITERS {
        let looks =
            (waiters_may_go && thread_rng().gen_bool(0.5)).then(|| thread_rng().gen_range(0..3));
        site.waiter(looks);
        stay += usize::from(looks.is_none());
    }
    site.stranger();
    if chances.closes {
        site.closer();
    }
    if chances.chains_end {
        site.clock();
    }
    site.end();
    site.is_clean();
    site.seen(|seen| {
        assert!(
            seen.turns.is_sorted(),
            "in order of arrival: {:?}",
            seen.turns
        );
        assert!(seen.turns.len() + seen.rejected >= stay, "{seen:?}");
        assert!(chances.closes || seen.rejected == 0, "{seen:?}");
    });
}

/// Explores random schedules, and PCT schedules, which find bugs that need few but specific
/// switches between threads.
fn explore(chances: Chances) {
    let mut handed_on = 0;
    for seed in SEEDS {
        println!("{chances:?}, seed {seed}");
        for waiters_may_go in [false, true] {
            let random = RandomScheduler::new_from_seed(seed, SCHEDULES);
            handed_on += runs(random, chances, waiters_may_go);
            let pct = PctScheduler::new_from_seed(seed, 4, SCHEDULES);
            handed_on += runs(pct, chances, waiters_may_go);
        }
    }
    println!("handed on {handed_on} times");
    assert_eq!(handed_on > 0, chances.handoffs > 0);
}

#[test]
fn waiters_come_and_go() {
    explore(Chances::default());
}

#[test]
fn leaders_end_with_their_runtimes() {
    explore(Chances {
        leaders_lost: 2,
        ..Chances::default()
    });
}

#[test]
fn pushes_are_lost() {
    explore(Chances {
        leaders_lost: 1,
        pushes_lost: true,
        ..Chances::default()
    });
}

#[test]
fn the_pool_is_closed() {
    explore(Chances {
        leaders_lost: 1,
        closes: true,
        ..Chances::default()
    });
}

#[test]
fn locks_are_handed_on() {
    for handoffs in [1, 16] {
        explore(Chances {
            handoffs,
            ..Chances::default()
        });
    }
}

#[test]
fn chains_of_handoffs_end_in_the_middle() {
    explore(Chances {
        handoffs: 16,
        chains_end: true,
        leaders_lost: 1,
        ..Chances::default()
    });
}

#[test]
fn the_next_waiter_may_not_be_able_to_take_a_handoff() {
    explore(Chances {
        handoffs: 16,
        refusals: true,
        leaders_lost: 1,
        ..Chances::default()
    });
}

#[test]
fn locks_are_handed_on_while_pushes_are_lost_and_the_pool_is_closed() {
    explore(Chances {
        handoffs: 16,
        chains_end: true,
        refusals: true,
        pushes_lost: true,
        closes: true,
        ..Chances::default()
    });
}
