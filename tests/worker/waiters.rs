//! Many tasks that wait in the queue of one lock, each for one turn.

use std::time::Duration;

use dlock_harness::{Interval, now_ns};
use dlock_runtime::{LockGuard, LockPool, LockRequest, Wait};
use dlock_tests::{Seeded, patient};
use futures_util::future::join_all;

use crate::settings::Settings;

/// Asks in the order of the tasks' numbers and prints `asked` once all have. Prints `holds <fence>
/// <start_ns>` at the start of each turn, and its interval at the end. A turn takes up to
/// `hold_ms`; with `mixed=1` the tasks' locks have different settings.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn wait(settings: &Settings) {
    let pool = LockPool::connect(patient(&settings.url)).await.unwrap();
    let mut random = Seeded(settings.number("seed"));
    let (hold_ms, mixed) = (settings.number("hold_ms"), settings.number("mixed") == 1);
    let turns = (0..settings.number("tasks")).map(|task| {
        let request = pool.lock("turns").wait(Wait::Forever);
        let request = kind(request, if mixed { task % 4 } else { 0 });
        let pause = Duration::from_micros(random.between(0, hold_ms * 1000));
        tokio::spawn(request.run(async move |lock| turn(lock, task, pause).await))
    });
    let turns: Vec<_> = turns.collect();
    // Tasks are polled in the order in which they were spawned: when this one is polled again, each
    // has its waiter id.
    tokio::task::yield_now().await;
    println!("asked");
    for turn in join_all(turns).await {
        turn.unwrap().unwrap();
    }
    println!("done");
}

fn kind(request: LockRequest, number: u64) -> LockRequest {
    let ttl = Duration::from_secs(2); // short, but longer than a busy machine stalls
    match number {
        0 => request.ttl(ttl).renew(),
        1 => request.ttl(ttl),
        2 => request.ttl(ttl * 30),
        _ => request.ttl(ttl * 2).min_hold(Duration::from_millis(20)),
    }
}

async fn turn(lock: &LockGuard, task: u64, pause: Duration) {
    let start_ns = now_ns();
    println!("holds {} {start_ns}", lock.fence());
    tokio::time::sleep(pause).await;
    let interval = Interval {
        key: lock.key().as_str().to_owned(),
        fence: lock.fence().get(),
        start_ns,
        end_ns: now_ns(),
        who: format!("process {} task {task}", std::process::id()),
    };
    println!("{interval}");
}
