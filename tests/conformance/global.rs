//! The global pools of a process. They can't be reset, so each test runs in a process of its own.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use dlock_runtime::{Config, LockError, LockListener, LockPool, LostCause, distributed_lock};
use dlock_tests::alone;
use futures_util::FutureExt;

use crate::backends::{LONG, is_lost, ms, patient};

#[distributed_lock(key = "k", ttl = "60s", wait = "0s")]
async fn annotated() -> Result<&'static str, LockError> {
    Ok("ran")
}

#[distributed_lock(key = "k", ttl = "60s", wait = "0s", pool = "billing")]
async fn annotated_for_billing() -> Result<&'static str, LockError> {
    Ok("ran")
}

/// Runs a test in a process of its own, on a runtime of its own.
pub(crate) fn alone_on(name: &str, paused: bool, test: impl Future<Output = ()>) {
    alone(name, || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder
            .enable_all()
            .start_paused(paused)
            .build()
            .unwrap()
            .block_on(test);
    });
}

fn config_error<T: std::fmt::Debug>(answer: Result<T, LockError>, says: &str) {
    match answer {
        Err(LockError::Config { why, .. }) => assert!(why.to_string().contains(says), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn before_init_everything_says_what_to_call() {
    alone_on(
        "global::before_init_everything_says_what_to_call",
        false,
        async {
            let error = dlock_runtime::pool().unwrap_err();
            assert!(matches!(error, LockError::NotInitialized));
            assert!(
                error.to_string().contains("dlock_runtime::init(\"redis://"),
                "{error}"
            );
            assert!(matches!(annotated().await, Err(LockError::NotInitialized)));
            config_error(annotated_for_billing().await, "init_named(\"billing\"");
            config_error(dlock_runtime::named("billing"), "there are none yet");
            assert!(
                dlock_runtime::shutdown().await.is_complete(),
                "nothing to end"
            );
        },
    );
}

#[test]
fn init_makes_the_pool_that_functions_use() {
    alone_on(
        "global::init_makes_the_pool_that_functions_use",
        false,
        async {
            let pool = dlock_runtime::init("memory://").await.unwrap();
            assert_eq!(annotated().await.unwrap(), "ran");
            let held = dlock_runtime::pool()
                .unwrap()
                .lock("k")
                .acquire()
                .await
                .unwrap();
            assert!(annotated().await.unwrap_err().is_busy());
            assert!(
                pool.lock("k").try_acquire().await.unwrap().is_none(),
                "it is the same pool"
            );
            held.release().await.unwrap();
        },
    );
}

#[test]
fn init_twice_is_refused_and_the_first_stays() {
    alone_on(
        "global::init_twice_is_refused_and_the_first_stays",
        false,
        async {
            let pool = dlock_runtime::init("memory://").await.unwrap();
            let _held = pool.lock("k").acquire().await.unwrap();
            config_error(
                dlock_runtime::init("memory://").await,
                "call it once, in main",
            );
            config_error(dlock_runtime::init("no url").await, "call it once, in main");
            assert!(
                annotated().await.unwrap_err().is_busy(),
                "the first pool is in use"
            );
        },
    );
}

#[test]
fn of_two_inits_at_once_one_wins() {
    alone_on("global::of_two_inits_at_once_one_wins", false, async {
        let server = dlock_harness::RedisServer::start();
        let init = || dlock_runtime::init(patient(server.url()));
        let (one, two) = tokio::join!(init(), init());
        assert_eq!(u8::from(one.is_ok()) + u8::from(two.is_ok()), 1);
        config_error(one.and(two), "call it once, in main");
        assert_eq!(annotated().await.unwrap(), "ran");
    });
}

#[test]
fn a_failed_init_leaves_no_pool_and_can_be_repeated() {
    alone_on(
        "global::a_failed_init_leaves_no_pool_and_can_be_repeated",
        false,
        async {
            let nobody = dlock_harness::RedisServer::start();
            nobody.kill9();
            let error = dlock_runtime::init(nobody.url()).await.unwrap_err();
            assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
            config_error(
                dlock_runtime::init("http://localhost").await,
                "unknown scheme",
            );
            assert!(matches!(
                dlock_runtime::pool(),
                Err(LockError::NotInitialized)
            ));
            assert!(matches!(annotated().await, Err(LockError::NotInitialized)));
            dlock_runtime::init("memory://").await.unwrap();
            assert_eq!(annotated().await.unwrap(), "ran");
        },
    );
}

#[test]
fn lazy_finds_a_wrong_address_at_the_first_lock() {
    alone_on(
        "global::lazy_finds_a_wrong_address_at_the_first_lock",
        false,
        async {
            let server = dlock_harness::RedisServer::start();
            server.kill9();
            dlock_runtime::init(Config::new(server.url()).lazy())
                .await
                .unwrap();
            let error = annotated().await.unwrap_err();
            assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
            server.restart_empty();
            let again = dlock_runtime::pool()
                .unwrap()
                .lock("k")
                .wait(LONG)
                .run(async |_| 7)
                .await;
            assert_eq!(again.unwrap(), 7);
        },
    );
}

#[test]
fn pools_have_names() {
    alone_on("global::pools_have_names", false, async {
        let billing = dlock_runtime::init_named("billing", "memory://")
            .await
            .unwrap();
        dlock_runtime::init_named("audit", "memory://")
            .await
            .unwrap();
        config_error(
            dlock_runtime::init_named("billing", "memory://").await,
            "twice for \"billing\"",
        );
        config_error(dlock_runtime::named("biling"), "there are: audit, billing");
        config_error(
            dlock_runtime::init_named("", "memory://").await,
            "init_named needs a name",
        );
        config_error(
            dlock_runtime::init_named("broken", "no url").await,
            "no scheme",
        );
        config_error(dlock_runtime::named("broken"), "there are: audit, billing");
        let _held = billing.lock("k").acquire().await.unwrap();
        assert!(annotated_for_billing().await.unwrap_err().is_busy());
        assert!(
            matches!(annotated().await, Err(LockError::NotInitialized)),
            "no global pool"
        );
        assert!(
            dlock_runtime::named("audit")
                .unwrap()
                .lock("k")
                .try_acquire()
                .await
                .unwrap()
                .is_some()
        );
    });
}

#[test]
fn a_scope_goes_before_the_global_pool_and_a_name_before_the_scope() {
    alone_on(
        "global::a_scope_goes_before_the_global_pool_and_a_name_before_the_scope",
        false,
        async {
            let global = dlock_runtime::init("memory://").await.unwrap();
            let named = dlock_runtime::init_named("billing", "memory://")
                .await
                .unwrap();
            let scoped = LockPool::connect("memory://").await.unwrap();
            let _held = global.lock("k").acquire().await.unwrap();
            assert_eq!(scoped.scope(annotated()).await.unwrap(), "ran");
            assert!(annotated().await.unwrap_err().is_busy());
            let _also = named.lock("k").acquire().await.unwrap();
            assert!(
                scoped
                    .scope(annotated_for_billing())
                    .await
                    .unwrap_err()
                    .is_busy()
            );
        },
    );
}

#[test]
fn after_shutdown_no_lock_is_given() {
    alone_on("global::after_shutdown_no_lock_is_given", false, async {
        let pool = dlock_runtime::init("memory://").await.unwrap();
        let named = dlock_runtime::init_named("billing", "memory://")
            .await
            .unwrap();
        assert!(dlock_runtime::shutdown().await.is_complete());
        for pool in [&pool, &named] {
            let refused = pool.lock("k").acquire().await;
            assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
        }
        assert!(matches!(annotated().await, Err(LockError::ShutDown)));
        let mut ran = false;
        assert!(pool.lock("k").run(async |_| ran = true).await.is_err());
        assert!(!ran);
    });
}

/// A program that restarts its parts, or a plugin that is loaded again.
#[test]
fn after_a_finished_shutdown_init_makes_another_pool() {
    alone_on(
        "global::after_a_finished_shutdown_init_makes_another_pool",
        true,
        async {
            let init = || dlock_runtime::init("memory://");
            let init_named = || dlock_runtime::init_named("billing", "memory://");
            let (old, _) = (init().await.unwrap(), init_named().await.unwrap());
            let held = old.lock("k").ttl(LONG).acquire().await.unwrap();
            let is_closing = || dlock_runtime::closing().now_or_never().is_some();
            let closing = dlock_runtime::closing();
            assert!(!is_closing());
            // It waits for the held lock.
            let mut shutdown = Box::pin(dlock_runtime::shutdown());
            assert!(futures_util::poll!(&mut shutdown).is_pending());
            closing.await;
            assert!(is_closing());
            config_error(init().await, "is being shut down");
            config_error(init_named().await, "is being shut down");
            drop(shutdown);
            config_error(init().await, "is being shut down");
            assert_eq!(dlock_runtime::shutdown().await.held(), 1);
            assert!(matches!(annotated().await, Err(LockError::ShutDown)));
            assert!(is_closing(), "until there is another pool");
            let (one, two) = tokio::join!(init(), init());
            assert_eq!(u8::from(one.is_ok()) + u8::from(two.is_ok()), 1);
            let new = one.or(two).unwrap();
            let alone = dlock_runtime::init_named("alone", "memory://").await;
            let alone = alone.unwrap();
            let of_alone = alone.lock("k").ttl(LONG).acquire().await.unwrap();
            let mut ends = Box::pin(alone.shutdown());
            assert!(futures_util::poll!(&mut ends).is_pending());
            assert!(!is_closing(), "one of them ends by itself");
            drop(of_alone);
            init_named().await.unwrap();
            assert_eq!(
                annotated().await.unwrap(),
                "ran",
                "in a new server in memory"
            );
            assert_eq!(annotated_for_billing().await.unwrap(), "ran");
            assert!(held.is_held(), "the guard stays with its pool");
            held.release().await.unwrap();
            let refused = old.lock("k").acquire().await;
            assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
            config_error(init().await, "call it once, in main");
            drop(new.lock("k").acquire().await.unwrap());
        },
    );
}

/// The pool that another replaces is dropped then, and with it what the program gave it.
#[test]
fn what_a_former_pool_drops_may_use_the_pool() {
    struct Asks(mpsc::Sender<Result<bool, mpsc::RecvTimeoutError>>);
    impl LockListener for Asks {}
    impl Drop for Asks {
        fn drop(&mut self) {
            let (there, here) = mpsc::channel();
            // Not on this thread, which would wait for ever if the pools were locked.
            std::thread::spawn(move || there.send(dlock_runtime::pool().is_ok()));
            self.0.send(here.recv_timeout(LONG)).unwrap();
        }
    }
    alone_on(
        "global::what_a_former_pool_drops_may_use_the_pool",
        false,
        async {
            let (told, hears) = mpsc::channel();
            let config = Config::new("memory://").listener(Asks(told));
            drop(dlock_runtime::init(config).await.unwrap());
            assert!(dlock_runtime::shutdown().await.is_complete());
            dlock_runtime::init("memory://").await.unwrap();
            assert_eq!(hears.recv(), Ok(Ok(true)));
        },
    );
}

/// On tokio's paused clock, so that the five seconds take no time.
#[test]
fn shutdown_counts_what_is_still_held_after_five_seconds() {
    alone_on(
        "global::shutdown_counts_what_is_still_held_after_five_seconds",
        true,
        async {
            let pool = dlock_runtime::init("memory://").await.unwrap();
            let named = dlock_runtime::init_named("billing", "memory://")
                .await
                .unwrap();
            let held = [pool.lock("a"), pool.lock("b"), named.lock("a")]
                .map(|lock| lock.ttl(LONG).renew());
            let [a, b, c] = held;
            let held = (
                a.acquire().await.unwrap(),
                b.acquire().await.unwrap(),
                c.acquire().await.unwrap(),
            );
            let endless = |pool: &LockPool| {
                let body = pool.lock("body").ttl(LONG).renew();
                tokio::spawn(body.run(async |_| std::future::pending::<()>().await))
            };
            let bodies = [endless(&pool), endless(&named)];
            tokio::task::yield_now().await;
            let begun = tokio::time::Instant::now();
            let drained = dlock_runtime::shutdown().await;
            assert_eq!(
                (drained.held(), drained.unconfirmed(), drained.is_complete()),
                (3, 0, false)
            );
            assert_eq!(begun.elapsed(), Duration::from_secs(5));
            assert!(held.0.is_held(), "no guard is taken away");
            for body in bodies {
                is_lost(body.await.unwrap(), LostCause::ShutDown);
            }
            drop(held);
            assert!(dlock_runtime::shutdown().await.is_complete());
        },
    );
}

#[test]
fn shutdown_lets_bodies_end_and_waiters_go() {
    alone_on(
        "global::shutdown_lets_bodies_end_and_waiters_go",
        false,
        async {
            let server = dlock_harness::RedisServer::start();
            let pool = dlock_runtime::init(patient(server.url())).await.unwrap();
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            let (started, start) = tokio::sync::oneshot::channel();
            let body = tokio::spawn(pool.lock("k").ttl(LONG).run(async |_| {
                started.send(()).unwrap();
                ended.await.unwrap();
                7
            }));
            start.await.unwrap();
            let waiter = tokio::spawn(pool.lock("k").wait(LONG).acquire());
            let shutdown = tokio::spawn(dlock_runtime::shutdown());
            let refused = waiter.await.unwrap();
            assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
            assert!(!shutdown.is_finished());
            let at = Instant::now();
            end.send(()).unwrap();
            assert_eq!(body.await.unwrap().unwrap(), 7);
            assert!(shutdown.await.unwrap().is_complete());
            assert!(
                at.elapsed() < ms(4_000),
                "by its end, not by the five seconds"
            );
            assert_eq!(server.keys().await, ["lock:@fence"]);
        },
    );
}
