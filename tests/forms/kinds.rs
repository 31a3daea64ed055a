//! Functions with every kind of lock: they compile without a warning, alone and with other
//! arguments. Each is run.

use std::fmt;

use async_trait::async_trait;
use dlock_runtime::{LockError, LockPool, distributed_lock, lock_key};

use crate::{held, memory, on_memory};

#[distributed_lock(key = "catalogue:<id>", read, ttl = "10s", renew)]
async fn reader(id: u64) -> Result<String, LockError> {
    Ok(format!("{id}: {}", held()))
}

/// Two attributes read the same key: the second one sends nothing.
#[distributed_lock(key = "catalogue:<id>", read)]
#[distributed_lock(key = "catalogue:<id>", read)]
async fn reader_again(id: u64) -> Result<String, LockError> {
    Ok(format!("{id}: {}", held()))
}

#[distributed_lock(key = "catalogue:<id>", write, ttl = "5s", wait = "1s")]
async fn writer(id: u64) -> Result<String, LockError> {
    Ok(format!("{id}: {}", held()))
}

#[distributed_lock(key = "render", permits = 5, guard = lock)]
async fn renderer() -> Result<u64, LockError> {
    Ok(lock.fence().get())
}

#[distributed_lock(
    key = "render",
    take = 2,
    permits = 5,
    on_busy = "skip",
    min_hold = "1s"
)]
async fn large_renderer() -> Result<Option<String>, LockError> {
    Ok(Some(held()))
}

const SEATS: u32 = 2;

/// How many more permits others can take.
async fn rest(pool: &LockPool, of: u32) -> Result<usize, LockError> {
    let mut others = Vec::new();
    while let Some(other) = tokio::spawn(pool.lock("seats").permits(of).try_acquire())
        .await
        .unwrap()?
    {
        others.push(other);
    }
    Ok(others.len())
}

#[distributed_lock(key = "seats", permits = SEATS, pool = pool)]
async fn seated(pool: &LockPool) -> Result<usize, LockError> {
    rest(pool, SEATS).await
}

#[distributed_lock(key = "seats", permits = of + 1, take = weight, pool = pool)]
async fn weighed(pool: &LockPool, of: u32, weight: u32) -> Result<usize, LockError> {
    rest(pool, of + 1).await
}

#[distributed_lock(key = "seats", permits = 5, take = weight, fair = false, pool = pool)]
async fn of_five(pool: &LockPool, weight: u32) -> Result<usize, LockError> {
    rest(pool, 5).await
}

#[distributed_lock(keys = ["account:<from>", "account:<to>", bank(from)], write, max_hold = "1m", renew)]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

#[distributed_lock(keys = accounts.iter().map(|id| lock_key!("account:<id>")), fair)]
async fn close(accounts: Vec<u64>) -> Result<usize, LockError> {
    Ok(accounts.into_boxed_slice().len())
}

#[distributed_lock(keys = BOTH, on_error = |_| 0)]
async fn constant_list() -> u64 {
    1
}

const BOTH: [&str; 2] = ["left", "right"];

fn bank(account: u64) -> String {
    format!("bank:{}", account / 1000)
}

#[distributed_lock(key = "ticket:<id>", fair)]
async fn in_order(id: u64) -> Result<String, LockError> {
    Ok(format!("{id}: {}", held()))
}

#[distributed_lock(key = "account:<id>", fair, reentrant)]
async fn outermost(id: u64) -> Result<String, LockError> {
    Ok(format!("{id}: {}", held()))
}

/// The body takes the argument from which the owner is made.
#[distributed_lock(key = "account:<id>", reentrant, owner = workflow)]
async fn step(id: u64, workflow: String) -> Result<(u64, String), LockError> {
    Ok((id, workflow))
}

#[distributed_lock(key = "account:7", reentrant, owner = owner)]
async fn owned_by(owner: impl fmt::Display) -> Result<String, LockError> {
    Ok(owner.to_string())
}

struct Shop {
    locks: LockPool,
    name: &'static str,
}

impl Shop {
    #[distributed_lock(key = "stock", reentrant, owner = "<self.name>:<id>", pool = self.locks)]
    async fn count(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    fn limit(&self) -> u32 {
        u32::try_from(self.name.len()).unwrap()
    }

    #[distributed_lock(key = "seats", permits = self.limit(), take = 2, pool = self.locks)]
    async fn limited(&self) -> Result<usize, LockError> {
        rest(&self.locks, self.limit()).await
    }
}

#[async_trait]
trait Stock {
    async fn take(&self, items: &[u64]) -> Result<usize, LockError>;
    async fn put(&self, id: u64) -> Result<u64, LockError>;
    async fn seat(&self, weight: u32) -> Result<usize, LockError>;
}

#[async_trait]
impl Stock for Shop {
    #[distributed_lock(keys = items.iter().map(|id| lock_key!("<self.name>:<id>")), pool = self.locks)]
    async fn take(&self, items: &[u64]) -> Result<usize, LockError> {
        Ok(items.len())
    }

