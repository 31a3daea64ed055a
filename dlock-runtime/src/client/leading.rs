//! What the sender of a queue's commands tells: the leader, in a task of its own, or the only waiter,
//! which sends the first acquire from its own poll.
//!
//! It hears what to send next; `answers` says what the answers mean. Invariant: a sender that is not
//! the queue's current one changes nothing but what its own token has at the server, and wakes the
//! current one.

use std::time::Duration;

use super::answers::SentAcquire;
use super::host::{ClientHost, ClientWaker as _, WakerSource};
use super::local_queue::LeaderStep;
use super::queue_key::QueueKey;
use super::queue_state::LeaderEpoch;
use super::tokens::Attempt;
use super::{Client, QueueStep, Told};
use crate::values::moment::Moment;

/// What the leader must do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LeaderTurn<H: ClientHost> {
    /// Send an acquire for this waiter.
    Acquire(H::Request),
    /// Poll for this attempt; `is_alone`: not in a batch, for it is likely to find a grant.
    Poll { attempt: Attempt, is_alone: bool },
    /// Sleep until then, or until it is woken.
    Sleep(Moment),
    /// Nothing any more: nobody waits, or another leader has taken over.
    #[default]
    Rest,
}

/// What follows from an answer for its reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// The acquire may have left something at the server: a `cancel` must follow it on its own
    /// connection.
    pub(crate) cancels_behind: bool,
    /// An outage must be mentioned now: how long it has lasted.
    pub(crate) mention: Option<Duration>,
    /// A waiter has the turn now.
    pub(crate) is_granted: bool,
}

impl<H: ClientHost> Client<H> {
    /// An acquire is about to be sent for a queue, by this leader; `false`: do not send it. Another
    /// leader has taken over, or the lock was handed on after this leader read its clock.
    pub(crate) fn sending(
        &mut self,
        (queue_key, leader_epoch): (&QueueKey, LeaderEpoch),
        sent: &SentAcquire,
        told: Told<'_, H>,
    ) -> bool {
        let sends = self.at(queue_key, told, |it| it.sending(leader_epoch, sent));
        if sends && !queue_key.is_for_all() {
            self.queues.sent(queue_key, sent.token);
        }
        sends
    }

    /// An acquire without a queue is about to be sent: a try past the queue, or one of several keys.
    /// `false`: it must not be, because the pool is closed.
    #[must_use]
    pub(crate) fn sending_alone(&mut self, sent: &SentAcquire) -> bool {
        let is_open = !self.is_closed;
        if is_open {
            let claim = sent.command.claim.clone();
            self.tokens.acquiring(sent.token, claim);
        }
        is_open
    }
}

impl<H: ClientHost> QueueStep<'_, H> {
    /// What this leader must do. If it is to sleep, `waker` wakes it.
    pub(crate) fn lead(
        &mut self,
        leader_epoch: LeaderEpoch,
        waker: &WakerSource<H>,
    ) -> LeaderTurn<H> {
        if !self.is_current(leader_epoch) {
            return LeaderTurn::Rest;
        }
        self.seen();
        self.state.check_chain(self.step.now);
        loop {
            return match self.state.queue.next(self.step.now) {
                LeaderStep::Acquire => match self.state.queue.first() {
                    Some(waiter) => LeaderTurn::Acquire(waiter.request.clone()),
                    None => LeaderTurn::Sleep(Moment::NEVER), // unreachable: for whom?
                },
                LeaderStep::Poll(token) => {
                    let Some(claim) = self.step.tokens.claim(token).cloned() else {
                        self.state.queue.ended(token, self.step.now); // unreachable: it is there
                        continue;
                    };
                    LeaderTurn::Poll {
                        attempt: Attempt { token, claim },
                        is_alone: self.state.queue.take_early_flush(),
                    }
                }
                LeaderStep::GiveUp(token) => {
                    self.step.clean_up(token);
                    continue;
                }
                LeaderStep::PassOn => {
                    self.state.wake_called(self.step.out);
                    continue;
                }
                LeaderStep::Sleep(until) => {
                    let known = &mut self.state.sender.waker;
                    if !known.as_ref().is_some_and(|it| it.will_wake(waker)) {
                        self.step.out.retired = known.replace(H::Waker::of(waker));
                    }
                    LeaderTurn::Sleep(until)
                }
                LeaderStep::Rest => {
                    self.step.out.retired = self.state.sender.waker.take();
                    LeaderTurn::Rest
                }
            };
        }
    }

    fn sending(&mut self, leader_epoch: LeaderEpoch, sent: &SentAcquire) -> bool {
        let may_send = self.is_current(leader_epoch) && self.state.queue.may_acquire();
        if may_send {
            // So that no leader takes over before this acquire is too late to create anything.
            self.seen();
            let claim = sent.command.claim.clone();
            self.step.tokens.acquiring(sent.token, claim);
            self.state.queue.acquiring(sent.token);
        }
        may_send
    }

    pub(super) fn is_current(&self, leader_epoch: LeaderEpoch) -> bool {
        leader_epoch == self.state.sender.epoch
    }

    /// The current leader shows a sign of life.
    fn seen(&mut self) {
        let (now, rules) = (self.step.now, self.step.rules);
        self.state.sender.stuck_at = now.plus(rules.stuck_after);
    }

    fn new_leader(&mut self) -> LeaderEpoch {
        self.state.wake_leader(self.step.out); // one that was taken for stuck: it ends
        *self.step.epochs += 1;
        self.state.sender.epoch = *self.step.epochs;
        self.state.retries = None;
        self.seen();
        self.state.sender.epoch
    }

    /// A new leader, if somebody waits and there is none.
    pub(super) fn leader_if_needed(&mut self) -> Option<LeaderEpoch> {
        self.state.queue.become_leader().then(|| self.new_leader())
    }

    /// A new leader instead of one without a sign of life, whose unanswered acquire is cleaned up.
    pub(super) fn leader_if_stuck(&mut self) -> Option<LeaderEpoch> {
        if !self.state.queue.has_waiters() || self.step.now < self.state.sender.stuck_at {
            return None;
        }
        if let Some(unanswered) = self.state.queue.take_over_lead() {
            self.step.clean_up(unanswered);
        }
        Some(self.new_leader())
    }

    /// The first acquire was answered to the waiter that sent it, which has told the answer: its leader
    /// goes on in a task, unless nobody waits any more.
    pub(crate) fn continue_or_dismiss(&mut self, leader_epoch: LeaderEpoch) -> Option<LeaderEpoch> {
        if !self.is_current(leader_epoch) {
            return None;
        }
        self.state.sender.flight = None;
        if self.state.queue.has_waiters() {
            return Some(leader_epoch);
        }
        self.state.queue.leader_gone();
        None
    }

    /// The leader is gone before its time, with its runtime.
    pub(crate) fn leader_gone(&mut self, leader_epoch: LeaderEpoch) {
        if self.is_current(leader_epoch) {
            self.state.sender.flight = None;
            self.step.out.retired = self.state.sender.waker.take();
            self.state.queue.leader_gone();
            self.state.wake_all(self.step.out);
        }
    }
}
