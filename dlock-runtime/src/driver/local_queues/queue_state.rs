//! One local queue with what the driver adds: its leader, the wakers of its waiters, and the errors
//! of waiters that were rejected.
//!
//! Everything here happens under the mutex of `shared`. Invariant: nothing is woken under it;
//! wakers are collected, and woken after unlocking.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::command_error::CommandError;
use crate::client::local_queue::{Attempt, Grant, LeaderStep, LocalQueue, WaiterId};
use crate::client::spec::AcquireSpec;
use crate::client::tokens::Tokens;
use crate::client::{Client, ReturnedTo, Settled};
use crate::driver::lease_cell::LeaseCell;
use crate::strangers::CallersWaker;
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// The first acquire of a queue, which the first waiter sends until another one joins.
pub(in crate::driver) trait FirstAttempt: fmt::Debug + Send + Sync {
    /// Moves it to a task of its own, so that a waiter that is not polled delays nobody. If it is
    /// being polled, that happens afterwards. `sender`: the waker that the queue has for the waiter
    /// that sends it.
    fn spawn(&self, sender: Option<CallersWaker>);
}

#[derive(Debug, Default)]
pub(in crate::driver) struct QueueState {
    pub(in crate::driver) queue: LocalQueue<QueuedWaiter>,
    /// The errors for waiters that were rejected, until they read them.
    pub(in crate::driver) rejected: BTreeMap<WaiterId, LockError>,
    /// Wakes the leader early; `None` until a leader first sleeps.
    notify: Option<Arc<Notify>>,
    /// The current leader, and when it last showed a sign of life.
    pub(in crate::driver) leader: LeaderEpoch,
    leader_seen: Option<Moment>,
    /// The first acquire, while the first waiter sends it and is the only one.
    pub(in crate::driver) first_acquire: Option<Arc<dyn FirstAttempt>>,
    /// The value of the last acquire, if the queue is not shared: `QueueTable` finds the queue by
    /// it.
    pub(in crate::driver) last_value: Option<Arc<str>>,
    /// Who the server last said holds the lock; kept only where slow calls are logged.
    pub(in crate::driver) holder: Option<String>,
    /// When and how the last command for it failed, unless another was answered since.
    pub(in crate::driver) failed: Option<Box<(Moment, CommandError)>>,
    /// Wakers to call after unlocking: waking may drop a task, and its drop locks the mutex.
    pub(in crate::driver) wakes: Wakes,
    pub(in crate::driver) notifies: bool,
    /// Identifies this queue among those that come and go at one key.
    #[cfg(test)]
    pub(in crate::driver) itself: Arc<()>,
}

/// Usually empty or one waker.
#[derive(Debug, Default)]
pub(in crate::driver) struct Wakes {
    one: Option<CallersWaker>,
    more: Vec<CallersWaker>,
}

impl Wakes {
    fn add(&mut self, waker: CallersWaker) {
        if self.one.is_none() {
            self.one = Some(waker);
        } else {
            self.more.push(waker);
        }
    }

    pub(in crate::driver) fn wake(self) {
        if let Some(one) = self.one {
            one.wake();
            self.more.into_iter().for_each(CallersWaker::wake);
        }
    }
}

/// A waiter in the queue.
#[derive(Debug)]
pub(in crate::driver) struct QueuedWaiter {
    pub(in crate::driver) spec: Arc<AcquireSpec>,
    pub(in crate::driver) waker: CallersWaker,
}

impl QueuedWaiter {
    pub(in crate::driver) fn new(spec: Arc<AcquireSpec>, waker: &Waker) -> Self {
        let waker = CallersWaker::of(waker);
        Self { spec, waker }
    }

    /// The waker that it listened with before, if that is another one.
    #[must_use = "it has to be dropped after unlocking"]
    pub(in crate::driver) fn listen_with(&mut self, waker: &Waker) -> Option<CallersWaker> {
        let is_other = !self.waker.will_wake(waker);
        is_other.then(|| std::mem::replace(&mut self.waker, CallersWaker::of(waker)))
    }
}

fn fits(now: Moment) -> impl Fn(&QueuedWaiter, &Grant) -> bool {
    move |waiter, grant| grant.suits(&waiter.spec.terms, now)
}

/// A leader's number; a leader whose number is not the queue's any more has nothing to do.
pub(in crate::driver) type LeaderEpoch = u64;

