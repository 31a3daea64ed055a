//! The explorations of the local queue alone, and of engines that forget to wake somebody.

use super::local::LocalWitness::PassedOver;
use super::local::{Local, LocalRun, WAITERS};
use super::local_steps::{Forgets, LeaderTask, Waiter};
use crate::client::local_queue::{LeaderStep, Remote};
use crate::rules::tests::explore::{Bad, Row, catch, hold};
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

const SMALL: LocalRun = LocalRun {
    waiters: 3,
    tokens: 1,
    ticks: 1,
    ends: 0,
    messages: 0,
    handoffs: 0,
    stuck: false,
    forgets: Forgets::Nothing,
};

/// The same with a runtime that ends.
const SMALL_ENDS: LocalRun = LocalRun {
    waiters: 2,
    tokens: 2,
    ticks: 1,
    ends: 1,
    messages: 0,
    handoffs: 0,
    stuck: false,
    forgets: Forgets::Nothing,
};

const LARGE: LocalRun = LocalRun {
    waiters: WAITERS,
    tokens: 2,
    ticks: 2,
    ends: 1,
    messages: 0,
    handoffs: 1,
    stuck: false,
    forgets: Forgets::Nothing,
};

/// Two waiters, whose leader may get stuck; the pool may be closed.
const LARGE_STUCK: LocalRun = LocalRun {
    waiters: 2,
    tokens: 2,
    ticks: 2,
    ends: 1,
    messages: 0,
    handoffs: 0,
    stuck: true,
    forgets: Forgets::Nothing,
};

fn holds(rows: &[(&str, LocalRun)]) {
    let row = |(name, run): &(&str, LocalRun)| Row::<Local>::new(name, &[PassedOver], *run);
    for states in hold(rows.iter().map(row).collect()) {
        assert!(states > 1_000, "{states} states are no exploration");
    }
}

#[test]
fn a_waiter_is_woken_in_every_order_of_steps() {
    holds(&[("three waiters", SMALL), ("its runtime ends", SMALL_ENDS)]);
}

#[test]
#[ignore = "half a minute in a release build: docs/notes/model.md"]
fn explore_large_queue() {
    holds(&[("its leader is stuck", LARGE_STUCK), ("large", LARGE)]);
}

#[test]
fn an_engine_that_forgets_to_wake_somebody_is_caught() {
    let bad = |forgets, caught_by, steps| {
        // Only a leader that was replaced is told not to send.
        let bounds = match forgets {
            Forgets::ThatItMayNotSend => LARGE_STUCK,
            _ => SMALL_ENDS,
        };
        Bad::<Local> {
            name: format!("{forgets:?}"),
            run: LocalRun { forgets, ..bounds },
            most_states: usize::MAX,
            caught_by,
            steps,
        }
    };
    catch(vec![
        bad(
            Forgets::ToWakeWaiters,
            "the lock is offered to somebody who sleeps",
            3,
        ),
        bad(
            Forgets::ToWakeTheLeader,
            "the leader sleeps although there is something to do",
            4,
        ),
        bad(
            Forgets::ToMoveTheFirstAcquire,
            "a waiter that may not be polled sends for others",
            3,
        ),
        bad(
            Forgets::ToStartTheLeader,
            "nobody drives, and nobody will",
            2,
        ),
        bad(
            Forgets::ToSayThatTheLeaderIsGone,
            "nobody drives, and nobody will",
            3,
        ),
        bad(
            Forgets::ToSayThatNobodyReadsTheAnswer,
            "nobody will hear what became of an attempt",
            4,
        ),
        bad(
            Forgets::ThatItMayNotSend,
            "a token with two owners or none",
            5,
        ),
    ]);
}
