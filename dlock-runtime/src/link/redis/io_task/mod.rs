//! The task that reads and writes for one connection of the client library.
//!
//! What the library has to send waits until this task runs, behind all tasks that were ready
//! before. Where the server should begin with it sooner, a caller in the same runtime polls the
//! library's I/O in place of the task ([`IoTask::run_now`]). The library wakes the callers that were
//! answered, so a caller's waker that panics does so in here. Invariant: when the task has ended, or
//! its runtime has, the stream is closed, and nobody waits for an answer any more.
//!
//! Never in this folder: a poll that waits for the lock, which another thread may hold while it
//! reads.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

use tokio::task::AbortHandle;

use super::reply_bound::ReplyBound;
use crate::link::command_error::CommandError;
use crate::strangers::spared;
use crate::values::process::Home;

/// The library's I/O: ends with the connection.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Dropping it ends the connection.
pub(crate) struct IoTask {
    shared: Arc<IoShared>,
    task: AbortHandle,
    /// Of the replies that it reads.
    bound: Arc<ReplyBound>,
}

struct IoShared {
    home: Home,
    state: Mutex<IoState>,
    /// A caller has seen the driver end; the task ends when it next runs.
    has_ended: AtomicBool,
}

struct IoState {
    /// `None`: it has ended.
    driver: Option<Driver>,
    /// Wakes the task, for callers who poll in its place; `None` until it has run.
    waker: Option<Waker>,
}

/// How often the driver is polled again after a panic. Each waker that panics has had its answer, so
/// the driver goes on behind it; a stream that panics would do so again and again.
const PANICS_AT_MOST: usize = 64;

impl IoState {
    /// Polls the driver once; it has ended if it panics too often.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(driver) = &mut self.driver else {
            return Poll::Ready(());
        };
        let mut polls = (0..=PANICS_AT_MOST).filter_map(|_| spared(|| driver.as_mut().poll(cx)));
        polls.next().unwrap_or(Poll::Ready(()))
    }

    /// Drops the driver, outside the lock.
    fn end(mut state: MutexGuard<'_, Self>) {
        let driver = state.driver.take();
        drop(state);
        spared(|| drop(driver)); // wakes those who wait
    }
}

impl IoTask {
    /// Starts the task on the current runtime.
    pub(super) fn spawn(
        driver: impl Future<Output = ()> + Send + 'static,
        bound: Arc<ReplyBound>,
    ) -> Self {
        let state = IoState {
            driver: Some(Box::pin(driver)),
            waker: None,
        };
        let shared = Arc::new(IoShared {
            home: Home::here(),
            state: Mutex::new(state),
            has_ended: AtomicBool::new(false),
        });
        let task = tokio::spawn(Task(shared.clone())).abort_handle();
        Self {
            shared,
            task,
            bound,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.shared.has_ended.load(Ordering::Acquire) || self.task.is_finished()
    }

    /// The error of a command that may have had no answer because a reply was too long.
    pub(super) fn explain(&self, error: CommandError) -> CommandError {
        self.bound.explain(error)
    }

    pub(super) fn abort(&self) {
        self.task.abort();
    }

    /// Polls the driver once, with the task's waker: it writes what is to be sent and reads what has
    /// arrived. Does nothing if the task, or another caller, is polling it. Only for callers in the
    /// task's runtime, whose sockets these are. It has what is left of the caller's cooperative
    /// budget, so that a flood of messages ends the poll.
    pub(super) fn run_now(&self) {
        let Ok(mut state) = self.shared.state.try_lock() else {
            return;
        };
        let Some(waker) = state.waker.clone() else {
            return;
        };
        if state.driver.is_none() || state.poll(&mut Context::from_waker(&waker)).is_pending() {
            return;
        }
        self.shared.has_ended.store(true, Ordering::Release);
        IoState::end(state);
        waker.wake();
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

struct Task(Arc<IoShared>);

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.home.is_elsewhere() {
            return Poll::Ready(()); // a forked child, where it may be locked for ever
        }
        let mut state = match self.0.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Another thread polls in its place: once more behind the tasks that are ready.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        match &mut state.waker {
            Some(known) => known.clone_from(cx.waker()), // costs nothing if it is the same
            none => *none = Some(cx.waker().clone()),
        }
        let polled = state.poll(cx);
        if polled.is_ready() {
            IoState::end(state);
        }
        polled
    }
}

/// Also if it is aborted, or its runtime ends: then a caller on another thread may be polling.
impl Drop for Task {
    fn drop(&mut self) {
        if !self.0.home.is_elsewhere() {
            IoState::end(self.0.state.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

#[cfg(test)]
mod tests;
