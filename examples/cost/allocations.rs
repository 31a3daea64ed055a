//! Counts the allocations of a call, with the attribute and by hand.
//!
//! It counts allocations made on the call's own thread while its future is polled, on `memory://`.
//! Work of the runtime and of the renewing task between two polls is not included.
//! `allocation_counter` is the program's allocator and counts by thread.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use dlock_runtime::{LockError, LockPool, distributed_lock, lock_key};
use tokio::task::yield_now;

use super::Failure;

/// A number of allocations, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Count {
    pub(crate) allocations: u64,
    pub(crate) bytes: u64,
}

pub(crate) struct Counts {
    /// `lock_key!("item:<id>")` alone.
    pub(crate) key: Count,
    /// An annotated function is called, and its future dropped.
    pub(crate) unpolled: Count,
    /// The same future is polled without a pool: all that the attribute does before it calls the
    /// engine.
    pub(crate) before_the_engine: Count,
    /// Whole calls, uncontended.
    pub(crate) annotated: Count,
    pub(crate) by_hand: Count,
    /// As `annotated`, with [`LARGE`] bytes in the body's state.
    pub(crate) large: Count,
}

pub(crate) const LARGE: usize = 4096;

const WARM_UP: usize = 1000;
const CALLS: usize = 100;

/// As long as an id in production, so that a key that grows step by step would show.
const ID: u64 = 123_456_789_012_345;

// Its name is as long as that of `large`, because the entry contains the name.
#[distributed_lock(key = "item:<id>", ttl = "10s", renew)]
async fn small(id: u64) -> Result<u64, LockError> {
    yield_now().await;
    Ok(id)
}

async fn by_hand(pool: &LockPool, id: u64) -> Result<u64, LockError> {
    let request = pool
        .lock(lock_key!("item:<id>"))
        .ttl(Duration::from_secs(10));
    let body = async |_: &_| {
        yield_now().await;
        id
    };
    request.renew().run(body).await
}

#[distributed_lock(key = "item:<id>", ttl = "10s", renew)]
async fn large(id: u64) -> Result<u64, LockError> {
    let state = std::hint::black_box([0_u8; LARGE]);
    yield_now().await;
    Ok(id + u64::from(state[0]))
}

pub(crate) async fn count() -> Result<Counts, Failure> {
    let pool = LockPool::connect("memory://").await?;
    let mut future = None;
    let unpolled = allocation_counter::measure(|| future = Some(small(ID))).into();
    let id = std::hint::black_box(ID);
    drop(lock_key!("item:<id>")); // makes the buffer in which this thread writes all its keys
    let key = allocation_counter::measure(|| drop(lock_key!("item:<id>"))).into();
    let refused = counted(small(ID)).await;
    if !matches!(refused.1, Err(LockError::NotInitialized)) {
        return Err("this process has a pool".into());
    }
    // Afterwards the sequence number in the holder's entry keeps its number of digits.
    for _ in 0..WARM_UP {
        pool.scope(small(ID)).await?;
    }
    Ok(Counts {
        key,
        unpolled,
        before_the_engine: refused.0,
        annotated: steady(async || pool.scope(counted(small(ID))).await).await?,
        by_hand: steady(async || counted(by_hand(&pool, ID)).await).await?,
        large: steady(async || pool.scope(counted(large(ID))).await).await?,
    })
}

impl From<allocation_counter::AllocationInfo> for Count {
    fn from(info: allocation_counter::AllocationInfo) -> Self {
        Count {
            allocations: info.count_total,
            bytes: info.bytes_total,
        }
    }
}

/// The allocations of one call after many others, when all maps have grown.
async fn steady(
    call: impl AsyncFn() -> (Count, Result<u64, LockError>),
) -> Result<Count, LockError> {
    let mut counts = Vec::new();
    for _ in 0..CALLS {
        let (count, value) = call().await;
        value?;
        counts.push(count);
    }
    counts.sort_unstable();
    Ok(counts.get(CALLS / 2).copied().unwrap_or_default())
}

async fn counted<F: Future>(future: F) -> (Count, F::Output) {
    let mut future = pin!(future);
    let mut count = Count::default();
    let output = poll_fn(|cx| {
        let mut poll = Poll::Pending;
        let info = allocation_counter::measure(|| poll = future.as_mut().poll(cx));
        count.allocations += info.count_total;
        count.bytes += info.bytes_total;
        poll
    });
    let output = output.await;
    (count, output)
}
