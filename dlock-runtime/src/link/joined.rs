//! Several futures in one task, polled in turn, and the place behind all tasks that are ready.
//!
//! It makes no tasks. Invariant: every future is polled before anybody waits, so all commands leave
//! at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

/// Waits for all at the same time, polled in turn by one task; their results, in order.
pub(crate) async fn all<F: Future + Unpin>(mut pending: Vec<F>) -> Vec<F::Output> {
    let mut ended: Vec<_> = pending.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, ended) in pending.iter_mut().zip(&mut ended) {
            if ended.is_none()
                && let Poll::Ready(result) = Pin::new(future).poll(cx)
            {
                *ended = Some(result);
            }
        }
        if ended.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    ended.into_iter().flatten().collect()
}

/// Waits for the first that ends, and takes it out. `None`: there is none.
pub(crate) async fn next_of<T, F: Future + ?Sized>(
    pending: &mut Vec<T>,
    mut future: impl FnMut(&mut T) -> Pin<&mut F>,
) -> Option<(T, F::Output)> {
    poll_fn(|cx| {
        let all = pending.iter_mut().enumerate();
        let ended = all
            .into_iter()
            .find_map(|(at, it)| match future(it).poll(cx) {
                Poll::Ready(result) => Some((at, result)),
                Poll::Pending => None,
            });
        match ended {
            Some((at, result)) => Poll::Ready(Some((pending.swap_remove(at), result))),
            None if pending.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    })
    .await
}

/// Runs both futures at the same time; the first one is polled first.
pub(crate) async fn both<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> (A, B) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut one, mut two) = (None, None);
    poll_fn(|cx| {
        if one.is_none()
            && let Poll::Ready(done) = first.as_mut().poll(cx)
        {
            one = Some(done);
        }
        if two.is_none()
            && let Poll::Ready(done) = second.as_mut().poll(cx)
        {
            two = Some(done);
        }
        match (one.take(), two.take()) {
            (Some(one), Some(two)) => Poll::Ready((one, two)),
            unfinished => {
                (one, two) = unfinished;
                Poll::Pending
            }
        }
    })
    .await
}

/// Lets all tasks run that are ready, and keeps the order among those that wait here. With tokio's
/// `yield_now`, which polls for network events first, `fair` waiters would send their acquires in
/// reverse order, and a busy worker would keep the task from all other workers.
pub(crate) async fn yield_to_ready_tasks() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
