//! One process of waiters: so many tasks that wait for a lock which nobody gives back, and what CPU time that takes.

use std::time::Duration;

use dlock_runtime::{Config, LockPool, Wait, lock_key};
use tokio::task::spawn_blocking;
use tokio::time::{interval, sleep};

use crate::Failure;
use crate::part::told;
use crate::pins::cpu;

/// They begin to wait so many at once, and so often: it is not the begin that is measured.
const AT_ONCE: usize = 10;
const EVERY: Duration = Duration::from_millis(20);

/// What a waiter is told on its command line: where all of a process want the same key, they are readers.
pub(super) const ONE_KEY: &str = "one";
pub(super) const KEY_EACH: &str = "each";

/// More than are ever under way: with any limit each heartbeat is a command of its own.
const NO_LIMIT: usize = 1_000_000;

/// The process. Waits with all its tasks, is told when the window begins, and says what CPU time it `used` in it.
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
    spawn_blocking(told).await??; // they wait meanwhile
    let begun = cpu();
    sleep(window).await;
    println!("used {}", cpu().saturating_sub(begun).as_nanos());
    drop(begins);
    spawn_blocking(told).await??;
    std::process::exit(0) // nobody is to leave one by one: the server is cleared
}