impl QueueState {
    /// Whether nothing has to be kept for anybody.
    pub(in crate::driver) fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.rejected.is_empty()
    }

    /// As [`is_idle`](Self::is_idle); also true if all it knows is a held lock that can't be handed
    /// on any more.
    pub(in crate::driver) fn is_idle_at(&self, now: Moment) -> bool {
        self.queue.is_idle_at(now) && self.rejected.is_empty()
    }

    /// Ends the hand-off chain if the held lease does not suit the next waiter.
    pub(in crate::driver) fn check_chain(&mut self, now: Moment) {
        self.queue.end_chain_unless(fits(now));
    }

    pub(in crate::driver) fn poll_now(&mut self, now: Moment) {
        self.queue.poll_now(now);
        self.notifies = true;
    }

    pub(in crate::driver) fn hint(&mut self, now: Moment) {
        self.notifies |= self.queue.hint(now);
    }

    pub(in crate::driver) fn freed(&mut self, now: Moment) {
        self.notifies |= self.queue.freed(now);
    }

    pub(in crate::driver) fn wake_called(&mut self) {
        let called = self.queue.called();
        if let Some(waker) = called.and_then(|it| it.waker.try_clone()) {
            self.wakes.add(waker);
        }
    }

    pub(in crate::driver) fn wake_all(&mut self) {
        let wakers = self.queue.waiters().map(|it| it.waker.try_clone());
        wakers.flatten().for_each(|waker| self.wakes.add(waker));
    }

    pub(in crate::driver) fn pause(&mut self, leader_epoch: LeaderEpoch, until: Moment) {
        if leader_epoch == self.leader {
            self.queue.pause(until);
        }
    }

    pub(in crate::driver) fn pause_unless_told(
        &mut self,
        leader_epoch: LeaderEpoch,
        (until, next_freed): (Moment, Moment),
    ) {
        if leader_epoch == self.leader {
            self.queue.pause_unless_told(until, next_freed);
        }
    }

    pub(in crate::driver) fn notify(&mut self) -> Arc<Notify> {
        self.notify.get_or_insert_default().clone()
    }

    /// What wakes the leader, if it is to be notified and may be asleep.
    pub(in crate::driver) fn take_notify(&mut self) -> Option<Arc<Notify>> {
        let notifies = std::mem::take(&mut self.notifies);
        self.notify.as_ref().filter(|_| notifies).cloned()
    }

    pub(in crate::driver) fn become_leader(&mut self, now: Moment) -> Option<LeaderEpoch> {
        self.queue.become_leader().then(|| self.new_leader(now))
    }

    /// Whether there is one waiter, and its leader has to acquire at once.
    pub(in crate::driver) fn acquires_for_one(&mut self, now: Moment) -> bool {
        let is_one = self.queue.waiters().nth(1).is_none();
        is_one && self.queue.may_acquire() && self.queue.next(now) == LeaderStep::Acquire
    }

    pub(in crate::driver) fn new_leader(&mut self, now: Moment) -> LeaderEpoch {
        static EPOCHS: AtomicU64 = AtomicU64::new(1);
        self.leader = EPOCHS.fetch_add(1, Ordering::Relaxed);
        self.leader_seen = Some(now);
        self.leader
    }

    pub(in crate::driver) fn is_stuck(&self, now: Moment, after: Duration) -> bool {
        self.queue.has_waiters()
            && self
                .leader_seen
                .is_some_and(|seen| seen.until(now) >= after)
    }

    /// Dismisses the leader if nobody waits; `false` if it has work to do.
    pub(in crate::driver) fn dismiss_if_idle(&mut self, leader_epoch: LeaderEpoch) -> bool {
        let rests = !self.queue.has_waiters();
        if rests {
            self.leader_gone(leader_epoch);
        }
        rests
    }

    pub(in crate::driver) fn leader_gone(&mut self, leader_epoch: LeaderEpoch) {
        if leader_epoch == self.leader {
            self.first_acquire = None;
            self.queue.leader_gone();
            self.wake_all();
        }
    }
}

