//! The explorations of the local queue alone, and of engines that forget to wake somebody.

use std::collections::{HashSet, VecDeque};

use super::local::{Bounds, Local, WAITERS, number};
use super::local_steps::{Forgets, Leader, Step, Waiter};
use crate::client::local_queue::{LeaderStep, Remote};

impl Local {
    pub(super) fn wrong(&self) -> Option<&'static str> {
        let called = self.queue.called().map(|who| self.waiters[*who]);
        let mut awake = self.waiters.iter();
        let somebody = awake.any(|it| matches!(it, Waiter::In { woken: true, .. }));
        if self.queue.has_waiters() && self.leader == Leader::None && !somebody {
            return Some("nobody drives, and nobody will");
        }
        if matches!(self.queue.remote(), Remote::Granted(..))
            && !matches!(called, Some(Waiter::In { woken: true, .. }))
        {
            return Some("the lock is offered to somebody who sleeps");
        }
        if let Leader::Sleeping(until) = self.leader
            && !self.notify
            && self.at() < until
            && !matches!(self.queue.clone().next(self.at()), LeaderStep::Sleep(_))
        {
            return Some("the leader sleeps although there is something to do");
        }
        let at_entry = match self.queue.remote() {
            Remote::Acquiring(attempt)
            | Remote::Queued { attempt, .. }
            | Remote::Granted(attempt, _) => Some(number(attempt.token)),
            Remote::Held(..) | Remote::Vacant { .. } => None,
        };
        let owned = |token: &u64| self.ends.contains_key(token) != (at_entry == Some(*token));
        (!(1..=self.asked).all(|token| owned(&token))).then_some("a token with two owners or none")
    }
}

/// The number of states, or the shortest way to a wrong one.
fn explore(bounds: Bounds, forgets: Forgets) -> Result<usize, (&'static str, Vec<Step>)> {
    let mut nodes: Vec<(usize, Step)> = vec![(0, Step::Tick)];
    let mut known = HashSet::from([Local::new(bounds)]);
    let mut frontier = VecDeque::from([(Local::new(bounds), 0)]);
    while let Some((state, at)) = frontier.pop_front() {
        for step in state.steps() {
            let mut next = state.clone();
            let wrong = next.step(step, forgets).or_else(|| next.wrong());
            nodes.push((at, step));
            if let Some(wrong) = wrong {
                let (mut way, mut node) = (Vec::new(), nodes.len() - 1);
                while node != 0 {
                    way.push(nodes[node].1);
                    node = nodes[node].0;
                }
                way.reverse();
                return Err((wrong, way));
            }
            if known.insert(next.clone()) {
                frontier.push_back((next, nodes.len() - 1));
            } else {
                nodes.pop();
            }
        }
    }
    assert!(known.iter().any(Local::somebody_was_passed_over));
    Ok(known.len())
}

const SMALL: Bounds = Bounds {
    waiters: 3,
    tokens: 1,
    ticks: 1,
    ends: 0,
};

/// The same with a runtime that ends.
const SMALL_ENDS: Bounds = Bounds {
    waiters: 2,
    tokens: 2,
    ticks: 1,
    ends: 1,
};

const LARGE: Bounds = Bounds {
    waiters: WAITERS,
    tokens: 3,
    ticks: 3,
    ends: 2,
};

fn holds(bounds: Bounds) {
    let begun = std::time::Instant::now();
    let states = explore(bounds, Forgets::Nothing).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    println!(
        "the local queue alone, {bounds:?}: {states} states, {:?}",
        begun.elapsed()
    );
    assert!(states > 1_000, "{states} states are no exploration");
}

#[test]
fn a_waiter_is_woken_in_every_order_of_steps() {
    holds(SMALL);
    holds(SMALL_ENDS);
}

#[test]
#[ignore = "half a minute in a release build: docs/inside/model.md"]
fn explore_large_queue() {
    holds(LARGE);
}

#[test]
fn an_engine_that_forgets_to_wake_somebody_is_caught() {
    for (forgets, steps) in [
        (Forgets::ToNotifyWhenTaken, 5),
        (Forgets::ToWakeTheNextWhenOneLeaves, 6),
        (Forgets::ToWakeAllWhenTheRuntimeEnds, 3),
        (Forgets::ToWakeTheFirstWhenGranted, 4),
        (Forgets::ToSayThatTheLeaderIsGone, 3),
    ] {
        let (wrong, way) = explore(SMALL_ENDS, forgets).expect_err("is caught");
        println!("{forgets:?}: {wrong} after {way:?}");
        assert_eq!(way.len(), steps, "{forgets:?}: {wrong}");
    }
}
