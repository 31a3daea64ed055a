//! The task that reads and writes for one connection of the client library.
//!
//! A command waits in the library's pipe until this task runs, behind all tasks that were ready
//! before. Where the server should begin at once, a caller in the task's own runtime does the
//! task's work itself. Invariant: once the task is gone, so are the stream and what waited for
//! answers, whoever still holds an `IoTask`.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::task::{AbortHandle, unconstrained};

use crate::values::process::Home;

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Dropping it ends the connection.
pub(super) struct IoTask {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    home: Home,
    state: Mutex<State>,
}

struct State {
    /// `None`: it has ended.
    driver: Option<Driver>,
    /// The task's; `None` until it has run.
    waker: Option<Waker>,
}

impl IoTask {
    /// Starts the task on the current runtime.
    pub(super) fn spawn(driver: impl Future<Output = ()> + Send + 'static) -> Self {
        let state = State {
            driver: Some(Box::pin(driver)),
            waker: None,
        };
        let shared = Arc::new(Shared {
            home: Home::here(),
            state: Mutex::new(state),
        });
        let task = tokio::spawn(Task(shared.clone())).abort_handle();
        Self { shared, task }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    pub(super) fn abort(&self) {
        self.task.abort();
    }

    /// Writes what is in the pipe and reads what has arrived, unless the task is doing so, and on
    /// behalf of the task: it is woken when there is more to do. Only in the task's own runtime.
    pub(super) fn run_now(&self) {
        let Ok(mut state) = self.shared.state.try_lock() else {
            return;
        };
        let State { driver, waker } = &mut *state;
        let (Some(open), Some(waker)) = (&mut *driver, waker) else {
            return;
        };
        // Unconstrained: it must not use up the budget of the caller's task.
        let driven = Pin::new(&mut unconstrained(open)).poll(&mut Context::from_waker(waker));
        if driven.is_ready() {
            *driver = None;
            waker.wake_by_ref();
        }
    }
}

impl Drop for IoTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for IoTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IoTask")
    }
}

impl Shared {
    /// Not in a forked child, where it may be locked for ever.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Task(Arc<Shared>);

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.home.is_elsewhere() {
            return Poll::Ready(());
        }
        let mut state = self.0.lock();
        match &mut state.waker {
            Some(known) => known.clone_from(cx.waker()), // costs nothing if it is the same
            none => *none = Some(cx.waker().clone()),
        }
        let Some(driver) = &mut state.driver else {
            return Poll::Ready(());
        };
        driver.as_mut().poll(cx)
    }
}

/// Also if it is aborted, or its runtime ends.
impl Drop for Task {
    fn drop(&mut self) {
        if !self.0.home.is_elsewhere() {
            let ended = self.0.lock().driver.take();
            drop(ended); // not under the lock
        }
    }
}

#[cfg(test)]
mod tests;
