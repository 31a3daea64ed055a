//! Those of this process who wait for a lock: one queue for each key, or for each waiter that needs
//! an entry of its own at the server.
//!
//! `queue_key` says which queue somebody waits in, `queue_state` is a queue and its surroundings,
//! `keys` has all of them. What waiters do is here, `attempts` is what is sent for them and
//! answered, `holders` how a lock goes on from one who has it. `policy::client` decides; here that
//! happens under the lock of `shared`, and what follows (wakers, notifications, the watchdog) is
//! done when the lock is open again.
//!
//! Never in this folder: a command that is sent (`waiting` does), a decision about a lock.

mod attempts;
mod holders;
pub(super) mod queue_key;
mod queue_state;
pub(super) mod queue_table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::lease_cell::LeaseCell;
use super::shared::{Shared, State};
use super::spec::AcquireSpec;
use crate::policy::client::{Client, Looked, Settled};
use crate::policy::lease::Lease;
use crate::policy::local_queue::{Attempt, Grant, WaiterId};
use crate::sync::MutexGuard;
use crate::values::error::LockError;
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

use self::queue_key::QueueKey;
use self::queue_state::QueuedWaiter;
pub(super) use self::queue_state::{FirstAttempt, LeaderEpoch, Locked};

/// The local queues of a pool.
#[derive(Debug)]
pub(super) struct LocalQueues {
    shared: Arc<Shared>,
    /// A driver that was not heard of for so long is stuck: nobody runs its runtime.
    stuck_after: Duration,
    handoff: Handoff,
    margin: Margin,
}

/// A seat that was taken.
pub(super) struct Joined {
    pub(super) waiter_id: WaiterId,
    /// Whoever took it has to drive.
    pub(super) leader_epoch: Option<LeaderEpoch>,
    /// Somebody in front sends the first acquire, and may not be polled while this one waits.
    pub(super) first_acquire: Option<Arc<dyn FirstAttempt>>,
}

/// A lock that was taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) attempt: Attempt,
    pub(super) grant: Grant,
    pub(super) cell: Arc<LeaseCell>,
}

/// What a waiter finds when it looks.
pub(super) enum PollResult {
    Wait,
    /// Somebody has to drive: this one.
    Drive(LeaderEpoch),
    Yours(Taken),
    /// It was its turn, but too late for its own ttl: it has left the queue, and may come again.
    TooLate,
    SentAway(LockError),
}

/// The first acquire was answered, and the waiter who sent it has read that.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    /// Who sent it: has done what it was for, and may be dismissed.
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) granted: Option<(Token, Grant)>,
}

/// What else a look tells.
#[derive(Default)]
pub(super) struct SideEffects {
    /// Tokens that are being cleaned up after.
    pub(super) unowned: [Option<Token>; 2],
    /// Somebody waits behind the first.
    pub(super) is_contended: bool,
    /// Who sent the first acquire has nothing to do any more.
    pub(super) is_dismissed: bool,
}

