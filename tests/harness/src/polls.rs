//! A future that is polled k times and then dropped, while the runtime does its I/O between polls.
//!
//! It is polled only when it was woken, as under `select!` or `timeout`.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Where a future is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(clippy::exhaustive_structs, reason = "tests build it")]
pub struct Cut {
    /// After this many polls; 0: never polled.
    pub polls: usize,
    /// In which moment after it.
    pub when: When,
}

/// Two moments between one poll and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(clippy::exhaustive_enums, reason = "tests match it")]
pub enum When {
    /// As soon as the poll has returned: what it sent is under way.
    AtOnce,
    /// When it was woken and should be polled again: what it waits for has arrived, and is unread.
    Woken,
}

/// No future here needs more polls than this.
const ENDLESS: usize = 1000;

/// Drops the future that `make` returns at every poll, until it runs to its end; calls `check` each
/// time, at the end with its output.
pub async fn at_every_poll<T>(
    mut make: impl AsyncFnMut(Cut) -> T,
    mut check: impl AsyncFnMut(Cut, Option<T>),
) {
    for when in [When::AtOnce, When::Woken] {
        let mut polls = 0;
        loop {
            let cut = Cut { polls, when };
            let output = dropped_at(cut, make(cut)).await;
            let ended = output.is_some();
            check(cut, output).await;
            if ended {
                break;
            }
            polls += 1;
            assert!(polls < ENDLESS, "it never ends");
        }
    }
}

/// The output of `future`, or `None` if it was dropped before its end.
pub async fn dropped_at<F: Future>(cut: Cut, future: F) -> Option<F::Output> {
    let future = Some(Box::pin(future));
    Dropped {
        future,
        cut,
        polls: 0,
    }
    .await
}

struct Dropped<F> {
    future: Option<Pin<Box<F>>>,
    cut: Cut,
    polls: usize,
}

impl<F: Future> Future for Dropped<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(future) = this.future.as_mut().filter(|_| this.polls < this.cut.polls) else {
            this.future = None;
            return Poll::Ready(None);
        };
        this.polls += 1;
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        if this.polls == this.cut.polls && this.cut.when == When::AtOnce {
            this.future = None;
            return Poll::Ready(None);
        }
        Poll::Pending
    }
}
