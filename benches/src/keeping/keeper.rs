//! The process that holds the locks: it takes them all, keeps them for a window, and reports the
//! CPU time of that window and how many locks it still believes to hold.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dlock_runtime::{Config, LockGuard, LockPool};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval, interval_at, sleep};

use crate::Failure;
use crate::contenders::ours::patient;
use crate::contenders::peer::Peer;
use crate::contenders::raw::Raw;
use crate::part::told;
use crate::pins::cpu;

pub(crate) const RAW: &str = "raw";
pub(crate) const PEER: &str = "peer";
pub(crate) const OURS: &str = "ours";

/// Renewals are due after this part of the ttl.
pub(super) const PART: u32 = 3;

/// The pause between two lines that report how many locks are taken.
const PACE: Duration = Duration::from_millis(500);

/// The number of acquires at once.
const ABREAST: usize = 256;

/// The locks to take and keep, and how many the process holds.
struct Task<'a> {
    url: &'a str,
    locks: usize,
    ttl: Duration,
    held: Arc<AtomicUsize>,
}

/// Runs the process. It prints `took …` while it takes locks, then the memory that it `holds`; is
/// told when the window begins; then prints the CPU time that it `used` in the window, and how many
/// locks it still `held`.
pub(crate) async fn keep(words: &[String]) -> Result<(), Failure> {
    let [kind, url, locks, ttl, window] = words else {
        return Err("a keeper has five words".into());
    };
    let (ttl, window) = (millis(ttl)?, millis(window)?);
    let task = Task {
        url,
        locks: locks.parse()?,
        ttl,
        held: Arc::default(),
    };
    let before = memory();
    let told_meanwhile = tokio::spawn(tell(task.held.clone()));
    // Empty for the contenders with a task for each lock.
    let guards = match kind.as_str() {
        RAW => raw(&task).await.map(|()| Vec::new()),
        PEER => peer(&task).await.map(|()| Vec::new()),
        _ => ours(&task).await,
    }?;
    told_meanwhile.abort();
    let grown = memory()
        .zip(before)
        .map(|(now, before)| now.saturating_sub(before));
    println!(
        "holds {}",
        grown.map_or("?".to_owned(), |bytes| bytes.to_string())
    );
    told()?;
    let begun = cpu();
    sleep(window).await;
    println!("used {}", cpu().saturating_sub(begun).as_nanos());
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    println!("held {}", task.held.load(Ordering::Relaxed) - lost);
    told()?;
    // Releasing the locks is not measured: the process ends, and the server is cleared.
    std::process::exit(0)
}

async fn tell(held: Arc<AtomicUsize>) {
    let mut ticks = interval(PACE);
    loop {
        ticks.tick().await;
        println!("took {}", held.load(Ordering::Relaxed));
    }
}

/// A task for each lock, which renews it by a script.
async fn raw(task: &Task<'_>) -> Result<(), Failure> {
    let raw = Raw::connect(task.url, task.ttl).await?;
    let every = task.ttl / PART;
    let takes = (0..task.locks).map(|lock| {
        let (mut raw, held) = (raw.clone(), task.held.clone());
        async move {
            let key = format!("keep:{lock}");
            let token = raw.try_acquire(&key).await?.ok_or("somebody else has it")?;
            held.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut ticks = interval_at(Instant::now() + every, every);
                loop {
                    ticks.tick().await;
                    if !matches!(raw.renew(&key, &token).await, Ok(true)) {
                        held.fetch_sub(1, Ordering::Relaxed);
                        return;
                    }
                }
            });
            Ok::<_, Failure>(())
        }
    });
    let takes = stream::iter(takes).buffer_unordered(ABREAST);
    takes.try_collect().await
}

/// A task for each lock, as in the documentation of `rslock`: the lock is kept while a body runs.
async fn peer(task: &Task<'_>) -> Result<(), Failure> {
    let (peer, ttl) = (Peer::new(task.url).0, task.ttl);
    let abreast = Arc::new(Semaphore::new(ABREAST));
    for lock in 0..task.locks {
        let turn = abreast.clone().acquire_owned().await?;
        let (peer, held) = (peer.clone(), task.held.clone());
        tokio::spawn(async move {
            let key = format!("keep:{lock}");
            let body = async || {
                held.fetch_add(1, Ordering::Relaxed);
                drop(turn);
                std::future::pending::<()>().await;
            };
            // The body has no end, so this returns when the lock is lost.
            let _ = peer.using(key.as_bytes(), ttl, body).await;
            held.fetch_sub(1, Ordering::Relaxed);
        });
    }
    // Wait until the last body has begun.
    let all = u32::try_from(ABREAST)?;
    let _ = abreast.acquire_many(all).await?;
    Ok(())
}

/// Guards, which the pool's watchdog renews.
async fn ours(task: &Task<'_>) -> Result<Vec<LockGuard>, Failure> {
    let pool = LockPool::connect(patient(Config::new(task.url))).await?;
    let takes = (0..task.locks).map(|lock| {
        let key = dlock_runtime::lock_key!("keep:<lock>");
        let request = pool.lock(key).ttl(task.ttl);
        request.renew_every(task.ttl / PART).acquire()
    });
    let takes = stream::iter(takes).buffer_unordered(ABREAST);
    let counted = takes.inspect_ok(|_| {
        task.held.fetch_add(1, Ordering::Relaxed);
    });
    Ok(counted.try_collect().await?)
}

fn millis(word: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(word.parse()?))
}

/// This process's anonymous memory, if the system reports it: what it has allocated. The pages of its
/// program file are left out: they are read as code first runs, however many locks there are.
fn memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
