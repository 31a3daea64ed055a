//! One waiter in a local queue, from when it joins until it has the lock or stops waiting.
//!
//! It decides nothing: the machine tells it whether it has the lock, or has to start a leader.
//! Invariant: a waiter that is dropped leaves the queue, *then* drops its acquire; an acquire that
//! was sent for it goes on for the waiters behind it, or is cleaned up after.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::first_acquire::FirstAcquire;
use super::leader::{EndedAcquire, Leader};
use crate::backend::command_error::CommandError;
use crate::client::local_queue::{Grant, WaiterId};
use crate::client::spec::AcquireSpec;
use crate::client::{JoinedQueue, LeaderEpoch, LookReply, Looked, ReadAnswer};
use crate::driver::attempt;
use crate::driver::core::Core;
use crate::driver::lease_cell::LeaseCell;
use crate::driver::shared::EngineHost;
use crate::observe;
use crate::strangers::CallersWaker;
use crate::values::error::LockError;
use crate::values::moment::Moment;

/// A lock that was taken.
#[derive(Debug)]
pub(in crate::driver) struct Taken {
    pub(in crate::driver) grant: Grant,
    /// Under which token, and whether it still counts.
    pub(in crate::driver) cell: Arc<LeaseCell>,
}

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
    /// As the machine said when it last looked: under one mutex with the waker that it left there.
    sends_itself: bool,
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
        let first = |leader_epoch| {
            let acquire = FirstAcquire::new(leader(leader_epoch), now, runtime);
            own.insert(acquire).clone()
        };
        let JoinedQueue {
            waiter_id,
            lead,
            moved,
        } = core.tell(now, |client, at| {
            client.enter(&spec.queue_key, spec.clone(), waker, at, first)
        });
        if let Some(leader_epoch) = lead {
            leader(leader_epoch).start(runtime);
        }
        if let Some((acquire, sender)) = moved {
            acquire.spawn();
            sender.into_iter().for_each(CallersWaker::wake); // it kept no timer until now
        }
        Self {
            core,
            spec,
            id: waiter_id,
            runtime,
            has_just_joined: own.is_some(),
            sends_itself: own.is_some(),
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
            match acquire.poll(cx, &mut asked) {
                Poll::Ready(()) => self.own = None,
                // The queue knows its waker, and wakes it if anything changes.
                Poll::Pending if has_just_joined => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        let looked = self.look(cx, now, asked);
        self.done = !matches!(looked, Looked::Wait);
        match looked {
            Looked::Wait => Poll::Pending,
            Looked::Yours(grant, cell) => Poll::Ready(Ok(Some(Taken { grant, cell }))),
            Looked::TooLate => Poll::Ready(Ok(None)),
            Looked::Refused(why) => Poll::Ready(Err(attempt::refusal(self.core, self.spec, why))),
        }
    }

    /// Whether it sends the first acquire itself. It is woken if that moves to a task of its own;
    /// until then there is no leader to watch.
    pub(in crate::driver) fn sends_itself(&self) -> bool {
        self.sends_itself
    }

    /// Logs that it has waited for so long.
    pub(in crate::driver) fn is_slow(&self, waited: Duration) {
        let AcquireSpec {
            queue_key,
            key,
            site,
            ..
        } = &**self.spec;
        let holder = self.core.tell(self.core.now(), |client, at| {
            client.at(queue_key, at, |it| it.state.shown.0.clone())
        });
        let holder = holder.flatten();
        observe::slow_acquire(key.parts(), &site.name(), waited, holder.as_deref());
    }

    /// `asked`: how the first acquire ended, which it has sent.
    fn look(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        asked: Option<EndedAcquire>,
    ) -> Looked<EngineHost> {
        let look = |read: Option<ReadAnswer<'_, CommandError>>| {
            let (spec, of) = (self.spec, (self.id, cx.waker()));
            (self.core).tell(now, |client, at| {
                client.look(&spec.queue_key, spec, of, read, at)
            })
        };
        let Some(mut asked) = asked else {
            let LookReply {
                looked,
                lead,
                sends_itself,
                ..
            } = look(None);
            self.sends_itself = sends_itself && self.own.is_some();
            self.lead(lead);
            return looked;
        };
        self.sends_itself = false;
        let (looked, lead) = asked.told_by_waiter(now, |read| look(Some(read)));
        if asked.is_led_on() {
            asked.lead_on(self.runtime);
        }
        self.lead(lead);
        looked
    }

    /// Starts this leader.
    fn lead(&self, lead: Option<LeaderEpoch>) {
        if let Some(leader_epoch) = lead {
            let here = Handle::try_current();
            let here = here.as_ref().unwrap_or(self.runtime);
            Leader::new(self.core.clone(), self.spec.clone(), leader_epoch).start(here);
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
        let others_wait = if self.done {
            (self.core).ask(|client| client.has_waiters(queue_key))
        } else {
            let now = self.core.now();
            (self.core).tell(now, |client, at| client.leave(queue_key, self.id, at))
        };
        // Waiters that came meanwhile inherit the acquire that is on its way.
        if let Some(acquire) = self.own.take() {
            if others_wait {
                acquire.spawn();
            } else {
                acquire.give_up();
            }
        }
    }
}
