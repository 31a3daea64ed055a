//! The process that holds the locks: takes them all, is told when the window begins, says what CPU time it took, and how many locks it
//! still believes to hold.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dlock_runtime::{Config, LockGuard, LockPool};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval_at, sleep};

use crate::Failure;
use crate::contenders::cpu;
use crate::contenders::ours::patient;
use crate::contenders::peer::Peer;
use crate::contenders::raw::Raw;
use crate::part::told;

pub(crate) const RAW: &str = "raw";
pub(crate) const PEER: &str = "peer";
pub(crate) const OURS: &str = "ours";

pub(super) const TTL: Duration = Duration::from_secs(6);
const EVERY: Duration = Duration::from_secs(2);

/// Asked for at once.
const ABREAST: usize = 256;

/// How many locks there are, by whom they are kept.
enum Kept {
    /// A task each; so many have their lock.
    Tasks(Arc<AtomicUsize>),
    Guards(Vec<LockGuard>),
}

/// The process.
pub(crate) async fn keep(words: &[String]) -> Result<(), Failure> {
    let [kind, url, locks, millis] = words else {
        return Err("a keeper has four words".into());
    };
    let (locks, length) = (locks.parse()?, Duration::from_millis(millis.parse()?));
    let before = memory();
    let kept = match kind.as_str() {
        RAW => raw(url, locks).await?,
        PEER => peer(url, locks).await?,
        _ => ours(url, locks).await?,
    };
    let grown = memory()
        .zip(before)
        .map(|(now, before)| now.saturating_sub(before));
    println!(
        "holds {}",
        grown.map_or("?".to_owned(), |bytes| bytes.to_string())
    );
    told()?;
    let begun = cpu();
    sleep(length).await;
    println!("used {}", cpu().saturating_sub(begun).as_nanos());
    let held = match &kept {
        Kept::Tasks(held) => held.load(Ordering::Relaxed),
        Kept::Guards(guards) => guards.iter().filter(|guard| guard.is_held()).count(),
    };
    println!("held {held}");
    told()?;
    // Giving all of them back is no part of it: the process ends, and the server is cleared.
    std::process::exit(0)
}

/// A task for each lock, which renews it by a script of its own.
async fn raw(url: &str, locks: usize) -> Result<Kept, Failure> {
    let raw = Raw::connect(url, TTL).await?;
    let held = Arc::new(AtomicUsize::new(0));
    let takes = (0..locks).map(|lock| {
        let (mut raw, held) = (raw.clone(), held.clone());
        async move {
            let key = format!("keep:{lock}");
            let token = raw.try_acquire(&key).await?.ok_or("somebody else has it")?;
            held.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
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
    takes.try_collect::<()>().await?;
    Ok(Kept::Tasks(held))
}

/// A task for each lock, as its documentation has it: the lock is kept while a body runs.
async fn peer(url: &str, locks: usize) -> Result<Kept, Failure> {
    let peer = Peer::new(url).0;
    let held = Arc::new(AtomicUsize::new(0));
    let abreast = Arc::new(Semaphore::new(ABREAST));
    for lock in 0..locks {
        let turn = abreast.clone().acquire_owned().await?;
        let (peer, held) = (peer.clone(), held.clone());
        tokio::spawn(async move {
            let key = format!("keep:{lock}");
            let body = async || {
                held.fetch_add(1, Ordering::Relaxed);
                drop(turn);
                std::future::pending::<()>().await;
            };
            let _ = peer.using(key.as_bytes(), TTL, body).await; // its body has no end: the lock is lost
            held.fetch_sub(1, Ordering::Relaxed);
        });
    }
    // Until the last body has begun.
    let all = u32::try_from(ABREAST)?;
    let _ = abreast.acquire_many(all).await?;
    Ok(Kept::Tasks(held))
}

/// Guards, renewed by the pool's watchdog.
async fn ours(url: &str, locks: usize) -> Result<Kept, Failure> {
    let pool = LockPool::connect(patient(Config::new(url))).await?;
    let takes = (0..locks).map(|lock| {
        let key = dlock_runtime::lock_key!("keep:<lock>");
        pool.lock(key).ttl(TTL).renew_every(EVERY).acquire()
    });
    let takes = stream::iter(takes).buffer_unordered(ABREAST);
    Ok(Kept::Guards(takes.try_collect().await?))
}

/// What this process has in memory, where that can be read.
fn memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
