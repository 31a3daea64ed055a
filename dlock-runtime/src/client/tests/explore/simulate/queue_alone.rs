//! The local queue alone, at random: longer than the explorer goes, and a seed for each engine that
//! forgets to wake somebody.

use crate::client::tests::explore::local::{Local, LocalRun};
use crate::client::tests::explore::local_steps::Forgets;
use crate::rules::tests::explore::{Walks, first_wrong, walk, walk_all};

const LONG: LocalRun = LocalRun {
    waiters: 3,
    tokens: 6,
    ticks: 8,
    ends: 3,
    messages: 6,
    handoffs: 1,
    stuck: true,
    forgets: Forgets::Nothing,
};

impl Walks for Local {
    const DRAWS: usize = 200;
}

#[test]
fn a_waiter_is_woken_in_long_sequences_too() {
    let steps = walk_all::<Local>(&LONG, 0..3_000).steps;
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
        let run = LocalRun { forgets, ..LONG };
        let (seed, wrong) = first_wrong::<Local>(&run, 0..1_000).expect("some seed shows it");
        println!("{forgets:?}: seed {seed}, {wrong}");
        assert!(
            walk::<Local>(&LONG, seed).is_ok(),
            "the engine that ships passes seed {seed}"
        );
    }
}
