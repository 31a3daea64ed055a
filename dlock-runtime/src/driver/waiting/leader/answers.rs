//! What the answers to an acquire or a poll mean for the local queue, and what follows from
//! failures.
//!
//! It sends nothing. Invariant: each answer reaches the queue, and each error that waiting can't
//! cure reaches its waiters.

use std::time::Duration;

use super::Leader;
use crate::backend::Link;
use crate::backend::command_error::CommandError;
use crate::client::Settled;
use crate::client::local_queue::Grant;
use crate::client::retry::Pause;
use crate::driver::attempt::{self, InTheWay};
use crate::observe;
use crate::policy::commands::{Busy, Left, NoQuorum};
use crate::values::error::LockError;
use crate::values::holder::{self, Reading};
use crate::values::key::KeyParts;
use crate::values::token::Token;

impl Leader {
    /// The server granted the lock to this process.
    pub(super) fn granted_to_leader(&mut self, token: Token, grant: Grant) {
        self.succeeded();
        let settled = (self.core.local_queues()).granted_to_leader(
            self.queue_key(),
            token,
            grant,
            self.now(),
        );
        self.core.hand_to_watchdog(settled.unowned());
    }

    pub(super) fn queued(&mut self, token: Token, busy: &Busy, link: &dyn Link) {
        self.succeeded();
        self.observe(busy);
        let left = match busy.left {
            // An empty value: the lock is free and yet not ours, because the first entry in the
            // server's queue is of a kind that we can't read.
            Left::For(left) if !busy.value.is_empty() => left,
            Left::For(_) | Left::Endless => Duration::MAX,
        };
        let pushes = link.address().is_some();
        let interval = self.core.settings().poll_interval(pushes);
        let pause = self.retries().busy(left, interval);
        self.polls_again(token, pause, None);
    }

    /// Shows who holds the lock.
    fn observe(&self, busy: &Busy) {
        let holder = || match holder::read(&busy.value) {
            Reading::Holder(_) if !attempt::is_held(&self.core, busy) => {
                "nobody: what this process asked for before, or held, is taken back".to_owned()
            }
            Reading::Holder(holder) => holder.to_string(),
            Reading::UnknownLayout => "a program with another version of dlock".to_owned(),
        };
        observe::queued(self.key(), holder);
        if self.core.settings().observing.slow_acquire.is_some() {
            let holder = Some(holder());
            let queues = self.core.local_queues();
            queues.at(self.queue_key(), |it| it.queue_state.holder = holder);
        }
    }

    fn key(&self) -> KeyParts<'_> {
        self.core.parts(self.queue_key().key())
    }

    fn polls_again(&self, token: Token, pause: Duration, failed: Option<CommandError>) {
        let now = self.now();
        let next = now.plus(pause);
        let local_queues = self.core.local_queues();
        let settled = local_queues.at(self.queue_key(), |it| {
            it.queue_state.failed = failed.map(|error| Box::new((now, error)));
            it.client().queued(token, next, now)
        });
        self.core
            .hand_to_watchdog(settled.and_then(Settled::unowned));
    }

    /// The server queued nothing: the key holds another layout, or has no time to live. A program
    /// that locks in two steps, `SETNX` and `EXPIRE`, may be between them, so the key is checked
    /// again.
    pub(super) fn not_queued(&mut self, why: Result<InTheWay, CommandError>) {
        let interval = self.core.settings().poll_interval(false);
        let now = self.now();
        match why {
            Ok(InTheWay::Endless(refusal)) => match self.retries().endless(now, interval) {
                Some(pause) => self.pause(pause, None),
                None => self.reject(refusal),
            },
            Ok(InTheWay::Somebody { left, .. }) => {
                self.succeeded();
                let pause = self.retries().busy(left, interval);
                self.pause(pause, None);
            }
            Err(refusal) => {
                self.succeeded();
                self.reject(refusal);
            }
        }
    }

    /// No quorum of nodes granted the lock, and nobody queues at a node.
    pub(super) fn no_quorum(&mut self, answer: &NoQuorum) {
        self.observe(&answer.busy);
        let left = match attempt::in_the_way(&answer.busy) {
            Ok(InTheWay::Somebody { left, .. }) => left,
            endless_or_strange => return self.not_queued(endless_or_strange),
        };
        let cap = self.core.settings().poll_interval(answer.is_told);
        let now = self.now();
        let pause = self.retries().no_quorum(answer, left, cap);
        let next_freed = self.retries().next_hint(answer, now);
        let local_queues = self.core.local_queues();
        local_queues.at(self.queue_key(), |it| {
            let bounds = (now.plus(pause), next_freed);
            it.queue_state.failed = None;
            it.queue_state.pause_unless_told(self.epoch, bounds);
        });
    }

    /// Nothing was created, and the estimate of the server's clock has been corrected.
    pub(super) fn late(&mut self) {
        let now = self.now();
        if let Some(pause) = self.retries().at_once(now) {
            self.pause_through(pause, attempt::clock_runs_ahead());
        }
    }

    pub(super) fn poll_failed(&mut self, token: Token, error: CommandError) {
        if !error.may_pass() {
            return self.reject(error); // which also gives up the queue entry
        }
        let now = self.now();
        let pause = self.retries().failed(now);
        self.mention(pause, &error);
        self.polls_again(token, pause.length, Some(error));
    }

    pub(super) fn failed(&mut self, error: CommandError) {
        if !error.may_pass() {
            return self.reject(error);
        }
        let now = self.now();
        let pause = match error {
            CommandError::Elsewhere(_) => self.retries().at_once(now),
            _ => Some(self.retries().failed(now)),
        };
        if let Some(pause) = pause {
            self.pause_through(pause, error);
        }
    }

    fn pause_through(&self, pause: Pause, error: CommandError) {
        self.mention(pause, &error);
        self.pause(pause.length, Some(error));
    }

    fn mention(&self, pause: Pause, error: &CommandError) {
        if let Some(lasted) = pause.mention {
            observe::waiting_through_outage(self.key(), lasted, error);
        }
    }

    fn pause(&self, pause: Duration, failed: Option<CommandError>) {
        let now = self.now();
        let until = now.plus(pause);
        let local_queues = self.core.local_queues();
        local_queues.at(self.queue_key(), |it| {
            it.queue_state.failed = failed.map(|error| Box::new((now, error)));
            it.queue_state.pause(self.epoch, until);
        });
    }

    pub(super) fn reject(&self, error: CommandError) {
        let local_queues = self.core.local_queues();
        let now = self.now();
        let unowned = local_queues.at(self.queue_key(), |it| {
            if it.queue_state.leader != self.epoch {
                return None; // a stale leader's failure need not be the current leader's
            }
            let key = it
                .queue_state
                .queue
                .first()
                .map(|first| first.spec.key.clone());
            let error: LockError = self.core.error(error, key.as_ref());
            it.reject(&error, now)
        });
        self.core.hand_to_watchdog(unowned.flatten());
    }
}
