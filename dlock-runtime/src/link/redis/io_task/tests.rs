//! Who polls a connection's I/O, and when it is dropped.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use dlock_harness::until;
use tokio::runtime::Builder;
use tokio::task::yield_now;

use super::IoTask;
use crate::link::redis::reply_bound::{Question, ReplyBound};

const CAP: Duration = Duration::from_secs(20);

/// What a driver shows of its polls.
#[derive(Default)]
struct Seen {
    polls: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Seen {
    fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }
}

/// A driver that ends in this poll.
fn driver(seen: &Arc<Seen>, last: usize) -> impl Future<Output = ()> + Send + 'static {
    let seen = seen.clone();
    poll_fn(move |cx| {
        *seen.waker.lock().unwrap() = Some(cx.waker().clone());
        if seen.polls.fetch_add(1, Ordering::SeqCst) + 1 == last {
            return Poll::Ready(());
        }
        Poll::Pending
    })
}

fn spawn(driver: impl Future<Output = ()> + Send + 'static) -> IoTask {
    IoTask::spawn(driver, ReplyBound::of(Question::Handshake))
}

#[tokio::test]
async fn a_caller_does_its_work_and_the_task_is_woken_for_the_rest() {
    let seen = Arc::<Seen>::default();
    let io = spawn(driver(&seen, usize::MAX));
    io.run_now();
    assert_eq!(seen.polls(), 0, "the task has not run, so it has no waker");
    yield_now().await;
    assert_eq!(seen.polls(), 1);
    io.run_now();
    assert_eq!(seen.polls(), 2, "at once");
    let waker = seen.waker.lock().unwrap().take().unwrap();
    waker.wake();
    until("the task runs again", CAP, async || seen.polls() == 3).await;
    assert!(!io.is_finished());
}

#[tokio::test]
async fn a_driver_that_ends_while_a_caller_polls_it_ends_the_task() {
    let seen = Arc::<Seen>::default();
    let io = spawn(driver(&seen, 2));
    yield_now().await;
    io.run_now();
    until("the task has ended", CAP, async || io.is_finished()).await;
    io.run_now();
    assert_eq!(seen.polls(), 2, "not after its end");
}

/// As when a push, or the waker of an answer, leads to a full batch.
#[tokio::test]
async fn a_caller_inside_it_does_nothing() {
    let itself = Arc::<OnceLock<IoTask>>::default();
    let inside = itself.clone();
    let polls = Arc::<AtomicUsize>::default();
    let counted = polls.clone();
    let io = spawn(poll_fn(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        inside.get().unwrap().run_now();
        Poll::Pending
    }));
    itself.set(io).unwrap();
    yield_now().await;
    assert_eq!(polls.load(Ordering::SeqCst), 1);
}

/// A driver that never ends, and whether it is there.
fn endless() -> (impl Future<Output = ()> + Send + 'static, Weak<()>) {
    let stream = Arc::new(());
    let there = Arc::downgrade(&stream);
    let driver = async move {
        pending::<()>().await;
        drop(stream);
    };
    (driver, there)
}

#[tokio::test]
async fn an_aborted_task_leaves_no_stream() {
    let (driver, there) = endless();
    let io = spawn(driver);
    yield_now().await;
    io.abort();
    until("it is gone", CAP, async || there.strong_count() == 0).await;
    io.run_now();
}

#[tokio::test]
async fn a_dropped_io_task_leaves_no_stream() {
    let (driver, there) = endless();
    drop(spawn(driver));
    until("it is gone", CAP, async || there.strong_count() == 0).await;
}

#[test]
fn the_end_of_its_runtime_leaves_no_stream() {
    let (driver, there) = endless();
    let runtime = Builder::new_current_thread().build().unwrap();
    let io = runtime.block_on(async { spawn(driver) });
    drop(runtime);
    assert_eq!(there.strong_count(), 0);
    assert!(io.is_finished());
    io.run_now();
}

/// A stream of the program's own may panic.
#[tokio::test]
async fn a_panic_while_a_caller_polls_ends_the_connection_and_not_the_caller() {
    let stream = Arc::new(());
    let there = Arc::downgrade(&stream);
    let mut polls = 0;
    let io = spawn(poll_fn(move |_| {
        polls += Arc::strong_count(&stream);
        assert_eq!(polls, 1, "on purpose");
        Poll::Pending
    }));
    yield_now().await;
    io.run_now();
    assert!(io.is_finished(), "known at once");
    assert_eq!(there.strong_count(), 0);
}

/// The runtime's other tasks, and its timers, do not wait for it.
#[tokio::test]
async fn a_task_does_not_wait_for_a_caller_on_another_thread() {
    let (begun, begins) = mpsc::channel();
    let (goes_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let polls = Arc::<AtomicUsize>::default();
    let counted = polls.clone();
    let io = Arc::new(spawn(poll_fn(move |cx| {
        if counted.fetch_add(1, Ordering::SeqCst) == 1 {
            begun.send(cx.waker().clone()).unwrap();
            waits.lock().unwrap().recv().unwrap();
        }
        Poll::Pending
    })));
    yield_now().await;
    let caller = io.clone();
    let caller = std::thread::spawn(move || caller.run_now());
    begins.recv().unwrap().wake(); // the task is to run, and the other thread polls
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!(polls.load(Ordering::SeqCst), 2);
    goes_on.send(()).unwrap();
    caller.join().unwrap();
    until("the task polls", CAP, async || {
        polls.load(Ordering::SeqCst) == 3
    })
    .await;
}
