//! Locks that are taken in two orders are reported once or refused, before any task waits for
//! another.
//!
//! Nothing here is ever contended: an order is noted when a lock is requested, whether or not it is
//! held.

use dlock_harness::RedisServer;
use dlock_runtime::{Config, LockError, LockOrder, LockPool, distributed_lock, lock_key};

use crate::backends::{LONG, nothing_left, patient};
use crate::log::Log;

mod stacked;

type Outcome = Result<(), LockError>;

const ITEM: u32 = line!() + 1;
#[distributed_lock(key = "item:<id>", ttl = "60s")]
async fn item(id: u32, body: impl AsyncFnOnce() -> Outcome) -> Outcome {
    body().await
}

const USER: u32 = line!() + 1;
#[distributed_lock(key = "user:<name>", ttl = "60s")]
async fn user(name: &str, body: impl AsyncFnOnce() -> Outcome) -> Outcome {
    body().await
}

/// The class of `user`, in another function.
#[distributed_lock(key = "user:<seller>", ttl = "60s", wait = "0s")]
async fn try_user(seller: &str, body: impl AsyncFnOnce() -> Outcome) -> Outcome {
    body().await
}

const SHOP: &str = "shop";
const SHOP_LINE: u32 = line!() + 1;
#[distributed_lock(key = SHOP, ttl = "60s")]
async fn shop(body: impl AsyncFnOnce() -> Outcome) -> Outcome {
    body().await
}

#[distributed_lock(key = "item:<id>", ttl = "60s", on_busy = "skip")]
async fn item_or_not(id: u32, body: impl AsyncFnOnce() -> Outcome) -> Outcome {
    body().await
}

#[distributed_lock(key = "item:<id>", ttl = "50ms", on_lost = "finish", guard = lock)]
async fn item_until_lost(id: u32, body: impl AsyncFnOnce() -> Outcome) -> Outcome {
    lock.lost().await;
    body().await
}

async fn nothing() -> Outcome {
    Ok(())
}

/// The inversions that were warned of since the last call.
fn told(log: &Log) -> Vec<String> {
    let mut told = log.take("an order that can deadlock");
    told.retain(|event| event.starts_with("WARN "));
    told
}

#[track_caller]
fn tells_once(log: &Log, said: &str) {
    let told = told(log);
    assert!(told.len() == 1 && told[0].contains(said), "{told:#?}");
}

/// Runs a case on memory and on a server of its own, where nothing may be left.
async fn everywhere(lock_order: LockOrder, case: impl AsyncFn(LockPool, Log)) {
    let pool = async |config: Config| {
        LockPool::connect(config.lock_order(lock_order))
            .await
            .unwrap()
    };
    let (log, _listening) = Log::listen();
    case(pool(Config::new("memory://")).await, log.clone()).await;
    let server = RedisServer::start();
    told(&log);
    case(pool(patient(server.url())).await, log).await;
    nothing_left(&server).await;
}

/// A function of this file as a report names it.
fn at(text: &str, function: &str, line: u32) -> String {
    format!(
        "`{text}` ({}::{function}, {}:{line})",
        module_path!(),
        file!()
    )
}

fn item_and_user() -> [String; 2] {
    [
        at("item:<id>", "item", ITEM),
        at("user:<name>", "user", USER),
    ]
}

