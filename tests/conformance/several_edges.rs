//! Edge cases of several keys: what happens to all if one is lost, busy, nested, late or can't be
//! had.

use std::future::pending;

use dlock_harness::RedisServer;
use dlock_harness::polls::{Cut, When, dropped_at};
use dlock_runtime::{
    Config, LockError, LockGuard, LockOrder, LockPool, LockRequest, LostCause, Released, Wait,
    distributed_lock,
};
use tokio::time::Instant;

use crate::backends::{
    LONG, given_back, is_free, is_lost, ms, patient, running, settled, soon, soon_free,
};

on_every_backend!(
    scripts:
    a_downgrade_of_several_lets_readers_in_at_each,
    a_body_that_still_holds_one_of_several_does_not_wait_for_itself,
    several_where_the_body_reads_one,
    several_that_the_body_holds_are_joined,
    several_that_are_dropped_while_they_wait,
    several_and_shutdown,
    shutdown_while_several_wait,
    extending_several;
    scripts_and_seconds:
    the_first_ones_last_while_each_of_many_is_waited_for,
    several_are_stopped_at_shutdown_after_what_is_inside,
);

#[distributed_lock(keys = ["a", "b"], ttl = "2s", on_lost = "finish", guard = lock, pool = pool.clone())]
async fn with_a_rest(pool: &LockPool) -> Result<LockError, LockError> {
    let first = lock.parts().nth(1).unwrap();
    first.extend(LONG).await.unwrap();
    lock.lost().await;
    assert!(!lock.is_held());
    first.verify().await?;
    Ok(pool.lock("b").wait(ms(700)).acquire().await.unwrap_err())
}

async fn a_downgrade_of_several_lets_readers_in_at_each(pool: LockPool) {
    let held = pool
        .lock_all(["a", "b"])
        .write()
        .ttl(LONG)
        .acquire()
        .await
        .unwrap();
    held.downgrade().await.unwrap();
    for key in ["a", "b"] {
        let reader = pool.lock(key).read().try_acquire().await.unwrap();
        assert!(given_back(reader).await, "no reader at {key}");
    }
    held.release().await.unwrap();
}

async fn a_body_that_still_holds_one_of_several_does_not_wait_for_itself(pool: LockPool) {
    let error = with_a_rest(&pool).await.unwrap();
    assert!(
        matches!(error, LockError::WouldDeadlock { .. }),
        "{error:?}"
    );
}

async fn several_where_the_body_reads_one(pool: LockPool) {
    let ran = pool.lock("b").read().ttl(LONG).run(async |_| {
        let write = pool
            .lock_all(["a", "b"])
            .write()
            .acquire()
            .await
            .unwrap_err();
        let exclusive = pool.lock_all(["a", "b"]).acquire().await.unwrap_err();
        soon("a is free", async || {
            pool.holder("a").await.unwrap().is_none()
        })
        .await;
        let read = pool.lock_all(["a", "b"]).read().acquire().await.unwrap();
        let found = read.release().await.unwrap();
        (write, exclusive, found)
    });
    let (write, exclusive, found) = ran.await.unwrap();
    assert!(
        matches!(write, LockError::WouldDeadlock { .. }),
        "{write:?}"
    );
    assert!(
        matches!(exclusive, LockError::Refused { .. }),
        "{exclusive:?}"
    );
    assert_eq!(found, Released::StillHeld(1));
    soon_free(&pool, "a").await;
}

async fn several_that_are_dropped_while_they_wait(pool: LockPool) {
    let other = pool.lock("b").ttl(LONG).acquire().await.unwrap();
    let waiting = tokio::spawn(
        pool.lock_all(["a", "b"])
            .ttl(LONG)
            .min_hold(LONG)
            .wait(LONG)
            .acquire(),
    );
    soon("a is held", async || !is_free(&pool, "a").await).await;
    settled(&pool).await;
    waiting.abort();
    soon_free(&pool, "a").await;
    other.release().await.unwrap();
    soon_free(&pool, "b").await;
}