/// A queue and the pool's tokens, under the mutex.
pub(in crate::driver) struct Locked<'a> {
    pub(in crate::driver) queue_state: &'a mut QueueState,
    pub(in crate::driver) tokens: &'a mut Tokens<Arc<LeaseCell>>,
    pub(in crate::driver) command_timeout: Duration,
    /// The token of a lease that begins: after unlocking, the caller makes sure that the watchdog
    /// watches it.
    pub(super) begins: Option<Token>,
    /// A waker that no waiter listens with any more. It is dropped after unlocking: it may own a
    /// task, whose drop locks the mutex.
    pub(super) retired: Option<CallersWaker>,
}

impl Locked<'_> {
    /// From here on this waiter is woken by this waker.
    pub(super) fn listen(&mut self, waiter_id: WaiterId, waker: &Waker) {
        debug_assert!(self.retired.is_none(), "one is kept");
        if let Some(waiter) = self.queue_state.queue.waiter(waiter_id) {
            self.retired = waiter.listen_with(waker);
        }
    }

    pub(in crate::driver) fn client(&mut self) -> Client<'_, QueuedWaiter, Arc<LeaseCell>> {
        Client {
            queue: Some(&mut self.queue_state.queue),
            tokens: self.tokens,
            command_timeout: self.command_timeout,
        }
    }

    /// An acquire is about to be sent; `false`: do not send it. Another leader has taken over, or
    /// the lock was handed on after this leader read its clock.
    pub(in crate::driver) fn sending(
        &mut self,
        leader_epoch: LeaderEpoch,
        attempt: Attempt,
        now: Moment,
    ) -> bool {
        let may_send =
            leader_epoch == self.queue_state.leader && self.queue_state.queue.may_acquire();
        if may_send {
            // So that no leader takes over before this acquire is too late to create anything.
            self.queue_state.leader_seen = Some(now);
            self.client().sending(attempt);
        }
        may_send
    }

    pub(in crate::driver) fn granted(
        &mut self,
        token: Token,
        grant: Grant,
        now: Moment,
    ) -> Settled {
        let settled = self.client().granted(token, grant, now);
        if settled == Settled::Taken {
            self.queue_state.wake_called();
        }
        settled
    }

    pub(in crate::driver) fn next(&mut self, leader_epoch: LeaderEpoch, now: Moment) -> LeaderStep {
        if leader_epoch != self.queue_state.leader {
            return LeaderStep::Rest; // another leader has taken over
        }
        self.queue_state.leader_seen = Some(now);
        self.queue_state.check_chain(now);
        let next = self.client().next(now);
        match next {
            LeaderStep::PassOn => self.queue_state.wake_called(),
            LeaderStep::Sleep(_) => drop(self.queue_state.notify()), // from here on it can be notified
            _ => {}
        }
        next
    }

    pub(in crate::driver) fn reject(&mut self, error: &LockError, now: Moment) -> Option<Token> {
        let (waiters, unowned) = self.client().clear(now);
        for (waiter_id, waiter) in waiters {
            self.queue_state.rejected.insert(waiter_id, error.clone());
            self.queue_state.wakes.add(waiter.waker);
        }
        self.queue_state.notifies = true;
        unowned
    }

    /// The holder is done; `may_hand_on`: the next waiter here may have the lock. `ended`: as in
    /// [`Client::give_back`].
    pub(in crate::driver) fn give_back(
        &mut self,
        token: Token,
        now: Moment,
        may_hand_on: bool,
        ended: impl FnOnce(),
    ) -> ReturnedTo {
        let given_back =
            (self.client()).give_back(token, now, may_hand_on.then(|| fits(now)), ended);
        self.has_left(given_back == ReturnedTo::HandedOn);
        given_back
    }

    /// As `give_back`, for a hold without a guard; returns whether it was handed on.
    pub(in crate::driver) fn drop_hold(
        &mut self,
        token: Token,
        now: Moment,
        may_hand_on: bool,
        ended: impl FnOnce(),
    ) -> bool {
        let handed_on =
            (self.client()).drop_hold(token, now, may_hand_on.then(|| fits(now)), ended);
        self.has_left(handed_on);
        handed_on
    }

    /// The lock has gone to the next waiter here, or back to the server, perhaps before the leader
    /// would poll.
    fn has_left(&mut self, handed_on: bool) {
        if handed_on {
            self.queue_state.wake_called();
        } else {
            self.queue_state.notifies |= self.queue_state.queue.has_waiters();
        }
    }
}
