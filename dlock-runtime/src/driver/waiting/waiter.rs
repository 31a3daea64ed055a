//! One waiter in a local queue, from when it joins until it has the lock or stops waiting.
//!
//! It decides nothing: `local_queues` tells it whether it has the lock, or has to start a leader.
//! Invariant: a waiter that is dropped leaves the queue; an acquire that was sent for it goes on
//! for the waiters behind it, or is cleaned up after.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::first_acquire::FirstAcquire;
use super::leader::{FirstAnswer, Leader};
use crate::client::local_queue::WaiterId;
use crate::client::spec::AcquireSpec;
use crate::driver::core::Core;
use crate::driver::local_queues::{FirstAttempt as _, Joined, PollResult, Taken};
use crate::observe;
use crate::values::error::LockError;
use crate::values::moment::Moment;

pub(in crate::driver) struct Waiter<'a> {
    core: &'a Arc<Core>,
    spec: &'a Arc<AcquireSpec>,
    id: WaiterId,
    /// The runtime in which it began to wait.
    runtime: &'a Handle,
    /// The first acquire, while this waiter sends it.
    own: Option<Arc<FirstAcquire>>,
    /// It sends the first acquire, and has not been polled since it joined.
    has_just_joined: bool,
    /// The waiter has left the queue. Its id may belong to another waiter by now: an idle queue
    /// state is dropped, and the next one for the key counts from 1 again.
    done: bool,
}

impl<'a> Waiter<'a> {
    /// Joins the queue. The waker is that of the first poll, which follows at once.
    pub(in crate::driver) fn new(
        core: &'a Arc<Core>,
        spec: &'a Arc<AcquireSpec>,
        runtime: &'a Handle,
        now: Moment,
        waker: &Waker,
    ) -> Self {
        let leader = |epoch| Leader::new(core.clone(), spec.clone(), epoch);
        let mut own = None;
        let Joined {
            waiter_id,
            leader_epoch,
            first_acquire,
        } = core
            .local_queues()
            .enter(spec.clone(), now, waker, |leader_epoch| {
                let acquire = FirstAcquire::new(leader(leader_epoch), now, runtime);
                own.insert(acquire).clone()
            });
        if let Some(leader_epoch) = leader_epoch {
            leader(leader_epoch).go_on(None, runtime);
        }
        if let Some((acquire, sender)) = first_acquire {
            acquire.spawn(sender);
        }
        Self {
            core,
            spec,
            id: waiter_id,
            runtime,
            has_just_joined: own.is_some(),
            own,
            done: false,
        }
    }

    /// The lock, once it is this waiter's turn; `None` if the grant came too late for its ttl, and
    /// it may queue again behind the others. After `Ready` the waiter has left the queue, and must
    /// not be polled again.
    pub(in crate::driver) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
    ) -> Poll<Result<Option<Taken>, LockError>> {
        let mut asked = None;
        let has_just_joined = std::mem::take(&mut self.has_just_joined);
        if let Some(acquire) = &self.own {
            match acquire.poll(cx, has_just_joined) {
                Poll::Ready(has_done) => (self.own, asked) = (None, has_done),
                // The queue knows its waker, and wakes it if anything changes.
                Poll::Pending if has_just_joined => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        self.check(cx, now, asked)
    }

    /// Whether it sends the first acquire itself. It is woken if that moves to a task of its own;
    /// until then there is no leader to watch.
    pub(in crate::driver) fn sends_itself(&self) -> bool {
        self.own.is_some()
    }

    /// Logs that it has waited for so long.
    pub(in crate::driver) fn is_slow(&self, waited: Duration) {
        let AcquireSpec {
            queue_key,
            key,
            site,
            ..
        } = &**self.spec;
        let queues = self.core.local_queues();
        let holder = queues.at(queue_key, |it| it.queue_state.holder.clone());
        let holder = holder.flatten();
        observe::slow_acquire(key.parts(), &site.name(), waited, holder.as_deref());
    }

    /// `asked`: the leader that has sent the first acquire, and been answered.
    fn check(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        asked: Option<FirstAnswer>,
    ) -> Poll<Result<Option<Taken>, LockError>> {
        let core = self.core;
        let (leader, answered) = asked
            .map(|(mut leader, granted)| {
                let answered = leader.answered(granted);
                (leader, answered)
            })
            .unzip();
        let (poll_result, side_effects) =
            (core.local_queues()).check(self.spec, self.id, now, cx.waker(), answered);
        for unowned in side_effects.unowned {
            core.hand_to_watchdog(unowned);
        }
        match leader {
            Some(leader) if side_effects.is_dismissed => leader.dismiss(),
            Some(leader) => leader.go_on(None, self.runtime),
            None => {}
        }
        match poll_result {
            PollResult::Wait => Poll::Pending,
            PollResult::Lead(leader_epoch) => {
                let here = Handle::try_current();
                let here = here.as_ref().unwrap_or(self.runtime);
                Leader::new(core.clone(), self.spec.clone(), leader_epoch).go_on(None, here);
                Poll::Pending
            }
            PollResult::Yours(taken) => {
                self.done = true;
                Poll::Ready(Ok(Some(taken)))
            }
            PollResult::TooLate => {
                self.done = true;
                Poll::Ready(Ok(None))
            }
            PollResult::Rejected(error) => {
                self.done = true;
                Poll::Ready(Err(error))
            }
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.done && self.own.is_none() {
            return;
        }
        if self.core.is_inherited() {
            std::mem::forget(self.own.take());
            return;
        }
        let queue_key = &self.spec.queue_key;
        if !self.done {
            let now = self.core.now();
            self.core
                .hand_to_watchdog(self.core.local_queues().leave(queue_key, self.id, now));
        }
        // Waiters that came meanwhile inherit the acquire that is on its way.
        if let Some(acquire) = self.own.take() {
            if self.core.local_queues().has_waiters(queue_key) {
                acquire.spawn(None);
            } else {
                acquire.give_up();
            }
        }
    }
}