async fn several_and_shutdown(pool: LockPool) {
    let held = pool.lock_all(["a", "b"]).ttl(LONG).acquire().await.unwrap();
    let drained = tokio::spawn({
        let pool = pool.clone();
        async move { pool.shutdown().await }
    });
    settled(&pool).await;
    held.release().await.unwrap();
    assert!(drained.await.unwrap().is_complete());
    let both = pool.lock_all(["a", "b"]).acquire().await;
    assert!(matches!(both, Err(LockError::ShutDown)), "{both:?}");
}

async fn several_are_stopped_at_shutdown_after_what_is_inside(pool: LockPool) {
    let both = pool.lock_all(["a", "b"]).ttl(LONG);
    let both = both.run(async |both: &LockGuard| {
        let inner = pool
            .lock("c")
            .ttl(LONG)
            .run(async |_| pending::<()>().await);
        is_lost(inner.await, LostCause::ShutDown);
        assert!(both.parts().all(LockGuard::is_held), "the inner one first");
        pending::<()>().await;
    });
    let shutdown = async {
        running(&pool, 3).await;
        pool.shutdown().await
    };
    let (both, drained) = tokio::join!(both, shutdown);
    is_lost(both, LostCause::ShutDown);
    assert!(drained.is_complete(), "{drained:?}");
    for key in ["a", "b", "c"] {
        assert!(pool.holder(key).await.unwrap().is_none(), "{key}");
    }
}

async fn shutdown_while_several_wait(pool: LockPool) {
    let other = pool.lock("b").ttl(LONG).acquire().await.unwrap();
    let waiting = tokio::spawn(pool.lock_all(["a", "b"]).ttl(LONG).wait(LONG).acquire());
    soon("a is held", async || {
        pool.holder("a").await.unwrap().is_some()
    })
    .await;
    settled(&pool).await;
    let drained = tokio::spawn({
        let pool = pool.clone();
        async move { pool.shutdown().await }
    });
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShutDown), "{error:?}");
    other.release().await.unwrap();
    assert!(drained.await.unwrap().is_complete());
    assert!(pool.holder("a").await.unwrap().is_none());
}

async fn extending_several(pool: LockPool) {
    let held = pool
        .lock_all(["a", "b"])
        .ttl(ms(3000))
        .acquire()
        .await
        .unwrap();
    held.extend(LONG).await.unwrap();
    assert!(held.parts().all(|part| part.remaining() > LONG / 2));
    held.verify().await.unwrap();
    held.release().await.unwrap();
}

async fn the_first_ones_last_while_each_of_many_is_waited_for(pool: LockPool) {
    let keys: Vec<String> = (0..8).map(|it| format!("k{it}")).collect();
    let mut others = Vec::new();
    for key in &keys {
        others.push(pool.lock(key.as_str()).ttl(LONG).acquire().await.unwrap());
    }
    let waiting = tokio::spawn(pool.lock_all(keys).ttl(ms(3_000)).wait(LONG).acquire());
    for other in others {
        settled(&pool).await;
        // Each shorter than a third of the ttl, in sum longer than the ttl.
        tokio::time::sleep(ms(600)).await;
        assert!(
            !is_free(&pool, "k0").await,
            "k0 is held by us or by those who wait for all"
        );
        other.release().await.unwrap();
    }
    drop(waiting.await.unwrap().unwrap());
}

/// Even while the pool is being shut down, if the body holds all of them.
async fn several_that_the_body_holds_are_joined(pool: LockPool) {
    let reads = |request: LockRequest| request.ttl(LONG).read().wait(Wait::Once);
    let both = || reads(pool.lock_all(["a", "b"]));
    let one = reads(pool.lock("a")).run(async |_| both().run(async |_| ()).await);
    one.await.unwrap().unwrap();
    let all = both().run(async |_| {
        pool.closing().await;
        both().run(async |_| ()).await
    });
    let shutdown = async {
        running(&pool, 2).await;
        pool.shutdown().await
    };
    let (joined, drained) = tokio::join!(all, shutdown);
    joined.unwrap().unwrap();
    assert!(drained.is_complete(), "{drained:?}");
}

