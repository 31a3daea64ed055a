//! The first acquire for a key, which the first waiter sends from its own poll until another waiter
//! joins: so a free lock costs no task. A future that is polled once and never again must not delay
//! the waiters behind it.
//!
//! It sends nothing itself (`leader` does). Invariant: as soon as two waiters are in the queue, it
//! runs in a task of its own. For that, a waiter that joins looks here after it has joined, and the
//! waiter that sends checks the queue after it has put the acquire back.

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
    /// With the waker of its last poll. Empty while it is being polled, and once it has moved to a
    /// task of its own.
    acquire: Mutex<Option<(Acquire, Option<Waker>)>>,
    /// The runtime in which it began: its timers and its connection belong to that one.
    runtime: Handle,
}

impl FirstAcquire {
    pub(super) fn new(leader: Leader, now: Moment, runtime: &Handle) -> Arc<Self> {
        Arc::new(Self {
            acquire: Mutex::new(Some((Box::pin(leader.first(now)), None))),
            runtime: runtime.clone(),
        })
    }

    /// Polled by the first waiter. `Ready(None)`: it has moved to a task of its own.
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

    /// No waiter wants it any more: what was sent is cleaned up after.
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
    /// Moves the acquire, and the leader that follows it, to a task. Wakes the waiter, which kept
    /// no timer until now.
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
        f.write_str("FirstAcquire")
    }
}
