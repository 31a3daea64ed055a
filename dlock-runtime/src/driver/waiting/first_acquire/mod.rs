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

use super::leader::{FirstAnswer, Leader};
use crate::driver::local_queues::FirstAttempt;
use crate::driver::locked_future::boxed;
use crate::strangers::CallersWaker;
use crate::values::moment::Moment;

type BoxedAcquire = Pin<Box<dyn Future<Output = FirstAnswer> + Send>>;

pub(super) struct FirstAcquire {
    slot: Mutex<AcquirePlace>,
    /// The runtime in which it began: its timers and its connection belong to that one.
    runtime: Handle,
}

enum AcquirePlace {
    /// With the waker of its last poll; `None`: the queue has that waker, so it is not cloned again.
    Rests(BoxedAcquire, Option<CallersWaker>),
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
            slot: Mutex::new(AcquirePlace::Rests(boxed(|| leader.first(now)), None)),
            runtime: runtime.clone(),
        })
    }

    /// Polled by the first waiter. `Ready(None)`: it has moved to a task of its own.
    /// `has_just_joined`: the queue has the waker of this poll.
    pub(super) fn poll(
        &self,
        cx: &mut Context<'_>,
        has_just_joined: bool,
    ) -> Poll<Option<FirstAnswer>> {
        let AcquirePlace::Rests(mut acquire, waker) = self.replace(AcquirePlace::IsPolled) else {
            *self.slot() = AcquirePlace::Gone;
            return Poll::Ready(None);
        };
        if let Poll::Ready(asked) = acquire.as_mut().poll(cx) {
            return Poll::Ready(Some(asked));
        }
        let waker = (!has_just_joined).then(|| {
            let known = waker.filter(|it| it.will_wake(cx.waker()));
            known.unwrap_or_else(|| CallersWaker::of(cx.waker()))
        });
        let mut slot = self.slot();
        if let AcquirePlace::Moves = *slot {
            *slot = AcquirePlace::Gone;
            drop(slot);
            self.run_alone(acquire);
            return Poll::Ready(None);
        }
        *slot = AcquirePlace::Rests(acquire, waker);
        Poll::Pending
    }

    /// No waiter wants it any more: what was sent is cleaned up after.
    pub(super) fn give_up(&self) {
        drop(self.replace(AcquirePlace::Gone));
    }

    /// Leaves the acquire, and the leader that follows it, to a task.
    fn run_alone(&self, acquire: BoxedAcquire) {
        let runtime = self.runtime.clone();
        self.runtime.spawn(async move {
            let (leader, granted) = acquire.await;
            leader.go_on(granted, &runtime);
        });
    }

    fn replace(&self, slot: AcquirePlace) -> AcquirePlace {
        std::mem::replace(&mut *self.slot(), slot)
    }

    fn slot(&self) -> MutexGuard<'_, AcquirePlace> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FirstAttempt for FirstAcquire {
    /// Wakes the waiter, which kept no timer until now.
    fn spawn(&self, sender: Option<CallersWaker>) {
        let mut slot = self.slot();
        match std::mem::replace(&mut *slot, AcquirePlace::Gone) {
            AcquirePlace::Rests(acquire, waker) => {
                drop(slot);
                self.run_alone(acquire);
                waker.or(sender).into_iter().for_each(CallersWaker::wake);
            }
            AcquirePlace::IsPolled | AcquirePlace::Moves => *slot = AcquirePlace::Moves,
            AcquirePlace::Gone => {}
        }
    }
}

impl fmt::Debug for FirstAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstAcquire")
    }
}

#[cfg(test)]
mod tests;