    #[distributed_lock(key = "item:<id>", reentrant, owner = self.name, pool = self.locks)]
    async fn put(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[distributed_lock(key = "seats", permits = self.limit(), take = weight, pool = self.locks)]
    async fn seat(&self, weight: u32) -> Result<usize, LockError> {
        rest(&self.locks, self.limit()).await
    }
}

#[track_caller]
fn check_config<T: fmt::Debug>(result: Result<T, LockError>, expected: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains(expected), "{error}");
}

#[tokio::test]
async fn each_kind_runs() {
    assert_eq!(on_memory(reader(7)).await.unwrap(), "7: catalogue:7");
    assert_eq!(on_memory(reader_again(7)).await.unwrap(), "7: catalogue:7");
    assert_eq!(on_memory(writer(7)).await.unwrap(), "7: catalogue:7");
    assert!(on_memory(renderer()).await.unwrap() > 0);
    let large = on_memory(large_renderer()).await.unwrap();
    assert_eq!(large.as_deref(), Some("render"));
    let step = on_memory(step(7, "w".to_owned())).await.unwrap();
    assert_eq!(step, (7, "w".to_owned()));
    let shop = Shop {
        locks: memory().await,
        name: "north",
    };
    assert_eq!(shop.count(7).await.unwrap(), 7);
    assert_eq!(shop.put(7).await.unwrap(), 7);
}

#[tokio::test]
async fn several_keys_are_taken_together() {
    assert_eq!(on_memory(transfer(7, 9)).await.unwrap(), 16);
    assert_eq!(on_memory(close(vec![3, 1, 3])).await.unwrap(), 3);
    assert_eq!(on_memory(constant_list()).await, 1);
    let shop = Shop {
        locks: memory().await,
        name: "north",
    };
    assert_eq!(shop.take(&[2, 1]).await.unwrap(), 2);
    // Only an empty list can still be wrong at the call.
    let none = on_memory(close(Vec::new())).await;
    check_config(none, "there are no keys to lock");
}

/// These kinds differ from an exclusive lock only if somebody waits, or if the lock is taken again.
#[tokio::test]
async fn fair_and_reentrant_are_exclusive() {
    assert_eq!(on_memory(in_order(7)).await.unwrap(), "7: ticket:7");
    assert_eq!(on_memory(outermost(7)).await.unwrap(), "7: account:7");
}

struct Fails;

impl fmt::Display for Fails {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

#[tokio::test]
async fn an_owner_has_a_text() {
    check_config(on_memory(owned_by("")).await, "the owner is empty");
    check_config(on_memory(owned_by("x".repeat(257))).await, "257 bytes");
    check_config(
        on_memory(owned_by(Fails)).await,
        "the `Display` of the owner failed",
    );
    check_config(
        on_memory(step(7, String::new())).await,
        "the owner is empty",
    );
}

/// Expressions reach the lock, and are checked there as literals are when compiling.
#[tokio::test]
async fn numbers_may_be_expressions() {
    let pool = memory().await;
    assert_eq!(seated(&pool).await.unwrap(), 1);
    assert_eq!(weighed(&pool, 6, 3).await.unwrap(), 4);
    assert_eq!(of_five(&pool, 4).await.unwrap(), 1);
    let shop = |name| async move {
        let locks = memory().await;
        Shop { locks, name }
    };
    assert_eq!(shop("north").await.limited().await.unwrap(), 3);
    assert_eq!(shop("north").await.seat(1).await.unwrap(), 4);
    check_config(
        shop("").await.limited().await,
        "permits 0 would let nobody in",
    );
    check_config(
        shop("north").await.seat(0).await,
        "take 0 would hold nothing",
    );
    check_config(
        weighed(&pool, 1_000_000, 1).await,
        "at most 1000000 permits",
    );
    check_config(weighed(&pool, 5, 7).await, "more than the 6 permits");
    check_config(of_five(&pool, 6).await, "more than the 5 permits");
}

#[tokio::test]
async fn too_many_keys_are_counted_at_the_call() {
    let shop = Shop {
        locks: memory().await,
        name: "north",
    };
    let keys: Vec<u64> = (0..1001).collect();
    check_config(shop.take(&keys).await, "1001 keys are more than the 1000");
}
