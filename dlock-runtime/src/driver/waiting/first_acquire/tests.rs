//! What becomes of a first acquire when a second waiter joins.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::{AcquirePlace, FirstAcquire};
use crate::driver::local_queues::FirstAttempt as _;
use crate::driver::waiting::leader::Leader;
use crate::engine::pool::LockPool;
use crate::strangers::CallersWaker;

/// When the second waiter joins.
#[derive(Clone, Copy, PartialEq)]
enum Joins {
    WhileItIsPolled,
    Afterwards,
}

/// Polls an acquire once as the first waiter does. It ends once a task of its own polls it.
async fn polled_once(joins: Joins) -> (Arc<FirstAcquire>, Poll<bool>, Arc<Notify>) {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (core, spec) = pool.lock("k").spec().unwrap();
    let itself: Arc<OnceLock<Arc<FirstAcquire>>> = Arc::default();
    let (by_itself, ended) = (itself.clone(), Arc::new(Notify::new()));
    let (mut leader, ends) = (None, ended.clone());
    let mut polls = 0;
    let acquire = poll_fn(move |_| {
        polls += 1;
        if polls == 1 {
            if joins == Joins::WhileItIsPolled {
                by_itself.get().unwrap().spawn(None);
            }
            leader = Some(Leader::new(core.clone(), spec.clone(), 1));
            return Poll::Pending;
        }
        ends.notify_one();
        let ended = leader.take().map(|leader| (leader, None));
        ended.map_or(Poll::Pending, Poll::Ready)
    });
    let first = Arc::new(FirstAcquire {
        slot: Mutex::new(AcquirePlace::Rests(Box::pin(acquire), None)),
        runtime: Handle::current(),
    });
    itself.set(first.clone()).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let polled = first.poll(&mut cx, true).map(|asked| asked.is_some());
    if joins == Joins::Afterwards {
        first.spawn(None);
    }
    (first, polled, ended)
}

#[tokio::test]
async fn it_moves_to_a_task_whenever_the_second_waiter_joins() {
    for (joins, expected) in [
        (Joins::Afterwards, Poll::Pending),
        (Joins::WhileItIsPolled, Poll::Ready(false)),
    ] {
        let (first, polled, ended) = polled_once(joins).await;
        assert_eq!(polled, expected);
        ended.notified().await; // its task has polled it
        yield_now().await;
        let mut cx = Context::from_waker(Waker::noop());
        let again = first.poll(&mut cx, false);
        assert!(matches!(again, Poll::Ready(None)), "it is gone from here");
        first.spawn(None); // a third waiter: nothing is left to move
    }
}

/// Counts how often it wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// It keeps no timer of its own while it sends the acquire.
#[tokio::test]
async fn the_waiter_is_woken_by_the_waker_of_its_last_poll() {
    for polls in [1, 2] {
        let first = FirstAcquire {
            slot: Mutex::new(AcquirePlace::Rests(Box::pin(pending()), None)),
            runtime: Handle::current(),
        };
        let [joined, last] = [0; 2].map(|_| Arc::<Wakes>::default());
        let wakers = [&joined, &last].map(|it| Waker::from(it.clone()));
        for (poll, waker) in wakers.iter().enumerate().take(polls) {
            let polled = first.poll(&mut Context::from_waker(waker), poll == 0);
            assert!(polled.is_pending());
        }
        first.spawn(Some(CallersWaker::of(&wakers[0])));
        let woken = [&joined, &last].map(|it| it.0.load(Ordering::SeqCst));
        assert_eq!(woken, if polls == 1 { [1, 0] } else { [0, 1] });
    }
}
