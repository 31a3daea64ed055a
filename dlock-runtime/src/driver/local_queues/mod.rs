//! The waiters of this process: one local queue per key, or one per waiter that needs a queue entry
//! of its own at the server.
//!
//! `queue_key` says which queue a waiter joins, `queue_state` is a queue with its leader and
//! wakers, `queue_table` holds all queues. This file has what waiters do, `attempts` the commands
//! that are sent for them and the answers, `holders` how a lock passes on from its holder.
//! `client` decides, under the mutex of `shared`; wakers, notifications and the watchdog
//! are called after unlocking.
//!
//! Never in this folder: a command that is sent (`waiting` does that), a decision about a lock.

mod attempts;
mod holders;
mod queue_state;
pub(super) mod queue_table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::lease_cell::LeaseCell;
use super::shared::{ClientState, SharedClient};
use crate::client::lease::Lease;
use crate::client::local_queue::{Attempt, Grant, WaiterId};
use crate::client::queue_key::QueueKey;
use crate::client::spec::AcquireSpec;
use crate::client::{Checked, Client, Settled};
use crate::strangers::CallersWaker;
use crate::sync::MutexGuard;
use crate::values::error::LockError;
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

use self::queue_state::QueuedWaiter;
pub(super) use self::queue_state::{FirstAttempt, LeaderEpoch, Locked};

/// The local queues of a pool.
#[derive(Debug)]
pub(crate) struct LocalQueues {
    shared: Arc<SharedClient>,
    /// A leader that has shown no sign of life for this long is stuck: nothing runs its runtime.
    stuck_after: Duration,
    handoff: Handoff,
    margin: Margin,
}

/// A waiter that has joined a queue.
pub(super) struct Joined {
    pub(super) waiter_id: WaiterId,
    /// Set if this waiter has to start a leader in a task of its own.
    pub(super) leader_epoch: Option<LeaderEpoch>,
    /// The first acquire, if another waiter has sent it from its own poll until now: that waiter may
    /// not be polled while this one waits, so it has to be spawned. With that waiter's waker.
    pub(super) first_acquire: Option<(Arc<dyn FirstAttempt>, Option<CallersWaker>)>,
}

/// A lock that was taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) grant: Grant,
    /// Under which token, and whether it still counts.
    pub(super) cell: Arc<LeaseCell>,
}

/// What a waiter's poll finds.
pub(super) enum PollResult {
    Wait,
    /// The queue needs a leader: this waiter starts one.
    Lead(LeaderEpoch),
    Yours(Taken),
    /// Its turn came too late for its own ttl: it has left the queue, and may join again.
    TooLate,
    Rejected(LockError),
}

/// The first acquire was answered, and the waiter that sent it has read the answer.
#[derive(Clone, Copy)]
pub(super) struct FirstAnswered {
    /// The leader that sent it: it has done its work, and may be dismissed.
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) granted: Option<(Token, Grant)>,
}

/// What else follows from a poll.
#[derive(Default)]
pub(super) struct SideEffects {
    /// Tokens that have to be cleaned up.
    pub(super) unowned: [Option<Token>; 2],
    /// The leader that sent the first acquire has nothing left to do.
    pub(super) is_dismissed: bool,
}

/// What waiters do.
impl LocalQueues {
    /// `one_step`: how long a leader may take for one command, connecting included.
    pub(super) fn new(
        shared: Arc<SharedClient>,
        one_step: Duration,
        handoff: Handoff,
        margin: Margin,
    ) -> Self {
        Self {
            shared,
            stuck_after: one_step + Duration::from_secs(2),
            handoff,
            margin,
        }
    }

