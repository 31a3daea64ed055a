//! The local queue alone: every order of what three waiters, a leader, its server and time can do
//! to it.
//!
//! A step is what the driver does under the mutex (`driver/waiting`), with the wakers and the
//! leader's notification as it uses them. Checked in every state: a waiter that could go on is
//! awake or will be woken.

use super::local_steps::{Answer, End, Forgets, Leader, Step, Waiter};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::local_queue::{
    Attempt, Check, Grant, LeaderStep, LocalQueue, MessageOutcome, Remote,
};
use crate::policy::commands::Claim;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(super) const WAITERS: usize = 3;

/// The bounds of an exploration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) waiters: usize,
    pub(super) tokens: u64,
    pub(super) ticks: u64,
    /// How often the leader's runtime may end.
    pub(super) ends: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Local {
    pub(super) queue: LocalQueue<usize>,
    pub(super) waiters: [Waiter; WAITERS],
    pub(super) leader: Leader,
    pub(super) notify: bool,
    /// Waiters that once missed their turn: others may go first since then.
    passed: [bool; WAITERS],
    now: u64,
    pub(super) asked: u64,
    /// What became of each token.
    pub(super) ends: BTreeMap<u64, End>,
    /// How much may still happen: tokens, ticks, ends of the leader's runtime.
    rest: (u64, u64, u8),
}

