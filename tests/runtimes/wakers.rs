//! Wakers that own a task: an executor whose tasks are owned by their wakers alone drops a task, and
//! the guard and the acquire that it holds, with the last of them. Where that happens, no mutex may
//! be locked that these need.

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use dlock_harness::{RedisServer, until, wait::scaled};
use dlock_runtime::{LockGuard, LockPool, Wait};
use tokio::runtime::Builder;

use crate::warm_pool;

/// Longer than anything here takes that does not hang.
const CAP: Duration = Duration::from_secs(20);

type Waits = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task that waits for nothing but this waker, with what it holds.
struct Task(#[expect(dead_code, reason = "held")] Mutex<(LockGuard, Waits)>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// How a future goes on that has the last waker of a task.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Another task polls it.
    Moves,
    /// `is_answered`: after its acquire was, when only the local queue has its waker.
    IsDropped { is_answered: bool },
}

#[derive(Clone, Copy, Debug)]
enum How {
    Waits,
    Tries,
}

fn poll(waits: &mut Waits, waker: &Waker) {
    let polled = waits.as_mut().poll(&mut Context::from_waker(waker));
    assert!(polled.is_pending());
}

fn acquire(pool: &LockPool, key: &'static str, how: How) -> Waits {
    let request = pool.lock(key).wait(Wait::Forever);
    Box::pin(async move {
        match how {
            How::Waits => drop(request.acquire().await),
            How::Tries => drop(request.try_acquire().await),
        }
    })
}

/// Nothing is sent before the last waker goes, unless it goes later.
async fn scene(server: &RedisServer, pool: &LockPool, how: How, then: Then) {
    let guard = pool.lock("owned").acquire().await.unwrap();
    let [mut first, mut second, mut owned, mut last] =
        ["1", "2", "3", "4"].map(|key| acquire(pool, key, how));
    for waits in [&mut first, &mut second, &mut owned] {
        poll(waits, Waker::noop());
    }
    let task = Arc::new(Task(Mutex::new((guard, owned))));
    let alive = Arc::downgrade(&task);
    poll(&mut last, &task.into());
    assert!(alive.strong_count() > 0, "only by wakers");
    match then {
        Then::Moves => poll(&mut last, Waker::noop()),
        Then::IsDropped { is_answered } => {
            let is_ready = async || !is_answered || server.pttl("lock:4").await > 0;
            until("its lock is granted", CAP, is_ready).await;
            drop(last);
        }
    }
    assert_eq!(alive.strong_count(), 0, "{how:?}, {then:?}");
    until("its lock is free", CAP, async || {
        server.pttl("lock:owned").await == -2
    })
    .await;
}

#[test]
fn the_last_waker_of_a_task_that_holds_and_waits() {
    let (ends, ended) = mpsc::channel();
    // What is tested would block its thread for ever.
    let runs = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = RedisServer::start();
            let pool = warm_pool(server.url()).await;
            for how in [How::Waits, How::Tries] {
                for then in [
                    Then::Moves,
                    Then::IsDropped { is_answered: false },
                    Then::IsDropped { is_answered: true },
                ] {
                    scene(&server, &pool, how, then).await;
                }
            }
        });
        ends.send(()).unwrap();
    });
    match ended.recv_timeout(scaled(CAP * 2)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => runs.join().unwrap(),
    }
}