#[tokio::test]
async fn what_is_joined_is_in_no_order() {
    let config = Config::new("memory://").lock_order(LockOrder::Refuse);
    let pool = LockPool::connect(config).await.unwrap();
    let accounts = |keys: &[&str]| pool.lock_all(keys.iter().copied()).read();
    let inner = accounts(&["a"]).run(async |_| {
        pool.lock("b")
            .read()
            .run(async |_| {
                accounts(&["a"]).acquire().await.map(drop)?; // alone, it joins the outer hold
                accounts(&["a", "b"]).acquire().await.map(drop)
            })
            .await?
    });
    inner.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_several_are_asked_for_inside_is_in_an_order() {
    let config = Config::new("memory://").lock_order(LockOrder::Refuse);
    let pool = LockPool::connect(config).await.unwrap();
    let (one, several) = (|| pool.lock("item"), || pool.lock_all(["a", "b"]));
    let there = one().run(async |_| several().acquire().await.map(drop));
    there.await.unwrap().unwrap();
    let back = several().run(async |_| one().acquire().await.map(drop));
    back.await.unwrap().unwrap_err();
    let three = || pool.lock_all(["c", "d"]);
    let there = several().run(async |_| three().acquire().await.map(drop));
    there.await.unwrap().unwrap();
    let back = three().run(async |_| several().acquire().await.map(drop));
    let error = back.await.unwrap().unwrap_err();
    let is_refused =
        matches!(&error, LockError::WouldDeadlock { inversion, .. } if inversion.is_some());
    assert!(is_refused, "{error:?}");
}

#[tokio::test]
async fn what_no_body_began_under_is_not_kept() {
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let mut done = false;
    for polls in 1..60 {
        let a = pool.lock("a").ttl(LONG).acquire().await.unwrap();
        let b = pool.lock("b").ttl(LONG).acquire().await.unwrap();
        let both = pool
            .lock_all(["a", "b"])
            .ttl(LONG)
            .min_hold(LONG)
            .wait(LONG);
        let freeing = pool.clone();
        let others = tokio::spawn(async move {
            settled(&freeing).await;
            tokio::time::sleep(ms(20)).await;
            a.release().await.unwrap();
            tokio::time::sleep(ms(30)).await;
            b.release().await.unwrap();
        });
        let cut = Cut {
            polls,
            when: When::AtOnce,
        };
        let got = dropped_at(cut, both.acquire()).await;
        others.await.unwrap();
        if got.is_some() {
            done = true;
            break;
        }
        for key in ["a", "b"] {
            let begun = Instant::now();
            while !is_free(&pool, key).await {
                assert!(
                    begun.elapsed() < ms(5000),
                    "{key} is kept; dropped after poll {polls}"
                );
                tokio::time::sleep(ms(20)).await;
            }
        }
    }
    assert!(done);
}

#[tokio::test]
async fn a_server_that_is_busy_is_not_asked_without_a_pause() {
    let server = RedisServer::builder()
        .args(["--lua-time-limit", "5"])
        .start();
    let mut counts = Vec::new();
    for all in [false, true] {
        let pool = LockPool::connect(patient(server.url())).await.unwrap();
        drop(pool.lock_all(["x", "y"]).acquire().await.unwrap());
        server.cmd(&["CONFIG", "RESETSTAT"]).await;
        let mut other = server.connect().await;
        let busy = tokio::spawn(async move {
            let _: ::redis::RedisResult<()> = ::redis::cmd("EVAL")
                .arg("while true do end")
                .arg(0)
                .query_async(&mut other)
                .await;
        });
        tokio::time::sleep(ms(200)).await;
        let request = if all {
            pool.lock_all(["a", "b"])
        } else {
            pool.lock("a")
        };
        let error = request.wait(ms(1000)).acquire().await.unwrap_err();
        eprintln!("{error:?}");
        server.cmd(&["SCRIPT", "KILL"]).await;
        busy.await.unwrap();
        // Of the scripts alone: connections that happen to begin now fail too, in pauses of their own.
        let stats: String = server.ask(&["INFO", "commandstats"]).await;
        let scripts = stats.lines().filter(|it| it.starts_with("cmdstat_eval"));
        let rejected = scripts.filter_map(|it| {
            let (_, rejected) = it.split_once("rejected_calls=")?;
            rejected.split(',').next()?.parse::<u64>().ok()
        });
        let count: u64 = rejected.sum();
        assert!(count > 0, "{stats}");
        counts.push(count);
    }
    assert!(counts[1] < counts[0] * 3 + 20, "{counts:?}");
}