    /// `waker`: wakes the waiter when it has to look. `first`: called under the mutex if it is the
    /// only waiter and leads, and an acquire is to be sent at once; makes that acquire, which the
    /// waiter sends from its own poll.
    pub(super) fn enter<A: FirstAttempt + 'static>(
        &self,
        spec: Arc<AcquireSpec>,
        now: Moment,
        waker: &Waker,
        first: impl FnOnce(LeaderEpoch) -> Arc<A>,
    ) -> Joined {
        let mut state = self.lock();
        let closed = state.queues.closed.clone();
        let queue_key = &spec.queue_key;
        let queue_state = state.queues.at(queue_key, now);
        let nobody_waits = !queue_state.queue.has_waiters();
        let nobody_responds = !nobody_waits && queue_state.queue.first().is_none();
        let might_be_handed_on = queue_state.queue.may_be_handed_on(now);
        // The leader may still sleep until the end of a hand-off chain whose lock has been released
        // since.
        let leader_may_acquire =
            nobody_waits && queue_state.queue.may_acquire() && !might_be_handed_on;
        let waiter_id = queue_state.queue.enter(QueuedWaiter::new(spec, waker));
        queue_state.check_chain(now);
        let chain_ends = might_be_handed_on && !queue_state.queue.may_be_handed_on(now);
        if let Some(error) = closed {
            // The queue holds only this waiter: `close` has sent the others away.
            queue_state.queue.leave(waiter_id);
            queue_state.rejected.insert(waiter_id, error);
        }
        let first_acquire = queue_state.first_acquire.take().map(|acquire| {
            let sender = queue_state.queue.waiters().next();
            (acquire, sender.and_then(|it| it.waker.try_clone()))
        });
        let mut leader_epoch = queue_state.become_leader(now);
        if let Some(epoch) = leader_epoch
            && queue_state.acquires_for_one(now)
        {
            queue_state.first_acquire = Some(first(epoch));
            leader_epoch = None;
        }
        queue_state.notifies |= nobody_responds || chain_ends || leader_may_acquire;
        let notify = queue_state.take_notify();
        drop(state);
        if let Some(notify) = notify {
            notify.notify_one();
        }
        Joined {
            waiter_id,
            leader_epoch,
            first_acquire,
        }
    }

    /// `answered`: the answer that this waiter has read.
    pub(super) fn check(
        &self,
        spec: &Arc<AcquireSpec>,
        waiter_id: WaiterId,
        now: Moment,
        waker: &Waker,
        answered: Option<FirstAnswered>,
    ) -> (PollResult, SideEffects) {
        let checked = self.at(&spec.queue_key, |it| {
            let granted = answered.and_then(|it| it.granted).map(|(token, grant)| {
                let grant = self.with_handoff_limit(grant, now);
                it.client().granted(token, grant, now)
            });
            let (poll_result, unowned) = self.check_in(it, spec, waiter_id, now, waker);
            if granted == Some(Settled::Taken) && !matches!(poll_result, PollResult::Yours(_)) {
                it.queue_state.wake_called(); // the grant is another waiter's
            }
            let side_effects = SideEffects {
                unowned: [granted.and_then(Settled::unowned), unowned],
                is_dismissed: answered
                    .is_some_and(|by| it.queue_state.dismiss_if_idle(by.leader_epoch)),
            };
            (poll_result, side_effects)
        });
        // Unreachable: a queue with a waiter is kept.
        checked.unwrap_or((PollResult::Wait, SideEffects::default()))
    }

    fn check_in(
        &self,
        it: &mut Locked<'_>,
        spec: &Arc<AcquireSpec>,
        waiter_id: WaiterId,
        now: Moment,
        waker: &Waker,
    ) -> (PollResult, Option<Token>) {
        if let Some(error) = it.queue_state.rejected.remove(&waiter_id) {
            return (PollResult::Rejected(error), None);
        }
        // Before the check, which may drop the waiter: then it drops no last waker, for the caller
        // has this one.
        it.listen(waiter_id, waker);
        it.queue_state.notifies |= it.queue_state.queue.mark_responsive(waiter_id);
        let holder = |attempt: Attempt, lease: &_| self.cell(spec, attempt, lease);
        let checked = it.client().check(waiter_id, now, &spec.terms, holder);
        let mut unowned = match checked {
            Checked::Yours(grant, cell) => {
                if spec.terms.bounds.min_hold.is_some() {
                    it.queue_state.queue.end_chain(); // it is not handed on
                } else {
                    it.queue_state.check_chain(now);
                }
                // The next waiter needs an attempt of its own, and the leader does not know of a
                // grant that was pushed.
                it.queue_state.notifies |=
                    grant.chain.index == 0 || !it.queue_state.queue.may_be_handed_on(now);
                it.begins = Some(cell.token());
                return (PollResult::Yours(Taken { grant, cell }), None);
            }
            Checked::TooLate { unowned, left } => {
                it.queue_state.notifies = true;
                if left {
                    return (PollResult::TooLate, Some(unowned));
                }
                Some(unowned)
            }
            Checked::Wait => None,
        };
        let mut leader_epoch = it.queue_state.become_leader(now);
        if leader_epoch.is_none() && it.queue_state.is_stuck(now, self.stuck_after) {
            unowned = unowned.or(it.client().take_over(now));
            leader_epoch = Some(it.queue_state.new_leader(now));
        }
        (
            leader_epoch.map_or(PollResult::Wait, PollResult::Lead),
            unowned,
        )
    }

    /// Leaves the queue; returns the token that has to be cleaned up if no waiter is left.
    pub(super) fn leave(
        &self,
        queue_key: &QueueKey,
        waiter_id: WaiterId,
        now: Moment,
    ) -> Option<Token> {
        self.at(queue_key, |it| {
            it.queue_state.rejected.remove(&waiter_id);
            it.listen(waiter_id, Waker::noop()); // so that its own is dropped after unlocking
            let unowned = it.client().leave(waiter_id, now);
            it.queue_state.wake_called(); // a pending grant may be the next waiter's now
            it.queue_state.notifies = true;
            unowned
        })
        .flatten()
    }

    pub(super) fn has_waiters(&self, queue_key: &QueueKey) -> bool {
        self.at(queue_key, |it| it.queue_state.queue.has_waiters())
            .unwrap_or(false)
    }

    /// Adds the pool's bounds for hand-offs to what the server granted.
    fn with_handoff_limit(&self, grant: Grant, now: Moment) -> Grant {
        grant.with_handoff_limit(&self.handoff, self.margin, now)
    }

    /// Rejects all waiters, also those that come later; returns the tokens that have to be
    /// cleaned up.
    pub(super) fn close(&self, error: &LockError, now: Moment) -> Vec<Token> {
        self.lock().queues.closed = Some(error.clone());
        let unowned =
            |queue_key: &QueueKey| self.at(queue_key, |it| it.reject(error, now)).flatten();
        self.queue_keys().iter().filter_map(unowned).collect()
    }
}

