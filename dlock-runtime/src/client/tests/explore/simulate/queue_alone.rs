//! The local queue alone, at random: longer than the explorer goes, and a seed for each engine that
//! forgets to wake somebody.

use fastrand::Rng;

use crate::client::tests::explore::local::{Bounds, Local};
use crate::client::tests::explore::local_steps::{Forgets, Step};

const LONG: Bounds = Bounds {
    waiters: 3,
    tokens: 6,
    ticks: 8,
    ends: 3,
    messages: 6,
    handoffs: 1,
    stuck: true,
};

/// Random steps until nothing more can happen; returns what was wrong and after which steps, or the
/// number of steps.
fn walk(seed: u64, forgets: Forgets) -> Result<usize, (&'static str, Vec<Step>)> {
    let mut rng = Rng::with_seed(seed);
    let mut local = Local::new(LONG);
    let mut way = Vec::new();
    while let Some(step) = rng.choice(local.steps()) {
        way.push(step);
        let wrong = local.step(step, forgets).or_else(|| local.wrong());
        if let Some(wrong) = wrong {
            return Err((wrong, way));
        }
        if way.len() == 200 {
            break;
        }
    }
    Ok(way.len())
}

#[test]
fn a_waiter_is_woken_in_long_sequences_too() {
    let mut steps = 0;
    for seed in 0..3_000 {
        steps +=
            walk(seed, Forgets::Nothing).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong:?}"));
    }
    assert!(steps > 30_000, "{steps} steps are no simulation");
}

#[test]
fn each_engine_that_forgets_somebody_has_a_seed() {
    for forgets in [
        Forgets::ToWakeWaiters,
        Forgets::ToWakeTheLeader,
        Forgets::ToMoveTheFirstAcquire,
        Forgets::ToStartTheLeader,
        Forgets::ToSayThatTheLeaderIsGone,
        Forgets::ToSayThatNobodyReadsTheAnswer,
    ] {
        let found = (0..1_000).find_map(|seed| Some((seed, walk(seed, forgets).err()?)));
        let (seed, (wrong, way)) = found.expect("some seed shows it");
        println!(
            "{forgets:?}: seed {seed}, {wrong} after {} steps",
            way.len()
        );
        assert!(
            walk(seed, Forgets::Nothing).is_ok(),
            "the engine that ships passes seed {seed}"
        );
    }
}
