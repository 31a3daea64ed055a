//! Spans and events: what a call, a hold and a loss look like.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockError, LockPool, SpanLevel, Wait, distributed_lock};
use tracing::{Instrument as _, Level};

use crate::record::{record, record_at_info, told};
use crate::{CAP, OFTEN};

async fn pool(server: &RedisServer) -> LockPool {
    LockPool::connect(server.url()).await.unwrap()
}

/// Takes the lock inside a span of the caller's, and waits until it is lost.
async fn lose(pool: &LockPool, key: &'static str) {
    let request = async {
        let lock = pool.lock(key).ttl(Duration::from_millis(300));
        lock.acquire().await.unwrap().lost().await
    };
    request
        .instrument(tracing::info_span!("request", id = 7))
        .await;
}

#[tokio::test]
async fn a_loss_is_told_inside_the_callers_span_with_its_function() {
    record_at_info();
    let server = RedisServer::start();
    lose(&pool(&server).await, "lost-at-info").await;
    // The watchdog's thread may hear a test beside this one, which asks for more than INFO.
    let mut told = told(&["lost-at-info"]);
    told.retain(|it| it.level <= Level::INFO);
    let [lost] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(lost.level, Level::WARN);
    assert!(lost.text.contains("lost a lock: "), "{lost:?}");
    assert!(
        lost.text.contains("function=tests/observing/spans.rs:"),
        "{lost:?}"
    );
    let named = ["key=\"lost-at-info\"", "namespace=\"lock:\""];
    assert!(named.iter().all(|it| lost.text.contains(it)), "{lost:?}");
    assert_eq!(lost.spans, ["request id=7"]);
    assert!(
        lost.text.contains("add `renew`") && !lost.text.contains("although it was renewed"),
        "only what is known of it: {lost:?}"
    );
}

#[tokio::test]
async fn at_debug_a_loss_is_inside_the_hold() {
    record();
    let server = RedisServer::start();
    lose(&pool(&server).await, "lost-at-debug").await;
    let lost = &told(&["lost-at-debug", "lost a lock: "])[0];
    assert!(lost.spans[0].starts_with("dlock.hold "), "{lost:?}");
    assert_eq!(lost.spans[1], "request id=7");
}

#[tokio::test]
async fn a_healthy_contended_run_is_silent_at_info() {
    record_at_info();
    contend("contended-at-info").await;
    let warnings = told(&["contended-at-info"]);
    let warnings = warnings.iter().filter(|it| it.level <= Level::INFO);
    assert_eq!(warnings.count(), 0);
}

#[tokio::test]
async fn a_healthy_contended_run_tells_its_story_at_debug() {
    record();
    contend("contended-at-debug").await;
    let about = |words: &[&str]| told(&[&["contended-at-debug"], words].concat());
    let asked_for = about(&["closed dlock.acquire "]);
    assert_eq!(asked_for.len(), 6);
    for asked in &asked_for {
        for field in [
            " waited=",
            " fence=",
            " outcome=",
            " kind=",
            " class=",
            " function=",
        ] {
            assert!(asked.text.contains(field), "{asked:?}");
        }
    }
    assert_eq!(about(&["acquired a lock"]).len(), 6);
    assert!(!about(&["acquired a lock", "\"in_turn\""]).is_empty());
    assert!(!about(&["acquired a lock", "\"handed_on\""]).is_empty());
    assert_eq!(about(&["is done with a lock", "\"in_time\""]).len(), 6);
    let waits = about(&["waits for a lock"]);
    assert!(
        waits.iter().any(|it| it.text.contains("spans.rs")),
        "{waits:?}"
    );
    assert!(about(&[]).iter().all(|it| it.level == Level::DEBUG));
}

/// Three tasks of each of two pools have their turns at one key: in each pool one gets it from the
/// server, two from the task before.
async fn contend(key: &'static str) {
    let server = RedisServer::start();
    // The default time for local hand-offs, 10 ms, may pass within one turn on a busy machine.
    let config = Config::new(server.url()).local_handoff(16, Duration::from_secs(1));
    let pools = [
        LockPool::connect(config.clone()).await.unwrap(),
        LockPool::connect(config).await.unwrap(),
    ];
    let door = pools[0].lock("door").acquire().await.unwrap();
    let turns: Vec<_> = (0..6)
        .map(|it| {
            let request = pools[it / 3].lock(key).wait(Wait::Forever);
            tokio::spawn(async move {
                let held = request.acquire().await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
                held.release().await.unwrap();
            })
        })
        .collect();
    for turn in turns {
        turn.await.unwrap();
    }
    door.release().await.unwrap();
}

#[distributed_lock(key = "body-in-its-hold:<id>")]
async fn annotated(id: u64) -> Result<(), LockError> {
    tracing::info!(id, "inside the body of body-in-its-hold");
    Ok(())
}

