//! What the answers to an acquire or a poll mean for the gate, and what follows from failures.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use super::Driver;
use crate::backend::Link;
use crate::backend::fault::Fault;
use crate::engine::attempt::{self, InTheWay};
use crate::engine::waiting::outage::Outage;
use crate::policy::commands::{Busy, Left};
use crate::policy::gate::{Fate, Offer};
use crate::policy::retry;
use crate::values::error::LockError;
use crate::values::token::Token;

/// How long another program's key may be without a time to live before it counts as left behind.
const TWO_STEPS_AT_MOST: Duration = Duration::from_secs(1);

impl Driver {
    /// The lock is ours. Nothing is awaited: this asks only who polls.
    pub(super) async fn offered(&mut self, token: Token, offer: Offer) {
        self.works();
        let gates = self.pool.gates();
        let offer = gates.to_be_handed_on(offer);
        let fate = poll_fn(|cx| {
            let here = cx.waker();
            Poll::Ready(gates.at(&self.lane, |keyed| keyed.answered(token, offer, here)))
        });
        let fate = fate.await;
        self.give_up_if_unwanted(fate);
    }

    pub(super) fn queued(&mut self, token: Token, busy: &Busy, link: &dyn Link) {
        self.works();
        let left = match busy.left {
            // No value: free, and yet not ours, for the first in the queue is of a kind that we can't read.
            Left::For(left) if !busy.value.is_empty() => left,
            Left::For(_) | Left::Endless => Duration::MAX,
        };
        let pushes = link.address().is_some();
        let interval = self.pool.settings().poll_interval(pushes);
        let pause = retry::after_busy(left, interval, &mut self.jitter);
        let next = self.now().plus(pause);
        let gates = self.pool.gates();
        let fate = gates.at(&self.lane, |keyed| keyed.gate.queued(token, next));
        self.give_up_if_unwanted(fate);
    }

    pub(super) fn give_up_if_unwanted(&self, fate: Option<Fate>) {
        if let Some(Fate::Unwanted(position)) = fate {
            self.pool.give_up(&position);
        }
    }

    /// The server has nothing of ours any more, or will not have it for long.
    pub(super) fn place_ended(&self, token: Token) -> bool {
        self.pool.gates().ended(&self.lane, token, self.now())
    }

    /// The key can't be waited for: of another layout, or without a time to live. A program that takes
    /// its lock in two steps, `SETNX` and `EXPIRE`, may be between them: so it is looked at again.
    pub(super) fn not_queued(&mut self, why: Result<InTheWay, Fault>) {
        let (now, endless_since) = (self.now(), self.endless_since);
        self.works();
        match why {
            Ok(InTheWay::Endless(refusal)) => {
                self.endless_since = endless_since;
                let since = *self.endless_since.get_or_insert(now);
                if since.until(now) >= TWO_STEPS_AT_MOST {
                    self.endless_since = None;
                    return self.send_away(refusal);
                }
                let pause = self.pool.settings().poll_interval(false);
                let rest = TWO_STEPS_AT_MOST.saturating_sub(since.until(now));
                self.pause(pause.min(rest));
            }
            Ok(InTheWay::Somebody { left, .. }) => {
                let interval = self.pool.settings().poll_interval(false);
                let pause = retry::after_busy(left, interval, &mut self.jitter);
                self.pause(pause);
            }
            Err(refusal) => self.send_away(refusal),
        }
    }

    /// Nothing was created, and the estimate of the server's clock has been corrected: once more at
    /// once, and if that did not help, like any other failure.
    pub(super) fn late(&mut self) {
        if !self.outage.first_failure() {
            self.failed(attempt::clock_runs_ahead());
        }
    }

    /// The server answers, and the key is as it should be.
    pub(super) fn works(&mut self) {
        (self.outage, self.endless_since) = (Outage::default(), None);
    }

    pub(super) fn poll_failed(&mut self, token: Token, fault: Fault) {
        if fault.may_pass() {
            let pause = self
                .outage
                .pause(self.lane.key(), &fault, self.now(), &mut self.jitter);
            let next = self.now().plus(pause);
            let gates = self.pool.gates();
            let fate = gates.at(&self.lane, |keyed| keyed.gate.queued(token, next));
            return self.give_up_if_unwanted(fate);
        }
        self.send_away(fault); // and gives up the place
    }

    pub(super) fn failed(&mut self, fault: Fault) {
        if !fault.may_pass() {
            return self.send_away(fault);
        }
        let pause = self
            .outage
            .pause(self.lane.key(), &fault, self.now(), &mut self.jitter);
        self.pause(pause);
    }

    pub(super) fn pause(&self, pause: Duration) {
        let until = self.now().plus(pause);
        let gates = self.pool.gates();
        gates.at(&self.lane, |keyed| keyed.pause(self.wheel, until));
    }

    pub(super) fn send_away(&self, fault: Fault) {
        let gates = self.pool.gates();
        let unwanted = gates.at(&self.lane, |keyed| {
            if keyed.driver != self.wheel {
                return None; // what fails here need not fail for who drives now
            }
            let key = keyed.gate.first().map(|first| first.order.key.clone());
            let error: LockError = fault.into_error(key.as_ref());
            keyed.send_away(&error)
        });
        if let Some(position) = unwanted.flatten() {
            self.pool.give_up(&position);
        }
    }
}
