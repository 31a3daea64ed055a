//! One process of waiters: its tasks wait for locks that are never released; it reports the CPU
//! time of that.

use std::time::Duration;

use dlock_runtime::{Config, LockPool, Wait, lock_key};
use tokio::task::spawn_blocking;
use tokio::time::{interval, sleep};

use crate::Failure;
use crate::part::told;
use crate::pins::cpu;

/// How many tasks begin to wait at once, and how often: the start is not measured.
const AT_ONCE: usize = 10;
const EVERY: Duration = Duration::from_millis(20);

/// Values of an argument of a waiter. With one key for all, the tasks are readers.
pub(super) const ONE_KEY: &str = "one";
pub(super) const KEY_EACH: &str = "each";

/// More than are ever in flight. Any limit turns off batching, so each heartbeat is a command of
/// its own.
const NO_LIMIT: usize = 1_000_000;

/// Runs the process: all its tasks wait; it is told when the window begins, and prints the CPU time
/// that it `used` in it.
pub(crate) async fn wait(words: &[String]) -> Result<(), Failure> {
    let [url, keys, together, first, tasks, window] = words else {
        return Err("a waiter has six words".into());
    };
    let config = Config::new(url.as_str());
    let config = match together.as_str() {
        "together" => config,
        _ => config.max_in_flight(NO_LIMIT),
    };
    let pool = LockPool::connect(config).await?;
    let (first, tasks): (usize, usize) = (first.parse()?, tasks.parse()?);
    let is_one = keys == ONE_KEY;
    let begins = tokio::spawn(async move {
        let mut ticks = interval(EVERY);
        for task in first..first + tasks {
            if (task - first).is_multiple_of(AT_ONCE) {
                ticks.tick().await;
            }
            let request = if is_one {
                pool.lock("queue").read()
            } else {
                pool.lock(lock_key!("item:<task>"))
            };
            tokio::spawn(request.wait(Wait::Forever).acquire());
        }
        pool
    });
    let window = Duration::from_millis(window.parse()?);
    spawn_blocking(told).await??; // the tasks wait meanwhile
    let begun = cpu();
    sleep(window).await;
    println!("used {}", cpu().saturating_sub(begun).as_nanos());
    drop(begins);
    spawn_blocking(told).await??;
    std::process::exit(0) // no task cancels its wait: the server is cleared
}
