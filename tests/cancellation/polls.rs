//! A future that is polled k times and dropped, while the runtime moves its I/O in between.
//!
//! It is polled when it is woken, and never else, as `select!` and `timeout` would do.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Where a future is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cut {
    /// After so many polls; 0: never polled.
    pub(crate) polls: usize,
    pub(crate) when: When,
}

/// Two moments between one poll and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    /// As soon as the poll has returned: whatever it sent is under way.
    AtOnce,
    /// When it was woken and should be polled: what it waited for is there, and nobody has looked.
    Woken,
}

/// No future here needs more polls than this.
const ENDLESS: usize = 1000;

/// Drops the future that `make` returns at every poll, until it gets to its end; tells `check` of each, with its output in the end.
pub(crate) async fn at_every_poll<T>(
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

/// The output of `future`, or `None` if it was dropped before.
pub(crate) async fn dropped_at<F: Future>(cut: Cut, future: F) -> Option<F::Output> {
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