fn inversion(error: &LockError) -> Option<String> {
    match error {
        LockError::WouldDeadlock { inversion, .. } => inversion.as_ref().map(ToString::to_string),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_inversion_is_logged_once_with_file_and_line_of_both_orders() {
    everywhere(LockOrder::Warn, async |pool, log| {
        let there = || pool.scope(item(7, async || user("ann", nothing).await));
        let back = || pool.scope(user("bob", async || item(8, nothing).await));
        there().await.unwrap();
        there().await.unwrap();
        assert_eq!(told(&log), [""; 0]);
        back().await.unwrap();
        let [item, user] = item_and_user();
        assert_eq!(
            told(&log),
            [format!(
                "WARN message=locks are taken in an order that can deadlock: \
                 {user} then {item} here, but elsewhere {item} then {user} key=\"item:8\" namespace=\"lock:\""
            )]
        );
        there().await.unwrap();
        back().await.unwrap();
        assert_eq!(told(&log), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn an_inversion_is_refused_each_time_and_takes_nothing() {
    everywhere(LockOrder::Refuse, async |pool, log| {
        let there = || pool.scope(item(7, async || user("ann", nothing).await));
        there().await.unwrap();
        for _ in 0..2 {
            let back = user("bob", async || {
                let refused = item(8, async || panic!("it was refused")).await;
                assert!(pool.holder("item:8").await.unwrap().is_none());
                refused
            });
            let error = pool.scope(back).await.unwrap_err();
            assert_eq!(error.key().unwrap().as_str(), "lock:item:8");
            let [item, user] = item_and_user();
            assert_eq!(
                inversion(&error).unwrap(),
                format!("{user} then {item} here, but elsewhere {item} then {user}")
            );
            there().await.unwrap();
        }
        assert_eq!(told(&log), [""; 0], "the error says it");
    })
    .await;
}

#[tokio::test]
async fn without_it_nothing_is_told() {
    everywhere(LockOrder::Off, async |pool, log| {
        let there = item(7, async || user("ann", nothing).await);
        let back = user("ann", async || item(7, nothing).await);
        pool.scope(there).await.unwrap();
        pool.scope(back).await.unwrap();
        assert_eq!(told(&log), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_round_of_three_is_told() {
    everywhere(LockOrder::Warn, async |pool, log| {
        let (one, two, three) = (
            item(7, async || user("ann", nothing).await),
            user("ann", async || shop(nothing).await),
            shop(async || item(7, nothing).await),
        );
        pool.scope(one).await.unwrap();
        pool.scope(two).await.unwrap();
        assert_eq!(told(&log), [""; 0]);
        pool.scope(three).await.unwrap();
        let [item, user] = item_and_user();
        let shop = at("shop", "shop", SHOP_LINE);
        let said = format!(
            "{shop} then {item} here, but elsewhere {item} then {user}, {user} then {shop} "
        );
        tells_once(&log, &said);
    })
    .await;
}

/// A call that does not wait can't be part of a deadlock as a waiter, but its lock can as a held
/// one.
#[tokio::test]
async fn who_tries_once_is_in_no_order_and_holds_like_any_other() {
    everywhere(LockOrder::Warn, async |pool, log| {
        let there = item(7, async || user("ann", nothing).await);
        pool.scope(there).await.unwrap();
        let skipped = user("ann", async || item_or_not(8, nothing).await);
        pool.scope(skipped).await.unwrap();
        let id = 8;
        let tried = user("ann", async || {
            let tried = pool.lock(lock_key!("item:<id>")).try_acquire().await?;
            tried.unwrap().release().await.map(drop)
        });
        pool.scope(tried).await.unwrap();
        assert_eq!(told(&log), [""; 0]);
        let holds = try_user("bob", async || item(8, nothing).await);
        pool.scope(holds).await.unwrap();
        tells_once(&log, "user:<seller>");
    })
    .await;
}

#[tokio::test]
async fn every_enclosing_lock_counts() {
    everywhere(LockOrder::Warn, async |pool, log| {
        // `item → try_user` is no order, so only `item → shop` leads back to the outer one.
        let there = item(7, async || {
            try_user("ann", async || shop(nothing).await).await
        });
        pool.scope(there).await.unwrap();
        assert_eq!(told(&log), [""; 0]);
        let back = shop(async || item(7, nothing).await);
        pool.scope(back).await.unwrap();
        assert_eq!(told(&log).len(), 1);
    })
    .await;
}

#[tokio::test]
async fn one_class_in_itself_is_told_when_its_keys_come_in_both_orders() {
    everywhere(LockOrder::Warn, async |pool, log| {
        let both = |one, two| pool.scope(item(one, async move || item(two, nothing).await));
        for (one, two) in [(1, 2), (2, 3), (9, 10), (100, 200)] {
            both(one, two).await.unwrap();
        }
        assert_eq!(told(&log), [""; 0]);
        both(6, 5).await.unwrap();
        both(3, 1).await.unwrap();
        tells_once(&log, "with their keys in the other order");
    })
    .await;
}

#[tokio::test]
async fn a_key_inside_itself_is_no_inversion() {
    everywhere(LockOrder::Refuse, async |pool, _| {
        let again = pool.scope(item(7, async || item(7, nothing).await));
        assert_eq!(inversion(&again.await.unwrap_err()), None);
        for (one, two) in [(7, 8), (8, 9)] {
            let both = item(one, async || item(two, nothing).await);
            pool.scope(both).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn pools_do_not_mix() {
    everywhere(LockOrder::Warn, async |pool, log| {
        let config = Config::new("memory://").lock_order(LockOrder::Warn);
        let other = LockPool::connect(config).await.unwrap();
        let there = item(7, async || user("ann", nothing).await);
        pool.scope(there).await.unwrap();
        let back = user("ann", async || item(7, nothing).await);
        other.scope(back).await.unwrap();
        // A lock of one pool inside a lock of the other, which is no order of either.
        let there = shop(async || other.scope(user("ann", nothing)).await);
        pool.scope(there).await.unwrap();
        let back = user("ann", async || shop(nothing).await);
        other.scope(back).await.unwrap();
        assert_eq!(told(&log), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn siblings_and_spawned_tasks_are_not_inside_one_another() {
    everywhere(LockOrder::Refuse, async |pool, log| {
        let both = || async {
            // Both locks are held before either call goes on.
            let barrier = tokio::sync::Barrier::new(2);
            let both_hold = async || {
                barrier.wait().await;
                Ok(())
            };
            tokio::try_join!(item(7, both_hold), user("ann", both_hold)).map(drop)
        };
        pool.scope(both()).await.unwrap();
        pool.scope(shop(async || both().await)).await.unwrap();
        let task = item(7, async || {
            let task = pool.scope(async { user("ann", nothing).await });
            tokio::spawn(task).await.unwrap()
        });
        pool.scope(task).await.unwrap();
        let id = 7;
        let guard = pool.lock(lock_key!("item:<id>")).ttl(LONG).acquire().await;
        pool.scope(user("ann", nothing)).await.unwrap();
        guard.unwrap().release().await.unwrap();
        // If any of them had recorded an order, this would be refused.
        let back = user("ann", async || item(7, nothing).await);
        pool.scope(back).await.unwrap();
        assert_eq!(told(&log), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn what_was_lost_is_not_held() {
    everywhere(LockOrder::Refuse, async |pool, _| {
        let there = item_until_lost(7, async || user("ann", nothing).await);
        pool.scope(there).await.unwrap();
        let back = user("ann", async || item(8, nothing).await);
        pool.scope(back).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn by_hand_a_key_of_a_template_is_of_its_class() {
    everywhere(LockOrder::Warn, async |pool, log| {
        let id = 7;
        let line = line!() + 1;
        let by_hand = pool.lock(lock_key!("item:<id>")).ttl(LONG);
        let there = by_hand.run(async |_| pool.scope(user("ann", nothing)).await);
        there.await.unwrap().unwrap();
        let back = user("bob", async || item(8, nothing).await);
        pool.scope(back).await.unwrap();
        let told = told(&log);
        let said = format!("elsewhere `item:<id>` ({}:{line}) then ", file!());
        assert!(told.len() == 1 && told[0].contains(&said), "{told:#?}");
    })
    .await;
}

#[tokio::test]
async fn by_hand_any_other_key_is_of_the_place_that_asks() {
    everywhere(LockOrder::Warn, async |pool, log| {
        let (a, b) = (line!() + 1, line!() + 2);
        let one = |id: u32| pool.lock(format!("a{id}")).ttl(LONG);
        let two = |id: u32| pool.lock(format!("b{id}")).ttl(LONG);
        let there = one(1).run(async |_| two(1).run(async |_| ()).await).await;
        there.unwrap().unwrap();
        let back = two(2).run(async |_| one(2).run(async |_| ()).await).await;
        back.unwrap().unwrap();
        let (a, b) = (
            format!("the lock of {}:{a}", file!()),
            format!("the lock of {}:{b}", file!()),
        );
        let said = format!("{b} then {a} here, but elsewhere {a} then {b} ");
        tells_once(&log, &said);
    })
    .await;
}