impl Local {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            queue: LocalQueue::default(),
            waiters: std::array::from_fn(|who| {
                if who < bounds.waiters {
                    Waiter::Out
                } else {
                    Waiter::Gone
                }
            }),
            leader: Leader::None,
            notify: false,
            passed: [false; WAITERS],
            now: 0,
            asked: 0,
            ends: BTreeMap::new(),
            rest: (bounds.tokens, bounds.ticks, bounds.ends),
        }
    }

    pub(super) fn somebody_was_passed_over(&self) -> bool {
        self.passed.contains(&true)
    }

    pub(super) fn at(&self) -> Moment {
        Moment::from_nanos((100 + self.now) * 1_000_000_000)
    }

    fn in_a_tick(&self) -> Moment {
        self.at().plus(Duration::from_secs(1))
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        use Answer::{Granted, Nothing, Queued, Refused, Unclear};
        let mut steps = Vec::new();
        for (who, waiter) in self.waiters.iter().enumerate() {
            match waiter {
                Waiter::Out => steps.push(Step::Enter(who)),
                Waiter::In { woken, .. } => {
                    steps.extend(woken.then_some(Step::Check(who)));
                    steps.push(Step::Leave(who));
                }
                Waiter::Gone => {}
            }
        }
        match self.leader {
            Leader::Running => steps.push(Step::Lead),
            Leader::Sleeping(until) if self.notify || until <= self.at() => steps.push(Step::Lead),
            Leader::Acquiring(_) | Leader::Polling(_) => {
                steps.extend([Queued, Granted, Nothing, Unclear, Refused].map(Step::Answer));
            }
            _ => {}
        }
        if self.awaited().is_some() {
            steps.extend([Step::Push, Step::FlushEarly]);
        }
        if self.rest.1 > 0 {
            steps.push(Step::Tick);
        }
        if self.leader != Leader::None && self.rest.2 > 0 {
            steps.push(Step::RuntimeEnds);
        }
        if let Remote::Held(attempt, _) = self.queue.remote() {
            steps.push(Step::Left(number(attempt.token)));
        }
        steps
    }

    fn awaited(&self) -> Option<Token> {
        match self.queue.remote() {
            Remote::Acquiring(attempt) | Remote::Queued { attempt, .. } => Some(attempt.token),
            _ => None,
        }
    }

    /// Takes a step; returns what is wrong with the result.
    pub(super) fn step(&mut self, step: Step, forgets: Forgets) -> Option<&'static str> {
        match step {
            Step::Enter(who) => {
                self.notify |= self.queue.has_waiters() && self.queue.first().is_none();
                let waiter_id = self.queue.enter(who);
                self.waiters[who] = Waiter::In {
                    waiter_id,
                    woken: true,
                };
                if self.queue.become_leader() {
                    self.leader = Leader::Running;
                }
            }
            Step::Check(who) => return self.check(who, forgets),
            Step::Leave(who) => {
                let Waiter::In { waiter_id, .. } = self.waiters[who] else {
                    return None;
                };
                let unwanted = self.queue.leave(waiter_id);
                self.waiters[who] = Waiter::Gone;
                self.notify = true;
                if forgets != Forgets::ToWakeTheNextWhenOneLeaves {
                    self.wake_called();
                }
                return self.clean_up(unwanted);
            }
            Step::Lead => return self.lead(),
            Step::Answer(answer) => return self.answer(answer, forgets),
            Step::Push => {
                let token = self.awaited()?;
                return self.granted(token, forgets);
            }
            Step::FlushEarly => {
                self.queue.poll_now(self.at());
                self.notify = true;
            }
            Step::Tick => {
                self.now += 1;
                self.rest.1 -= 1;
            }
            Step::RuntimeEnds => {
                self.rest.2 -= 1;
                return self.runtime_ends(forgets);
            }
            Step::Left(token) => self.queue.left(Token::of_test(token), self.at()),
        }
        None
    }

    fn check(&mut self, who: usize, forgets: Forgets) -> Option<&'static str> {
        let Waiter::In { waiter_id, .. } = self.waiters[who] else {
            return None;
        };
        self.notify |= self.queue.mark_responsive(waiter_id);
        let mut others = self.waiters.iter().zip(self.passed);
        let before_me = others.any(|(it, passed)| {
            !passed && matches!(it, Waiter::In { waiter_id: theirs, .. } if *theirs < waiter_id)
        });
        let stale = match self.queue.check(waiter_id, self.at()) {
            Check::Yours(attempt, _) => {
                self.waiters[who] = Waiter::Gone;
                self.notify |= forgets != Forgets::ToNotifyWhenTaken;
                let twice = self.end(attempt.token, End::Taken);
                return before_me.then_some("not first in line").or(twice);
            }
            Check::Stale(attempt) => {
                self.notify = true;
                self.end(attempt.token, End::CleanedUp)
            }
            Check::Wait => None,
        };
        self.waiters[who] = Waiter::In {
            waiter_id,
            woken: false,
        };
        if self.queue.become_leader() {
            self.leader = Leader::Running;
        }
        stale
    }

    fn lead(&mut self) -> Option<&'static str> {
        if matches!(self.leader, Leader::Sleeping(_)) {
            self.notify = false;
        }
        self.leader = Leader::Running;
        let called = self.queue.called().copied();
        match self.queue.next(self.at()) {
            LeaderStep::PassOn => {
                called.inspect(|who| self.passed[*who] = true);
                self.wake_called();
            }
            LeaderStep::Acquire if self.asked == self.rest.0 => return self.reject(),
            LeaderStep::Acquire => {
                self.asked += 1;
                self.queue.acquiring(attempt(self.asked));
                self.leader = Leader::Acquiring(self.asked);
            }
            LeaderStep::Poll(attempt) => self.leader = Leader::Polling(number(attempt.token)),
            LeaderStep::GiveUp(attempt) => {
                called.inspect(|who| self.passed[*who] = true);
                return self.end(attempt.token, End::CleanedUp);
            }
            LeaderStep::Sleep(until) => self.leader = Leader::Sleeping(until),
            LeaderStep::Rest => self.leader = Leader::None,
        }
        None
    }

    fn answer(&mut self, answer: Answer, forgets: Forgets) -> Option<&'static str> {
        let (Leader::Acquiring(number) | Leader::Polling(number)) = self.leader else {
            return None;
        };
        let polled = matches!(self.leader, Leader::Polling(_));
        self.leader = Leader::Running;
        let token = Token::of_test(number);
        match answer {
            Answer::Granted => self.granted(token, forgets),
            Answer::Refused if polled => self.reject(),
            Answer::Unclear if !polled => {
                let ours = self.queue.ended(token, self.in_a_tick());
                ours.then(|| self.end(token, End::CleanedUp)).flatten()
            }
            Answer::Queued | Answer::Unclear => {
                let outcome = self.queue.queued(token, self.in_a_tick());
                self.outcome(outcome)
            }
            Answer::Nothing | Answer::Refused => {
                let ours = self.queue.ended(token, self.at());
                let wrong = ours.then(|| self.end(token, End::Nothing)).flatten();
                if answer == Answer::Refused {
                    return wrong.or(self.reject());
                }
                wrong
            }
        }
    }

    fn granted(&mut self, token: Token, forgets: Forgets) -> Option<&'static str> {
        let lease = Duration::from_millis(2500); // longer than a turn, shorter than three ticks
        let grant = Grant::in_turn(self.at(), lease, 1, 1);
        let outcome = self.queue.granted(token, grant);
        if outcome == MessageOutcome::Taken && forgets != Forgets::ToWakeTheFirstWhenGranted {
            self.wake_called();
        }
        self.outcome(outcome)
    }

    fn outcome(&mut self, outcome: MessageOutcome) -> Option<&'static str> {
        match outcome {
            MessageOutcome::Unwanted(attempt) => self.end(attempt.token, End::CleanedUp),
            MessageOutcome::Taken | MessageOutcome::NotOurs => None,
        }
    }

    /// `Drop for Leader`, and for the acquire that it waits for.
    fn runtime_ends(&mut self, forgets: Forgets) -> Option<&'static str> {
        let mut wrong = None;
        if let Leader::Acquiring(number) = self.leader {
            let token = Token::of_test(number);
            if self.queue.ended(token, self.at()) {
                wrong = self.end(token, End::CleanedUp);
            }
        }
        self.leader = Leader::None;
        if forgets != Forgets::ToSayThatTheLeaderIsGone {
            self.queue.leader_gone();
        }
        if forgets != Forgets::ToWakeAllWhenTheRuntimeEnds {
            for waiter in &mut self.waiters {
                if let Waiter::In { woken, .. } = waiter {
                    *woken = true;
                }
            }
        }
        wrong
    }

    fn reject(&mut self) -> Option<&'static str> {
        let (line, unwanted) = self.queue.clear();
        for (_, who) in line {
            self.waiters[who] = Waiter::Gone;
        }
        self.notify = true;
        self.clean_up(unwanted)
    }

    fn wake_called(&mut self) {
        if let Some(who) = self.queue.called()
            && let Waiter::In { woken, .. } = &mut self.waiters[*who]
        {
            *woken = true;
        }
    }

    fn clean_up(&mut self, unwanted: Option<Attempt>) -> Option<&'static str> {
        unwanted.and_then(|attempt| self.end(attempt.token, End::CleanedUp))
    }

    fn end(&mut self, token: Token, end: End) -> Option<&'static str> {
        let before = self.ends.insert(number(token), end);
        before.map(|_| "a token left twice")
    }
}

fn attempt(number: u64) -> Attempt {
    Attempt {
        token: Token::of_test(number),
        claim: Claim {
            key: "k".into(),
            value: number.to_string().into(),
            queues: false,
        },
    }
}

pub(super) fn number(token: Token) -> u64 {
    (1..=9)
        .find(|number| Token::of_test(*number) == token)
        .expect("a token of this model")
}
