//! How dlock calls code of the program where a panic would harm others: wakers, listeners, what
//! listens to logs and metrics. Each of them is called through here.
//!
//! It decides nothing. Invariant: such a panic neither unwinds through dlock nor aborts the process
//! because dlock is unwinding already; it harms the call that brought the code along, and no other.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// Calls a stranger's code; `None`: it panicked, and the panic hook has printed that.
pub(crate) fn spared<T>(strangers: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(strangers)) {
        Ok(value) => Some(value),
        Err(panic) => {
            std::mem::forget(panic); // its drop is a stranger's code, too
            None
        }
    }
}

/// A value whose drop is a stranger's code.
#[derive(Debug)]
pub(crate) struct Spared<T>(Option<T>); // an option, because `ManuallyDrop::take` is unsafe

impl<T> Spared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// The caller drops it, or calls it, as `spared`.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Drop for Spared<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            spared(|| drop(value));
        }
    }
}

/// A caller's waker, as dlock keeps it.
#[derive(Debug)]
pub(crate) struct CallersWaker(Spared<Waker>);

impl CallersWaker {
    /// Called in the caller's own poll, or a leader's task, where a panic is its own.
    pub(crate) fn of(waker: &Waker) -> Self {
        Self(Spared::new(waker.clone()))
    }

    pub(crate) fn wake(mut self) {
        if let Some(waker) = self.0.take() {
            spared(|| waker.wake());
        }
    }

    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        self.0.get().is_some_and(|it| it.will_wake(waker))
    }
}

impl Wake for CallersWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        spared(|| self.0.get().map(Waker::wake_by_ref));
    }
}

/// Waits where several calls wait and one task wakes them all: the first waker that panics would
/// leave the others asleep. It allocates with each poll, so it is for what few calls wait for.
pub(crate) async fn beside_others<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let waker = Waker::from(Arc::new(CallersWaker::of(cx.waker())));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}