/// What waiters do.
impl LocalQueues {
    /// `one_step`: what a driver may take for one command, connecting included.
    pub(super) fn new(
        shared: Arc<Shared>,
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

    pub(super) fn enter(&self, spec: Arc<AcquireSpec>, now: Moment) -> Joined {
        let mut state = self.lock();
        let closed = state.queues.closed.clone();
        let queue_key = &spec.queue_key;
        let queue_state = state.queues.at(queue_key, now);
        let nobody_waits = !queue_state.queue.is_waited_at();
        let nobody_responds = !nobody_waits && queue_state.queue.first().is_none();
        let might_be_handed_on = queue_state.queue.may_be_handed_on(now);
        // The driver may still sleep until the end of a row of hand-offs whose lock has been
        // released since.
        let leader_may_acquire =
            nobody_waits && queue_state.queue.may_acquire() && !might_be_handed_on;
        let waiter_id = queue_state.queue.enter(QueuedWaiter::new(spec));
        queue_state.check_chain(now);
        let chain_ends = might_be_handed_on && !queue_state.queue.may_be_handed_on(now);
        if let Some(error) = closed {
            queue_state.queue.leave(waiter_id); // alone: those before it have been sent away by whoever closed
            queue_state.sent_away.insert(waiter_id, error);
        }
        let leader_epoch = queue_state.become_leader(now);
        let first_acquire = queue_state.first_acquire.clone();
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

    /// What the first in line sends, for those who come to take over.
    pub(super) fn first_acquire_goes_out(
        &self,
        queue_key: &QueueKey,
        acquire: Arc<dyn FirstAttempt>,
    ) {
        self.at(queue_key, |it| it.queue_state.first_acquire = Some(acquire));
    }

    /// `answered`: what this waiter has read.
    pub(super) fn look(
        &self,
        spec: &AcquireSpec,
        waiter_id: WaiterId,
        now: Moment,
        waker: &Waker,
        answered: Option<Answered>,
    ) -> (PollResult, SideEffects) {
        let looked = self.at(&spec.queue_key, |it| {
            let granted = answered.and_then(|it| it.granted).map(|(token, grant)| {
                let grant = self.to_be_handed_on(grant, now);
                it.client().granted(token, grant, now)
            });
            let (poll_result, unowned) = self.look_at(it, spec, waiter_id, now, waker);
            if granted == Some(Settled::Taken) && !matches!(poll_result, PollResult::Yours(_)) {
                it.queue_state.wake_called(); // who reads the answer looks anyway
            }
            let is_contended = it.queue_state.queue.waiters().nth(1).is_some();
            let side_effects = SideEffects {
                unowned: [granted.and_then(Settled::unowned), unowned],
                is_contended,
                is_dismissed: answered.is_some_and(|by| it.queue_state.rests(by.leader_epoch)),
            };
            (poll_result, side_effects)
        });
        looked.unwrap_or((PollResult::Wait, SideEffects::default())) // a seat keeps its queue
    }

    fn look_at(
        &self,
        it: &mut Locked<'_>,
        spec: &AcquireSpec,
        waiter_id: WaiterId,
        now: Moment,
        waker: &Waker,
    ) -> (PollResult, Option<Token>) {
        if let Some(error) = it.queue_state.sent_away.remove(&waiter_id) {
            return (PollResult::SentAway(error), None);
        }
        it.queue_state.notifies |= it.queue_state.queue.responds(waiter_id);
        let holder = |attempt: &Attempt, lease: &_| self.cell(attempt, lease);
        let looked = it.client().look(waiter_id, now, &spec.terms, holder);
        let mut unowned = match looked {
            Looked::Yours(attempt, grant, cell) => {
                if spec.terms.bounds.min_hold.is_some() {
                    it.queue_state.queue.end_chain(); // it hands nothing on
                } else {
                    it.queue_state.check_chain(now);
                }
                // The next in line wants a place; and of a grant that was pushed the driver knows
                // nothing.
                it.queue_state.notifies |=
                    grant.chain.index == 0 || !it.queue_state.queue.may_be_handed_on(now);
                it.begins = Some(attempt.token);
                let taken = Taken {
                    attempt,
                    grant,
                    cell,
                };
                return (PollResult::Yours(taken), None);
            }
            Looked::TooLate { unowned, left } => {
                it.queue_state.notifies = true;
                if left {
                    return (PollResult::TooLate, Some(unowned));
                }
                Some(unowned)
            }
            Looked::Wait => None,
        };
        if let Some(waiter) = it.queue_state.queue.waiter(waiter_id) {
            waiter.listen_with(waker);
        }
        let mut leader_epoch = it.queue_state.become_leader(now);
        if leader_epoch.is_none() && it.queue_state.is_stuck(now, self.stuck_after) {
            unowned = unowned.or(it.client().take_over(now));
            leader_epoch = Some(it.queue_state.new_leader(now));
        }
        (
            leader_epoch.map_or(PollResult::Wait, PollResult::Drive),
            unowned,
        )
    }

    /// The token that is being cleaned up after because nobody is left.
    pub(super) fn leave(
        &self,
        queue_key: &QueueKey,
        waiter_id: WaiterId,
        now: Moment,
    ) -> Option<Token> {
        self.at(queue_key, |it| {
            it.queue_state.sent_away.remove(&waiter_id);
            let unowned = it.client().leave(waiter_id, now);
            it.queue_state.wake_called(); // what was offered may be the next one's now
            it.queue_state.notifies = true;
            unowned
        })
        .flatten()
    }

    pub(super) fn is_waited_at(&self, queue_key: &QueueKey) -> bool {
        self.at(queue_key, |it| it.queue_state.queue.is_waited_at())
            .unwrap_or(false)
    }

    /// What the server granted may be handed on within the pool's bounds.
    fn to_be_handed_on(&self, grant: Grant, now: Moment) -> Grant {
        grant.to_be_handed_on(&self.handoff, self.margin, now)
    }

    /// Sends everybody away who waits for anything, or comes later; the tokens that are being
    /// cleaned up after.
    pub(super) fn close(&self, error: &LockError, now: Moment) -> Vec<Token> {
        self.lock().queues.closed = Some(error.clone());
        let unowned =
            |queue_key: &QueueKey| self.at(queue_key, |it| it.send_away(error, now)).flatten();
        self.queue_keys().iter().filter_map(unowned).collect()
    }
}

impl LocalQueues {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    fn locked<'a>(&self, state: &'a mut State, queue_key: &QueueKey) -> Option<Locked<'a>> {
        let queue_state = state.queues.by_key.get_mut(queue_key)?;
        Some(Locked {
            queue_state,
            tokens: &mut state.tokens,
            command_timeout: self.shared.command_timeout,
            begins: None,
        })
    }

    /// What the holder of this position is told of its lease through.
    fn cell(&self, attempt: &Attempt, lease: &Lease) -> Arc<LeaseCell> {
        let key = attempt.claim.key.clone();
        let Shared { home, clock, .. } = *self.shared;
        Arc::new(LeaseCell::new(home, key, clock, lease))
    }

    /// Without a queue.
    fn alone<'a>(&self, state: &'a mut State) -> Client<'a, QueuedWaiter, Arc<LeaseCell>> {
        Client {
            queue: None,
            tokens: &mut state.tokens,
            command_timeout: self.shared.command_timeout,
        }
    }

    /// Does something at a queue, if there is one; one that holds nothing for anybody goes.
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
            ..
        } = locked;
        let wakes = std::mem::take(&mut queue_state.wakes);
        let notify = queue_state.take_notify();
        if queue_state.is_idle() {
            state.queues.remove(queue_key);
        }
        let begun = begins.map(|token| self.shared.begins(&mut state, token));
        drop(state);
        wakes.wake();
        if let Some(begun) = begun {
            self.shared.begun(begun);
        }
        if let Some(notify) = notify {
            notify.notify_one();
        }
        Some(changed)
    }

    fn queue_keys(&self) -> Vec<QueueKey> {
        self.lock().queues.by_key.keys().cloned().collect()
    }
}
