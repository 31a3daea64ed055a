//! Functions with every kind of lock: they compile without a warning, alone and with other
//! arguments. Each is run.

use std::convert::TryFrom;
use std::fmt;

use async_trait::async_trait;
use dlock_runtime::{LockError, LockPool, distributed_lock, lock_key};

use super::{held, memory};

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
    loop {
        let call = pool.lock("seats").permits(of).try_acquire();
        let other = tokio::spawn(call).await.unwrap()?;
        match other {
            Some(other) => others.push(other),
            None => return Ok(others.len()),
        }
    }
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

macro_rules! config {
    ($call:expr, $says:expr) => {
        let error = $call.await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{:?}", error);
        assert!(error.to_string().contains($says), "{}", error);
    };
}

struct Fails;

impl fmt::Display for Fails {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

pub(super) async fn rows() {
    ok!(reader(7), "7: catalogue:7");
    ok!(reader_again(7), "7: catalogue:7");
    ok!(writer(7), "7: catalogue:7");
    assert!(renderer().await.unwrap() > 0);
    ok!(large_renderer(), Some("render"));
    ok!(step(7, "w".to_owned()), (7, "w"));
    let shop = shop("north").await;
    ok!(shop.count(7), 7);
    ok!(shop.put(7), 7);
    ok!(transfer(7, 9), 16);
    ok!(close(vec![3, 1, 3]), 3);
    gives!(constant_list(), 1);
    ok!(shop.take(&[2, 1]), 2);
    // These differ from an exclusive lock only if somebody waits, or if the lock is taken again.
    ok!(in_order(7), "7: ticket:7");
    ok!(outermost(7), "7: account:7");
    numbers_may_be_expressions().await;
    refusals().await;
}

async fn shop(name: &'static str) -> Shop {
    let locks = memory().await;
    Shop { locks, name }
}

/// Expressions reach the lock.
async fn numbers_may_be_expressions() {
    let pool = memory().await;
    ok!(seated(&pool), 1);
    ok!(weighed(&pool, 6, 3), 4);
    ok!(of_five(&pool, 4), 1);
    let shop = shop("north").await;
    ok!(shop.limited(), 3);
    ok!(shop.seat(1), 4);
}

/// What only the call can see is checked there, as literals are when compiling.
async fn refusals() {
    let pool = memory().await;
    let (nobody, shop) = (shop("").await, shop("north").await);
    let keys: Vec<u64> = (0..1001).collect();
    config!(close(Vec::new()), "there are no keys to lock");
    config!(shop.take(&keys), "1001 keys are more than the 1000");
    config!(owned_by(""), "the owner is empty");
    config!(owned_by("x".repeat(257)), "257 bytes");
    config!(owned_by(Fails), "the `Display` of the owner failed");
    config!(step(7, String::new()), "the owner is empty");
    config!(nobody.limited(), "permits 0 would let nobody in");
    config!(shop.seat(0), "take 0 would hold nothing");
    config!(weighed(&pool, 1_000_000, 1), "at most 1000000 permits");
    config!(weighed(&pool, 5, 7), "more than the 6 permits");
    config!(of_five(&pool, 6), "more than the 5 permits");
}
