//! What becomes of a first acquire when a second waiter joins.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::{AcquirePlace, FirstAcquire};
use crate::driver::pool::LockPool;
use crate::driver::waiting::leader::{EndedAcquire, Leader};

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
                by_itself.get().unwrap().spawn();
            }
            leader = Some(Leader::new(core.clone(), spec.clone(), 1));
            return Poll::Pending;
        }
        ends.notify_one();
        let ended = leader.take().map(EndedAcquire::unsent);
        ended.map_or(Poll::Pending, Poll::Ready)
    });
    let first = Arc::new(FirstAcquire {
        slot: Mutex::new(AcquirePlace::Rests(Box::pin(acquire))),
        runtime: Handle::current(),
    });
    itself.set(first.clone()).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut asked = None;
    let polled = first.poll(&mut cx, &mut asked).map(|()| asked.is_some());
    if joins == Joins::Afterwards {
        first.spawn();
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
        let mut asked = None;
        let again = first.poll(&mut cx, &mut asked);
        assert!(again.is_ready() && asked.is_none(), "it is gone from here");
        first.spawn(); // a third waiter: nothing is left to move
    }
}
