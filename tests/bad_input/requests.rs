//! Requests that can't be fulfilled: they are refused before anything is sent.

use std::time::Duration;

use dlock_harness::RedisServer;
use dlock_runtime::{Config, Key, LockError, LockPool};

use crate::lab::{LONG, lazy, misconfigured, ms, nothing_left};

#[tokio::test]
async fn a_lease_out_of_bounds_is_refused_before_anything_is_sent() {
    let server = RedisServer::start();
    let pool = lazy(server.url()).await; // connecting sends something
    let day = Duration::from_secs(86_400);
    for (ttl, says) in [
        (ms(0), "minimum of 10ms"),
        (ms(9), "minimum of 10ms"),
        (day + ms(1), "maximum of 24h: use a shorter ttl and `renew`"),
        (Duration::MAX, "maximum of 24h"),
    ] {
        let mut ran = false;
        let error = pool
            .lock("k")
            .ttl(ttl)
            .run(async |_| ran = true)
            .await
            .unwrap_err();
        misconfigured(&error, says);
        assert!(!ran);
        misconfigured(
            &LockPool::connect(Config::new(server.url()).default_ttl(ttl))
                .await
                .unwrap_err(),
            "default_ttl",
        );
    }
    for (request, says) in [
        (pool.lock("k").max_hold(day), "add `renew`"),
        (pool.lock("k").max_renewals(4), "add `renew`"),
        (
            pool.lock("k").renew().max_renewals(0),
            "max_renewals 0 would never renew",
        ),
        (
            pool.lock("k").renew().max_hold(ms(9)),
            "shorter than a ttl of 30s",
        ),
        (pool.lock("k").min_hold(LONG), "longer than the ttl 30s"),
        (pool.lock("k").min_hold(ms(9)), "minimum of 10ms"),
        (
            pool.lock("k").renew().min_hold(day + ms(1)),
            "maximum of 24h",
        ),
    ] {
        misconfigured(&request.acquire().await.unwrap_err(), says);
    }
    for (interval, says) in [
        (ms(0), "minimum of 1ms"),
        (ms(500), "less than half of the ttl"),
    ] {
        let request = pool.lock("k").ttl(ms(1000)).renew_every(interval);
        misconfigured(&request.acquire().await.unwrap_err(), says);
    }
    nothing_was_sent(&server).await;
}

#[tokio::test]
async fn a_key_that_can_be_none_is_refused_before_anything_is_sent() {
    let server = RedisServer::start();
    let pool = lazy(server.url()).await;
    let long = "k".repeat(508);
    for (key, says) in [
        ("", "name what is locked, such as"),
        (
            long.as_str(),
            "513 bytes, namespace included, and at most 512 are allowed: hash the long part",
        ),
        ("a\nb", "use printable text"),
        ("a\0", "use printable text"),
        ("a\u{7f}", "use printable text"),
        ("@fence", "must not begin with `@`"),
        ("a{b", "write `{tag}` or no brace"),
        ("{}", "put text or a value such as"),
        (
            "item:<id>",
            "write `lock_key!(\"item:<id>\")`, or `Key::verbatim",
        ),
    ] {
        let mut ran = false;
        let error = pool
            .lock(key)
            .wait(LONG)
            .run(async |_| ran = true)
            .await
            .unwrap_err();
        assert!(matches!(&error, LockError::InvalidKey { .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(error.key(), Some(&Key::from(key)));
        assert!(!ran);
        assert!(matches!(
            pool.holder(key).await,
            Err(LockError::InvalidKey { .. })
        ));
    }
    nothing_was_sent(&server).await;
}

async fn nothing_was_sent(server: &RedisServer) {
    nothing_left(server).await;
    for command in ["eval", "evalsha", "get", "set"] {
        assert_eq!(server.commandstats(command).await, 0, "{command}");
    }
}

#[tokio::test]
async fn every_bad_setting_is_in_one_error() {
    let config = Config::new("redis://host:port")
        .namespace("{")
        .connections(0)
        .poll_interval(ms(1_001))
        .command_timeout(ms(0))
        .local_handoff(1_024, ms(10));
    let error = LockPool::connect(config.max_in_flight(0).repair_missing_ttl(ms(1)))
        .await
        .unwrap_err();
    for setting in [
        "url",
        "namespace",
        "connections",
        "command_timeout",
        "poll_interval",
        "max_in_flight",
        "local_handoff",
        "repair_missing_ttl",
    ] {
        misconfigured(&error, &format!("{setting}: "));
    }
}

#[tokio::test]
async fn a_lock_is_handed_on_for_a_second_at_most() {
    let config = Config::new("memory://").local_handoff(1_023, ms(1_001));
    let error = LockPool::connect(config).await.unwrap_err();
    misconfigured(&error, "local_handoff: 1.001s is out of range");
    let config = Config::new("memory://").local_handoff(1_023, ms(1_000));
    LockPool::connect(config).await.unwrap();
}
