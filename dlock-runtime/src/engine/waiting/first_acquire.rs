//! The first acquire for a key: sent by whoever is first in line, so that a lock that is free costs
//! no task, until somebody comes behind. A future that was polled once and then never again must
//! not stop those.
//!
//! Invariant: as soon as two are in line, it runs in a task of its own: who comes looks here after
//! taking a seat, and who sends looks for the line after putting it back.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

use super::leader::Leader;
use crate::engine::local_queues::FirstAttempt;
use crate::values::moment::Moment;

type Acquire = Pin<Box<dyn Future<Output = Leader> + Send>>;

pub(super) struct FirstAcquire {
    /// With the waker that it was last polled with. Empty while it is polled, and when it has gone
    /// to a task of its own.
    acquire: Mutex<Option<(Acquire, Option<Waker>)>>,
    /// Where it began: its timers and its connection are this one's.
    runtime: Handle,
}

impl FirstAcquire {
    pub(super) fn new(leader: Leader, now: Moment, runtime: &Handle) -> Arc<Self> {
        Arc::new(Self {
            acquire: Mutex::new(Some((Box::pin(leader.first(now)), None))),
            runtime: runtime.clone(),
        })
    }

    /// By whoever is first. `Ready(None)`: a task of its own has it, or had it.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Leader>> {
        let Some((mut acquire, waker)) = self.take() else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(leader) = acquire.as_mut().poll(cx) {
            return Poll::Ready(Some(leader));
        }
        let known = waker.filter(|it| it.will_wake(cx.waker()));
        let waker = known.unwrap_or_else(|| cx.waker().clone());
        *self.slot() = Some((acquire, Some(waker)));
        Poll::Pending
    }

    /// Nobody wants it any more: what was sent is cleaned up after.
    pub(super) fn give_up(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<(Acquire, Option<Waker>)> {
        self.slot().take()
    }

    fn slot(&self) -> MutexGuard<'_, Option<(Acquire, Option<Waker>)>> {
        self.acquire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FirstAttempt for FirstAcquire {
    /// And the driver after it. Its waiter is woken, for it has kept no time until now.
    fn spawn(&self) {
        if let Some((acquire, waker)) = self.take() {
            let runtime = self.runtime.clone();
            self.runtime
                .spawn(async move { acquire.await.go_on(&runtime) });
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl fmt::Debug for FirstAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstAsk")
    }
}