impl LocalQueues {
    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.shared.lock()
    }

    fn locked<'a>(&self, state: &'a mut ClientState, queue_key: &QueueKey) -> Option<Locked<'a>> {
        let queue_state = state.queues.by_key.get_mut(queue_key)?;
        Some(Locked {
            queue_state,
            tokens: &mut state.tokens,
            command_timeout: self.shared.command_timeout,
            begins: None,
            retired: None,
        })
    }

    /// The cell that tells the attempt's holder about its lease.
    fn cell(&self, spec: &Arc<AcquireSpec>, attempt: Attempt, lease: &Lease) -> Arc<LeaseCell> {
        let SharedClient { home, clock, .. } = *self.shared;
        Arc::new(LeaseCell::new(home, spec, attempt, clock, lease))
    }

    /// For an attempt outside any queue.
    fn alone<'a>(&self, state: &'a mut ClientState) -> Client<'a, QueuedWaiter, Arc<LeaseCell>> {
        Client {
            queue: None,
            tokens: &mut state.tokens,
            command_timeout: self.shared.command_timeout,
        }
    }

    /// Changes a queue, if there is one, under the mutex, and wakes and notifies after unlocking.
    /// Removes the queue if it is idle then.
    pub(super) fn at<T>(
        &self,
        queue_key: &QueueKey,
        change: impl FnOnce(&mut Locked<'_>) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        let mut locked = self.locked(&mut state, queue_key)?;
        let changed = change(&mut locked);
        let Locked {
            queue_state,
            begins,
            retired,
            ..
        } = locked;
        let wakes = std::mem::take(&mut queue_state.wakes);
        let notify = queue_state.take_notify();
        if queue_state.is_idle() {
            state.queues.remove(queue_key);
        }
        let begun = begins.map(|token| self.shared.begins(&mut state, token));
        drop(state);
        if let Some(begun) = begun {
            self.shared.begun(begun);
        }
        if let Some(notify) = notify {
            notify.notify_one();
        }
        wakes.wake();
        drop(retired);
        Some(changed)
    }

    fn queue_keys(&self) -> Vec<QueueKey> {
        self.lock().queues.by_key.keys().cloned().collect()
    }
}
