//! A thread that keeps taking a lock of its own in the attacked pool. It must keep getting it,
//! whatever messages the pool receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dlock_harness::wait;
use dlock_runtime::{LockPool, LockRequest};

use crate::lab::{LONG, Lab, lock};

/// Longer than a task can wait for an uncontended lock, except for a bug.
const STANDS_STILL_AFTER: Duration = Duration::from_secs(10);

pub(crate) struct Beside {
    cycles: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    works: Option<JoinHandle<()>>,
    /// A thread that watches `works`. It needs no lock, no timer and no runtime of the program,
    /// because any of those may be what is stuck.
    watches: Option<JoinHandle<()>>,
}

impl Beside {
    pub(crate) fn of(lab: &Lab, pool: &LockPool) -> Self {
        let (cycles, ends) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let works = {
            let (pool, of_nodes) = (pool.clone(), lab.is_of_nodes());
            let (cycles, ends) = (cycles.clone(), ends.clone());
            std::thread::spawn(move || {
                work(|| lock(of_nodes, &pool, "beside", LONG), &cycles, &ends);
            })
        };
        let watches = {
            let (cycles, ends) = (cycles.clone(), ends.clone());
            std::thread::spawn(move || watch(&cycles, &ends))
        };
        Self {
            cycles,
            ends,
            works: Some(works),
            watches: Some(watches),
        }
    }

    pub(crate) fn cycles(&self) -> u64 {
        self.cycles.load(Ordering::SeqCst)
    }
}

fn work(request: impl Fn() -> LockRequest, cycles: &AtomicU64, ends: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        while !ends.load(Ordering::SeqCst) {
            let guard = request().acquire().await.unwrap();
            guard.release().await.unwrap();
            cycles.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

/// Aborts a process that is stuck: with a mutex held for ever, it could not even fail a test.
fn watch(cycles: &AtomicU64, ends: &AtomicBool) {
    let (mut known, mut since) = (0, Instant::now());
    while !ends.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
        let now = cycles.load(Ordering::SeqCst);
        if now != known {
            (known, since) = (now, Instant::now());
        }
        if since.elapsed() > wait::scaled(STANDS_STILL_AFTER) {
            eprintln!("a task beside the storm stands still after {now} locks");
            std::process::abort();
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        for thread in [self.works.take(), self.watches.take()]
            .into_iter()
            .flatten()
        {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}
