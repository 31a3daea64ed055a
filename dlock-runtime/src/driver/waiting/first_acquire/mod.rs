//! The first acquire for a key, which the first waiter sends from its own poll until another waiter
//! joins: so a free lock costs no task. A future that is polled once and never again must not delay
//! the waiters behind it.
//!
//! Never in this folder: a command (`leader` sends it). Invariant: as soon as two waiters are in
//! the queue, it runs in a task of its own. For that, a waiter that joins moves it there; if it is
//! being polled at that moment, the waiter that polls it does so afterwards.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use super::leader::{EndedAcquire, Leader};
use crate::driver::locked_future::boxed;
use crate::values::moment::Moment;

type BoxedAcquire = Pin<Box<dyn Future<Output = EndedAcquire> + Send>>;

pub(in crate::driver) struct FirstAcquire {
    slot: Mutex<AcquirePlace>,
    /// The runtime in which it began: its timers and its connection belong to that one.
    runtime: Handle,
}

enum AcquirePlace {
    Rests(BoxedAcquire),
    /// Or has ended while it was polled.
    IsPolled,
    /// It is being polled, and then moves to a task of its own.
    Moves,
    /// It has moved to a task of its own, or was given up.
    Gone,
}

impl FirstAcquire {
    /// For the waiter that made this leader.
    pub(super) fn new(leader: Leader, now: Moment, runtime: &Handle) -> Arc<Self> {
        Arc::new(Self {
            slot: Mutex::new(AcquirePlace::Rests(boxed(|| leader.ask(None, now)))),
            runtime: runtime.clone(),
        })
    }

    /// How large its future is.
    #[cfg(test)]
    pub(in crate::driver) fn size(leader: Leader, now: Moment) -> usize {
        size_of_val(&leader.ask(None, now))
    }

    /// One that has moved, for a machine without tasks.
    #[cfg(test)]
    pub(in crate::driver) fn gone(runtime: &Handle) -> Self {
        Self {
            slot: Mutex::new(AcquirePlace::Gone),
            runtime: runtime.clone(),
        }
    }

    /// Polled by the first waiter. `Ready`: it has ended as `asked` says then; or, if that is `None`,
    /// it has moved to a task of its own.
    pub(super) fn poll(&self, cx: &mut Context<'_>, asked: &mut Option<EndedAcquire>) -> Poll<()> {
        let AcquirePlace::Rests(mut acquire) = self.replace(AcquirePlace::IsPolled) else {
            *self.slot() = AcquirePlace::Gone;
            return Poll::Ready(());
        };
        if let Poll::Ready(ended) = acquire.as_mut().poll(cx) {
            *asked = Some(ended);
            return Poll::Ready(());
        }
        let mut slot = self.slot();
        if let AcquirePlace::Moves = *slot {
            *slot = AcquirePlace::Gone;
            drop(slot);
            self.run_alone(acquire);
            return Poll::Ready(());
        }
        *slot = AcquirePlace::Rests(acquire);
        Poll::Pending
    }

    /// Moves it to a task of its own, so that a waiter that is not polled delays nobody. If it is
    /// being polled, that happens afterwards.
    pub(super) fn spawn(&self) {
        let mut slot = self.slot();
        match std::mem::replace(&mut *slot, AcquirePlace::Gone) {
            AcquirePlace::Rests(acquire) => {
                drop(slot);
                self.run_alone(acquire);
            }
            AcquirePlace::IsPolled | AcquirePlace::Moves => *slot = AcquirePlace::Moves,
            AcquirePlace::Gone => {}
        }
    }

    /// No waiter wants it any more: what was sent is cleaned up after.
    pub(super) fn give_up(&self) {
        drop(self.replace(AcquirePlace::Gone));
    }

    /// Leaves the acquire, and the leader that follows it, to a task.
    fn run_alone(&self, acquire: BoxedAcquire) {
        self.runtime.spawn(async { acquire.await.go_on().await });
    }

    fn replace(&self, slot: AcquirePlace) -> AcquirePlace {
        std::mem::replace(&mut *self.slot(), slot)
    }

    fn slot(&self) -> MutexGuard<'_, AcquirePlace> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FirstAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstAcquire")
    }
}

#[cfg(test)]
mod tests;
