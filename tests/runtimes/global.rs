//! Parallel `#[tokio::test]`s with one global pool, made inside whichever runtime starts first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::LockPool;
use dlock_tests::{Seeded, locks, patient};
use tokio::sync::OnceCell;

use crate::clients;
use crate::visitors::{leave_in_flight, turn, work};

const CAP: Duration = Duration::from_secs(10);

/// The number of tests below; the last of them to end checks what all have left.
const TESTS: u64 = 12;
static ENDED: AtomicU64 = AtomicU64::new(0);

static SERVER: Mutex<Option<RedisServer>> = Mutex::new(None);
static POOL: OnceCell<LockPool> = OnceCell::const_new();

async fn global_pool() -> LockPool {
    let init = || async {
        let server = RedisServer::start();
        let config = patient(server.url());
        *SERVER.lock().unwrap() = Some(server);
        dlock_runtime::init(config).await
    };
    POOL.get_or_try_init(init).await.unwrap().clone()
}

async fn one_of_many(number: u64) {
    let pool = global_pool().await;
    let mut random = Seeded(number);
    work(&pool, number, &mut random).await;
    // A function outside any scope uses the global pool.
    turn("all", Duration::ZERO).await.unwrap();
    if ENDED.fetch_add(1, Ordering::SeqCst) + 1 == TESTS {
        nothing_is_left(&pool).await;
    } else {
        leave_in_flight(&pool, number, &mut random).await;
    }
}

/// All others have ended, or are about to: a runtime's end closes its connections and releases its
/// locks.
async fn nothing_is_left(pool: &LockPool) {
    let server = SERVER.lock().unwrap().take().unwrap();
    locks::until_none(&server, CAP).await;
    until(
        "this runtime's connection and the watchdog's are left",
        CAP,
        async || clients(&server).await.len() <= 2,
    )
    .await;
    pool.ping().await.unwrap();
}

macro_rules! tests {
    ($($name:ident($number:literal, $flavor:literal),)*) => {$(
        #[tokio::test(flavor = $flavor)]
        async fn $name() {
            one_of_many($number).await;
        }
    )*};
}

tests! {
    test_01_of_12_shares_the_global_pool(1, "current_thread"),
    test_02_of_12_shares_the_global_pool(2, "multi_thread"),
    test_03_of_12_shares_the_global_pool(3, "current_thread"),
    test_04_of_12_shares_the_global_pool(4, "multi_thread"),
    test_05_of_12_shares_the_global_pool(5, "current_thread"),
    test_06_of_12_shares_the_global_pool(6, "multi_thread"),
    test_07_of_12_shares_the_global_pool(7, "current_thread"),
    test_08_of_12_shares_the_global_pool(8, "multi_thread"),
    test_09_of_12_shares_the_global_pool(9, "current_thread"),
    test_10_of_12_shares_the_global_pool(10, "multi_thread"),
    test_11_of_12_shares_the_global_pool(11, "current_thread"),
    test_12_of_12_shares_the_global_pool(12, "multi_thread"),
}