#[tokio::test]
async fn a_body_runs_inside_its_hold() {
    record();
    let pool = LockPool::connect("memory://").await.unwrap();
    pool.scope(annotated(7)).await.unwrap();
    tracing::info!("after the body of body-in-its-hold");
    let inside = &told(&["inside the body of body-in-its-hold"])[0];
    assert_eq!(inside.spans.len(), 1, "{inside:?}");
    for field in [
        "dlock.hold ",
        " class=\"body-in-its-hold:<id>\"",
        " key=\"body-in-its-hold:7\"",
        " kind=\"exclusive\"",
        " function=observing::spans::annotated",
        " fence=",
    ] {
        assert!(inside.spans[0].contains(field), "{inside:?}");
    }
    let after = &told(&["after the body of body-in-its-hold"])[0];
    assert!(after.spans.is_empty(), "{after:?}");
    let closed = told(&["closed dlock.hold", "body-in-its-hold"]);
    assert!(closed[0].text.contains("outcome=\"in_time\""), "{closed:?}");
    assert!(closed[0].text.contains("held="), "{closed:?}");
}

/// However a holder leaves its lock: dropped, released in vain, or with its runtime.
#[tokio::test]
async fn no_lock_is_said_to_be_released_that_its_server_still_has() {
    record();
    let server = RedisServer::start();
    let config = Config::new(server.url()).command_timeout(Duration::from_millis(50));
    let pool = LockPool::connect(config).await.unwrap();
    let keys = ["dropped", "in-vain", "left"].map(|it| format!("still-there-{it}"));
    let mut guards = Vec::new();
    for key in &keys {
        let lock = pool.lock(key.as_str()).ttl(CAP).wait(Wait::Forever);
        guards.push(lock.acquire().await.unwrap());
    }
    server.stop_signal();
    let [dropped, in_vain, left] = <[_; 3]>::try_from(guards).unwrap();
    drop(dropped);
    in_vain.release().await.unwrap_err();
    let ended = std::thread::spawn(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let holds = runtime.spawn(async move {
            let _held = left;
            std::future::pending::<()>().await;
        });
        runtime.shutdown_background();
        holds
    });
    ended.join().unwrap().await.unwrap_err();
    for key in &keys {
        let told = told(&[key]);
        assert!(
            told.iter()
                .any(|it| it.text.contains("is done with a lock")),
            "{told:?}"
        );
        let says = told.iter().find(|it| it.text.contains("released"));
        assert!(says.is_none(), "{says:?}");
    }
    server.cont();
}

#[tokio::test]
async fn renewals_are_told() {
    record();
    let server = RedisServer::start();
    let pool = pool(&server).await;
    let lock = pool.lock("renewed-at-debug").ttl(CAP).renew_every(OFTEN);
    let held = lock.acquire().await.unwrap();
    until("it is renewed", CAP, async || {
        !told(&["renewed-at-debug", "renewed a lock", "left="]).is_empty()
    })
    .await;
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_call_without_a_lock_says_why() {
    record();
    let pool = LockPool::connect("memory://").await.unwrap();
    let held = pool.lock("busy-at-debug").acquire().await.unwrap();
    let busy = pool.lock("busy-at-debug").try_acquire().await.unwrap();
    assert!(busy.is_none());
    let dropped = pool.lock("busy-at-debug").wait(Wait::Forever).acquire();
    assert!(
        tokio::time::timeout(Duration::from_millis(50), dropped)
            .await
            .is_err()
    );
    drop(held);
    assert_eq!(told(&["busy-at-debug", "did not get a lock"]).len(), 1);
    assert_eq!(told(&["busy-at-debug", "was dropped"]).len(), 1);
    let closed = |outcome: &str| told(&["closed dlock.acquire", "busy-at-debug", outcome]);
    assert_eq!(closed("outcome=\"busy\"").len(), 1);
    assert_eq!(closed("outcome=\"cancelled\"").len(), 1);
}

#[tokio::test]
async fn the_level_of_spans_can_be_chosen() {
    record_at_info();
    let at_info = Config::new("memory://").span_level(SpanLevel::Info);
    let [at_info, at_debug] = [at_info, Config::new("memory://")].map(LockPool::connect);
    for (pool, key, spans) in [
        (at_info.await, "span-at-info", 2),
        (at_debug.await, "span-at-debug", 0),
    ] {
        pool.unwrap()
            .lock(key)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        let closed = told(&["closed dlock.", key]);
        let closed: Vec<_> = closed.iter().filter(|it| it.level <= Level::INFO).collect();
        assert_eq!(closed.len(), spans, "{closed:?}");
    }
}

/// Whichever of its spans are open: what is told of a lock stands in the caller's.
#[tokio::test]
async fn without_spans_of_its_own_a_lock_is_told_in_the_callers() {
    record();
    let config = Config::new("memory://").span_level(SpanLevel::Trace);
    let pool = LockPool::connect(config).await.unwrap();
    let lock = |wait| pool.lock("span-at-trace").wait(wait).acquire();
    async {
        let held = lock(Wait::Forever).await.unwrap();
        assert!(lock(Wait::Once).await.unwrap_err().is_busy());
        let mut waits = Box::pin(lock(Wait::Forever));
        assert!(futures_util::poll!(&mut waits).is_pending());
        drop(waits);
        held.release().await.unwrap();
    }
    .instrument(tracing::info_span!("request"))
    .await;
    for says in [
        "acquired a lock",
        "did not get",
        "was dropped",
        "is done with",
    ] {
        let [event] = &told(&["span-at-trace", says])[..] else {
            panic!("{says}: {:?}", told(&["span-at-trace"]))
        };
        assert_eq!(event.spans, ["request"], "{says}");
    }
}
