//! What a pool leaves behind in its process when it ends. Counted in a process of its own, because
//! a test program has the pools of other tests, too.

use std::time::Duration;

use dlock_harness::{until, until_blocking};
use dlock_runtime::LockPool;
use dlock_tests::patient;
use tokio::runtime::{Builder, Runtime};

use crate::settings::Settings;

const CAP: Duration = Duration::from_secs(10);

/// Makes pools, holds and drops them; prints `watchdogs <n>` when there are this many watchdog
/// threads.
pub(crate) fn come_and_go(settings: &Settings) {
    let runtime = Runtime::new().unwrap();
    let expect = |n: usize| {
        until_blocking("the number of watchdog threads", CAP, || watchdogs() == n);
        println!("watchdogs {n}");
    };
    expect(0);
    let pool = || runtime.block_on(LockPool::connect(patient(&settings.url)));
    let (first, second) = (pool().unwrap(), pool().unwrap());
    expect(2);

    // A clone is a handle; so is a guard, which may outlive all others and is watched until its
    // end.
    let guard = runtime.block_on(second.lock("guard").renew().acquire());
    let clone = first.clone();
    drop((first, second));
    expect(2);
    drop(clone);
    expect(1);
    assert!(guard.as_ref().unwrap().is_held());
    drop(guard);
    expect(0);

    // The runtime that connected goes on, so what the test then sees ended was ended by the pools.
    println!("dropped");
    runtime.block_on(async { tokio::time::sleep(Duration::from_secs(60)).await });
}

/// Prints how many watchdog threads a pool that needs none has after it renewed a lock.
#[tokio::main]
pub(crate) async fn memory_has_none(settings: &Settings) {
    let pool = LockPool::connect(settings.url.as_str()).await.unwrap();
    let request = pool.lock("guard").renew_every(Duration::from_millis(50));
    let guard = request.acquire().await.unwrap();
    let mut before = guard.remaining();
    until("it was renewed", CAP, async || {
        guard.remaining() > std::mem::replace(&mut before, guard.remaining())
    })
    .await;
    println!("watchdogs {}", watchdogs());
}

/// `shutdown` returns no error: where it can't wait, it returns at once with what is left.
pub(crate) fn shut_down_anywhere(settings: &Settings) {
    let whole = Runtime::new().unwrap();
    whole
        .block_on(dlock_runtime::init(patient(&settings.url)))
        .unwrap();
    let bare = Builder::new_current_thread().build().unwrap();
    println!("drained {:?}", bare.block_on(dlock_runtime::shutdown()));
    let nowhere = futures_util::FutureExt::now_or_never(dlock_runtime::shutdown());
    println!("drained {:?}", nowhere.unwrap());
}

fn watchdogs() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| {
        // A thread that ends meanwhile has no name any more.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    names
        .filter(|name| name.trim_end() == "dlock-watchdog")
        .count()
}
