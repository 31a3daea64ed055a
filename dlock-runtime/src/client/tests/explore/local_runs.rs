//! The explorations of the local queue alone, and of engines that forget to wake somebody.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::local::{Bounds, Local, WAITERS};
use super::local_steps::{Forgets, LeaderTask, Step, Waiter};
use crate::client::local_queue::{LeaderStep, Remote};
use crate::values::token::Token;

impl Local {
    pub(super) fn wrong(&self) -> Option<&'static str> {
        let mut tokens = 1..=self.asked;
        let ended = |token: &u64| self.ends.contains_key(token);
        let known = self.client.tokens.all();
        let owned = |token: &u64| ended(token) != known.contains(&Token::of_test(*token));
        if !tokens.all(|token| owned(&token)) {
            return Some("a token with two owners or none");
        }
        let Some(queue) = self.queue() else {
            let forgotten = |it: &Waiter| matches!(it, Waiter::In { .. });
            return self
                .waiters
                .iter()
                .any(forgotten)
                .then_some("its queue is gone");
        };
        let waiters = || self.waiters.iter();
        let awake = |it: &Waiter| matches!(it, Waiter::In { woken: true, .. });
        let sends =
            |it: &Waiter| matches!(it, Waiter::In { own: Some(_), .. } | Waiter::Leaving { .. });
        let in_line = queue.waiters().count();
        let is_driven = !self.leaders.is_empty() || waiters().any(|it| awake(it) || sends(it));
        if in_line > 0 && !is_driven {
            return Some("nobody drives, and nobody will");
        }
        if let Remote::Acquiring(token) = queue.remote()
            && !self.awaits_answer(*token)
        {
            return Some("nobody will hear what became of an attempt");
        }
        // One that was given up for stuck is nobody's any more.
        let sends_for_all = |it: &Waiter| match (it, queue.remote()) {
            (Waiter::In { own: Some(own), .. }, Remote::Acquiring(token)) => {
                own.sent.as_ref().is_some_and(|sent| sent.token == *token)
            }
            _ => false,
        };
        if in_line > 1 && waiters().any(sends_for_all) {
            return Some("a waiter that may not be polled sends for others");
        }
        if matches!(queue.remote(), Remote::Granted(..))
            && !self.called().is_some_and(|who| awake(&self.waiters[who]))
        {
            return Some("the lock is offered to somebody who sleeps");
        }
        let sleeps = |task: &LeaderTask| matches!(task, LeaderTask::Sleeping { until, woken: false } if *until > self.at());
        let mut leaders = self.leaders.values();
        if self.leaders.len() == 1
            && leaders.all(sleeps)
            && !matches!(queue.clone().next(self.at()), LeaderStep::Sleep(_))
        {
            return Some("the leader sleeps although there is something to do");
        }
        None
    }
}

impl Local {
    /// Whether somebody awaits the answer to the acquire with this token.
    fn awaits_answer(&self, token: Token) -> bool {
        let own = |it: &Waiter| match it {
            Waiter::In { own: Some(own), .. } | Waiter::Leaving { own, .. } => {
                own.sent.as_ref().is_some_and(|sent| sent.token == token)
            }
            _ => false,
        };
        let by_task =
            |it: &LeaderTask| matches!(it, LeaderTask::Acquiring(sent) if sent.token == token);
        self.waiters.iter().any(own) || self.leaders.values().any(by_task)
    }
}

/// Two hashes: millions of states are not kept whole.
fn fingerprint(state: &Local) -> (u64, u64) {
    let hash = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, state).hash(&mut hasher);
        hasher.finish()
    };
    (hash(0), hash(1))
}

/// The number of states, or the shortest way to a wrong one.
fn explore(bounds: Bounds, forgets: Forgets) -> Result<usize, (&'static str, Vec<Step>)> {
    let mut nodes: Vec<(usize, Step)> = vec![(0, Step::Tick)];
    let mut known = HashSet::from([fingerprint(&Local::new(bounds))]);
    let mut is_passed_over = false;
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
            if known.insert(fingerprint(&next)) {
                is_passed_over |= next.somebody_was_passed_over();
                frontier.push_back((next, nodes.len() - 1));
            } else {
                nodes.pop();
            }
        }
    }
    assert!(is_passed_over);
    Ok(known.len())
}

const SMALL: Bounds = Bounds {
    waiters: 3,
    tokens: 1,
    ticks: 1,
    ends: 0,
    messages: 0,
    handoffs: 0,
    stuck: false,
};

/// The same with a runtime that ends.
const SMALL_ENDS: Bounds = Bounds {
    waiters: 2,
    tokens: 2,
    ticks: 1,
    ends: 1,
    messages: 0,
    handoffs: 0,
    stuck: false,
};

const LARGE: Bounds = Bounds {
    waiters: WAITERS,
    tokens: 2,
    ticks: 2,
    ends: 1,
    messages: 0,
    handoffs: 1,
    stuck: false,
};

/// Two waiters, whose leader may get stuck; the pool may be closed.
const LARGE_STUCK: Bounds = Bounds {
    waiters: 2,
    tokens: 2,
    ticks: 2,
    ends: 1,
    messages: 0,
    handoffs: 0,
    stuck: true,
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
    holds(LARGE_STUCK);
    holds(LARGE);
}

#[test]
fn an_engine_that_forgets_to_wake_somebody_is_caught() {
    let variants = [
        (Forgets::ToWakeWaiters, 3),
        (Forgets::ToWakeTheLeader, 4),
        (Forgets::ToMoveTheFirstAcquire, 3),
        (Forgets::ToStartTheLeader, 2),
        (Forgets::ToSayThatTheLeaderIsGone, 3),
        (Forgets::ToSayThatNobodyReadsTheAnswer, 4),
        (Forgets::ThatItMayNotSend, 5),
    ];
    let caught = variants.map(|(forgets, _)| {
        // Only a leader that was replaced is told not to send.
        let bounds = match forgets {
            Forgets::ThatItMayNotSend => LARGE_STUCK,
            _ => SMALL_ENDS,
        };
        let (wrong, way) = explore(bounds, forgets).expect_err("is caught");
        println!("{forgets:?}: {wrong} after {way:?}");
        (forgets, way.len())
    });
    assert_eq!(caught, variants);
}
