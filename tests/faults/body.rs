//! The bodies that run under a lock in these tests: they record how they were polled.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use dlock_runtime::{LockError, LostCause, Refusal, current};

/// On a busy machine the thread may stop for this long between the runtime's check of the deadline
/// and ours.
const PREEMPTED: Duration = Duration::from_millis(25);

/// How a body was polled.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    all: AtomicU64,
    late: AtomicU64,
}

impl Polls {
    pub(crate) fn all(&self) -> u64 {
        self.all.load(Ordering::SeqCst)
    }

    /// How many polls began after the deadline that the lease had then.
    pub(crate) fn late(&self) -> u64 {
        self.late.load(Ordering::SeqCst)
    }
}

/// A body that counts its polls, and those among them that should not have begun.
pub(crate) struct Watched<F> {
    body: Pin<Box<F>>,
    polls: Arc<Polls>,
    /// The lease's deadline when it was last held.
    deadline: Option<Instant>,
}

impl<F> Watched<F> {
    pub(crate) fn new(polls: &Arc<Polls>, body: F) -> Self {
        Self {
            body: Box::pin(body),
            polls: polls.clone(),
            deadline: None,
        }
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let (now, left) = (
            Instant::now(),
            current().expect("a body runs under a lock").remaining(),
        );
        self.polls.all.fetch_add(1, Ordering::SeqCst);
        if !left.is_zero() {
            self.deadline = Some(now + left);
        } else if self
            .deadline
            .is_none_or(|deadline| now > deadline + PREEMPTED)
        {
            self.polls.late.fetch_add(1, Ordering::SeqCst);
        }
        self.body.as_mut().poll(cx)
    }
}

/// Never ends, and asks to be polled all the time.
pub(crate) async fn tick() {
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Why a call lost its lock, and whether its body had run to its end.
pub(crate) fn lost<T: std::fmt::Debug>(result: Result<T, LockError>) -> (LostCause, bool) {
    match result {
        Err(LockError::Lost {
            cause, finished, ..
        }) => (cause, finished),
        other => panic!("expected a lost lock, not {other:?}"),
    }
}

/// Why a server refused a call.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, LockError>) -> Refusal {
    match result {
        Err(LockError::Refused { reason, .. }) => reason,
        other => panic!("expected a refusal, not {other:?}"),
    }
}
