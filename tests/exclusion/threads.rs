//! `memory://` excludes tasks and runtimes of one process from each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dlock_harness::{Interval, check_exclusive, now_ns};
use dlock_runtime::{LockError, LockPool, distributed_lock};
use dlock_tests::Seeded;
use tokio::runtime::Builder;

/// The protected data: a number that is loaded, slept over and stored, and a record of each update.
#[derive(Default)]
struct Counter {
    number: AtomicU64,
    intervals: Mutex<Vec<Interval>>,
}

impl Counter {
    async fn add_one(&self, fence: u64, pause: Duration, who: &str) {
        let start_ns = now_ns();
        let before = self.number.load(Ordering::SeqCst);
        tokio::time::sleep(pause).await;
        self.number.store(before + 1, Ordering::SeqCst);
        let interval = Interval {
            key: "counter".to_owned(),
            fence,
            start_ns,
            end_ns: now_ns(),
            who: who.to_owned(),
        };
        self.intervals.lock().unwrap().push(interval);
    }
}

#[distributed_lock(key = "counter", ttl = "10s", wait = "1m", renew, guard = lock)]
async fn add_one(counter: &Counter, pause: Duration, who: &str) -> Result<(), LockError> {
    counter.add_one(lock.fence().get(), pause, who).await;
    Ok(())
}

const THREADS: u64 = 3;
const TASKS: u64 = 4;
const ROUNDS: u64 = 8;

/// Runs one thread's tasks, on a runtime with several worker threads.
fn run_tasks(thread: u64, pool: &LockPool, counter: &Arc<Counter>) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (pool, counter) = (pool.clone(), counter.clone());
            let mut random = Seeded(thread * TASKS + task);
            runtime.spawn(async move {
                let who = format!("thread {thread} task {task}");
                for _ in 0..ROUNDS {
                    let pause = Duration::from_micros(random.between(100, 3000));
                    pool.scope(add_one(&counter, pause, &who)).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn memory_excludes_the_tasks_and_runtimes_of_one_process() {
    let connect = LockPool::connect("memory://");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let pool = runtime.block_on(connect).unwrap();
    let counter = Arc::new(Counter::default());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (pool, counter) = (&pool, &counter);
            scope.spawn(move || run_tasks(number, pool, counter));
        }
    });
    let expected = THREADS * TASKS * ROUNDS;
    let intervals = counter.intervals.lock().unwrap();
    check_exclusive(&intervals).unwrap();
    assert_eq!(intervals.len() as u64, expected);
    assert_eq!(counter.number.load(Ordering::SeqCst), expected);
    assert!(runtime.block_on(pool.holder("counter")).unwrap().is_none());
}

/// Control: the same body without the attribute.
#[tokio::test]
async fn without_the_lock_the_same_body_overlaps() {
    let counter = Counter::default();
    let task = async |number: u64| {
        counter
            .add_one(number, Duration::from_millis(20), "task")
            .await;
    };
    tokio::join!(task(1), task(2));
    assert!(check_exclusive(&counter.intervals.lock().unwrap()).is_err());
    assert_eq!(counter.number.load(Ordering::SeqCst), 1);
}
