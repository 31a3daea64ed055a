//! One local queue, and what stands around it: who sends its commands, the wakers of its waiters,
//! and why some of them were refused.
//!
//! It decides nothing by itself; `waiting`, `leading` and `answers` do. Invariants: a waker is kept
//! until it is called once, and called in [`ClientActions`]; while somebody
//! waits, there is a sender, or all waiters were woken.

use std::collections::BTreeMap;

use super::answers::AcquireRefusal;
use super::host::{ClientActions, ClientHost, ClientWaker, ForLog, WakerSource};
use super::local_queue::{Grant, LocalQueue, WaiterId};
use super::retry::{Retries, Spread};
use crate::values::moment::Moment;
use crate::values::token::Token;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueState<H: ClientHost> {
    pub(crate) queue: LocalQueue<QueuedWaiter<H::Request, H::Waker>>,
    /// Why waiters were refused, until they read it.
    pub(crate) refused: BTreeMap<WaiterId, AcquireRefusal<H::Error>>,
    pub(super) sender: QueueSender<H::Flight, H::Waker>,
    /// Made when they are first needed: most locks are free.
    pub(super) retries: Option<Box<Retries>>,
    /// When and how the last command for it failed, unless another was answered since.
    pub(super) failed: ForLog<Option<LastFailure<H::Error>>>,
    /// Who the server last said holds the lock; the host keeps it where slow calls are logged.
    pub(crate) shown: ForLog<Option<String>>,
    /// The token of the last acquire, if the queue is not shared: `QueueTable` finds the queue by
    /// it.
    pub(super) last_token: Option<Token>,
}

/// Who sends the commands of a queue: its only waiter, from its own poll, as long as it has the
/// flight, and a task (the leader) otherwise. Nobody, if the queue has no leader. The flight of a
/// leader that was replaced stays until the next waiter comes; it sends nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueSender<F, W> {
    /// The current one's number; one with another number has nothing to do any more.
    pub(super) epoch: LeaderEpoch,
    /// Without another sign of life it counts as stuck from then on.
    pub(super) stuck_at: Moment,
    /// The acquire that the only waiter sends.
    pub(super) flight: Option<F>,
    /// Wakes the leader's task, while it sleeps.
    pub(super) waker: Option<W>,
}

/// A waiter in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueuedWaiter<R, W> {
    pub(crate) request: R,
    /// `None`: it was woken, and has not looked since.
    pub(super) waker: Option<W>,
}

type LastFailure<E> = Box<(Moment, AcquireRefusal<E>)>;

/// A leader's number.
pub(crate) type LeaderEpoch = u64;

impl<H: ClientHost> Default for QueueState<H> {
    fn default() -> Self {
        Self {
            queue: LocalQueue::default(),
            refused: BTreeMap::new(),
            sender: QueueSender {
                epoch: 0,
                stuck_at: Moment::NEVER,
                flight: None,
                waker: None,
            },
            retries: None,
            failed: ForLog(None),
            shown: ForLog(None),
            last_token: None,
        }
    }
}

impl<R, W: ClientWaker> QueuedWaiter<R, W> {
    pub(super) fn new(request: R, waker: &W::Source) -> Self {
        Self {
            request,
            waker: Some(W::of(waker)),
        }
    }

    pub(super) fn into_waker(self) -> Option<W> {
        self.waker
    }
}

impl<H: ClientHost> QueueState<H> {
    /// Whether nothing is to be kept for anybody.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.refused.is_empty()
    }

    /// As [`is_idle`](Self::is_idle); also true if all it knows is a held lock that can't be handed
    /// on any more.
    pub(super) fn is_idle_at(&self, now: Moment) -> bool {
        self.queue.is_idle_at(now) && self.refused.is_empty()
    }

    pub(super) fn retries(&mut self, spread: Spread) -> &mut Retries {
        let epoch = self.sender.epoch;
        let new = || Box::new(Retries::new(spread.jitter(epoch)));
        self.retries.get_or_insert_with(new)
    }

    /// The server answers, and the key is as it should be.
    pub(super) fn succeeded(&mut self) {
        self.failed.0 = None;
        if let Some(retries) = &mut self.retries {
            retries.succeeded();
        }
    }

    /// Ends the hand-off chain if the held lease does not suit the next waiter.
    pub(super) fn check_chain(&mut self, now: Moment) {
        self.queue.end_chain_unless(suits::<H>(now));
    }
}

/// Whether a waiter can use a grant.
pub(super) fn suits<H: ClientHost>(
    now: Moment,
) -> impl Fn(&QueuedWaiter<H::Request, H::Waker>, &Grant) -> bool {
    move |waiter, grant| H::suits(&waiter.request, grant, now)
}

/// Wakers.
impl<H: ClientHost> QueueState<H> {
    /// From here on this waiter is woken by this waker.
    pub(super) fn listen(
        &mut self,
        waiter_id: WaiterId,
        waker: &WakerSource<H>,
        out: &mut ClientActions<H>,
    ) {
        if let Some(waiter) = self.queue.waiter(waiter_id)
            && !(waiter.waker.as_ref()).is_some_and(|it| it.will_wake(waker))
        {
            out.retired = waiter.waker.replace(H::Waker::of(waker));
        }
    }

    /// Its waker is dropped after unlocking.
    pub(super) fn retire(&mut self, waiter_id: WaiterId, out: &mut ClientActions<H>) {
        if let Some(waiter) = self.queue.waiter(waiter_id) {
            out.retired = waiter.waker.take();
        }
    }

    /// The waker of the waiter that sends the first acquire.
    pub(super) fn take_first_waker(&mut self) -> Option<H::Waker> {
        self.queue.waiters_mut().next()?.waker.take()
    }

    pub(super) fn wake_called(&mut self, out: &mut ClientActions<H>) {
        if let Some(waker) = self.queue.called_mut().and_then(|it| it.waker.take()) {
            out.wake(waker);
        }
    }

    pub(super) fn wake_all(&mut self, out: &mut ClientActions<H>) {
        let wakers = self.queue.waiters_mut().filter_map(|it| it.waker.take());
        wakers.for_each(|waker| out.wake(waker));
    }

    /// Wakes the leader's task, if it sleeps.
    pub(super) fn wake_leader(&mut self, out: &mut ClientActions<H>) {
        if let Some(waker) = self.sender.waker.take() {
            out.wake(waker);
        }
    }
}
