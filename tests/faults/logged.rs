//! What only the log says: an outage at its first sign, and once; what a shutdown leaves; a body
//! that was left out; what a check of the server found.

use std::time::Duration;

use dlock_harness::{Proxy, RedisServer, until};
use dlock_runtime::{Concern, Config, LockError, LockGuard, LockPool, Release, distributed_lock};
use dlock_tests::recorded::{lines, record};

use crate::lab::{CAP, LONG, Lab};

const RENEWED: Duration = Duration::from_millis(200);

/// No call can connect or renew, for as long as several attempts of either take.
async fn outage(lab: &Lab, pool: &LockPool, held: &LockGuard) {
    lab.proxy.refuse();
    lab.proxy.cut_all();
    for _ in 0..3 {
        pool.ping().await.unwrap_err();
    }
    until("renewals fail", CAP, async || {
        held.remaining() + RENEWED * 10 < LONG
    })
    .await;
    lab.proxy.pass();
    until("it is over", CAP, async || pool.ping().await.is_ok()).await;
}

#[tokio::test]
async fn an_outage_is_told_once_and_long_before_a_lease_is_lost() {
    record();
    let lab = Lab::new();
    // An attempt that ends on a busy machine long after the outage must not count as a second one.
    let pool = lab.pool_of(lab.config().connect_timeout(CAP)).await;
    let held = pool.lock("told").ttl(LONG).renew_every(RENEWED);
    let held = held.acquire().await.unwrap();
    let address = lab.proxy.url();
    let says = [
        ["can't connect to the lock server: ", address.as_str()],
        ["can't renew a lock", "\"told\""],
        ["a lock is renewed again", "\"told\""],
    ];
    for so_far in 0..2 {
        let before = held.remaining();
        outage(&lab, &pool, &held).await;
        assert!(held.is_held(), "{before:?} were left");
        // Renewed again, so that the next outage is a new one for the watchdog too.
        until("it is renewed", CAP, async || {
            held.remaining() + RENEWED * 3 > LONG
        })
        .await;
        for says in &says {
            let heard = lines(says);
            assert_eq!(heard.len(), so_far + 1, "{says:?}: {heard:#?}");
        }
    }
    held.release().await.unwrap();
}

/// The server answers, so there is no error of the connection.
#[tokio::test]
async fn a_renewal_that_the_server_refuses_is_told_once() {
    record();
    let server = RedisServer::start();
    let pool = LockPool::connect(server.url()).await.unwrap();
    let held = pool.lock("refused").ttl(LONG).renew_every(RENEWED);
    let held = held.acquire().await.unwrap();
    server.cmd(&["ACL", "SETUSER", "default", "-pexpire"]).await;
    until("renewals fail", CAP, async || {
        held.remaining() + RENEWED * 10 < LONG
    })
    .await;
    let told = lines(&["can't renew a lock", "\"refused\"", "`LockPool::check`"]);
    assert_eq!(told.len(), 1, "{told:?}");
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_shutdown_leaves_is_named() {
    record();
    let pool = LockPool::connect("memory://").await.unwrap();
    let held = pool.lock("still:held").acquire().await.unwrap();
    drop(pool.lock("given:back").acquire().await.unwrap());
    let drained = pool.shutdown().await;
    assert_eq!((drained.held(), drained.unconfirmed()), (1, 0));
    assert_eq!(
        lines(&["still held when shutdown", "\"still:held\""]).len(),
        1
    );
    assert!(lines(&["still held", "given:back"]).is_empty());
    held.release().await.unwrap();
}

#[distributed_lock(key = "left:<id>", on_busy = "skip")]
async fn job(id: u8) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

/// `Ok(())` does not say which process did the work.
#[tokio::test]
async fn a_body_that_was_left_out_is_told_with_who_has_its_lock() {
    record();
    let pool = LockPool::connect("memory://").await.unwrap();
    let held = pool.lock("left:1").acquire().await.unwrap();
    pool.scope(job(1)).await.unwrap();
    pool.scope(job(2)).await.unwrap();
    let skipped = lines(&["left a body out", "\"left:1\"", "of this process"]);
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert!(lines(&["left a body out", "\"left:2\""]).is_empty());
    held.release().await.unwrap();
}

/// The caller gets only the error, so nobody sees whether the body succeeded.
#[tokio::test]
async fn a_value_that_a_lost_lock_takes_along_is_told() {
    record();
    let server = RedisServer::start();
    let pool = LockPool::connect(server.url()).await.unwrap();
    let strict = |key| pool.lock(key).release(Release::Strict);
    let gone = async |key: &str| server.cmd(&["DEL", &format!("lock:{key}")]).await;
    let value = strict("value:gone").run(async |_| gone("value:gone").await);
    assert!(value.await.unwrap_err().is_lost());
    let failed = strict("error:gone").run(async |_| {
        gone("error:gone").await;
        Err::<(), _>("no such order")
    });
    assert!(failed.await.unwrap_err().is_lost());
    let nothing = strict("nothing:gone").run(async |_| drop(gone("nothing:gone").await));
    assert!(nothing.await.unwrap_err().is_lost());
    strict("value:kept").run(async |_| 7).await.unwrap();
    let dropped = |key: &str| lines(&["dropped what a body returned", key]).len();
    let keys = ["value:gone", "error:gone", "nothing:gone", "value:kept"];
    assert_eq!(keys.map(|key| dropped(&format!("\"{key}\""))), [1, 1, 0, 0]);
}

/// A server with three findings, which `init` logs at three levels.
fn endangered() -> RedisServer {
    let evicts = ["--maxmemory", "10mb", "--maxmemory-policy", "volatile-lru"];
    RedisServer::builder().args(evicts).start()
}

#[tokio::test]
async fn what_a_check_finds_is_told_once_when_a_pool_is_made() {
    record();
    let server = endangered();
    let address = server.addr().to_string();
    let url = format!("{}?protocol=resp2", server.url());
    let lazy = LockPool::connect(Config::new(&url).lazy()).await.unwrap();
    lazy.ping().await.unwrap();
    let mut findings = lazy.check().await.unwrap();
    findings.retain(|it| it.concern() != Concern::Version); // of Redis 6
    assert_eq!(findings.len(), 3);
    let said = || {
        let mut said = lines(&[&address, "concern="]);
        said.retain(|it| !it.contains("concern=Version"));
        said
    };
    assert_eq!(said(), [""; 0], "not by a lazy pool, nor by `check`");

    let pool = LockPool::connect(url).await.unwrap();
    pool.ping().await.unwrap();
    let [evicts, restarts] = &said()[..] else {
        panic!("{:?}", said());
    };
    for part in [
        "WARN",
        "can harm locks",
        "Eviction",
        "volatile-lru",
        "CONFIG SET",
    ] {
        assert!(evicts.contains(part), "{part}: {evicts}");
    }
    for part in ["INFO", "may matter to locks", "Persistence", "CONFIG SET"] {
        assert!(restarts.contains(part), "{part}: {restarts}");
    }
    // One for each pool, as before.
    assert_eq!(lines(&[&address, "no pushes"]).len(), 2);
}

/// A server that does not answer the check, or refuses its commands, does not stop `init`.
#[tokio::test]
async fn a_check_without_an_answer_is_not_told_and_fails_nothing() {
    record();
    let server = endangered();
    let proxy = Proxy::start(server.addr());
    let config = Config::new(proxy.url()).command_timeout(RENEWED);
    // PING is the first command of the check, and none of the handshake.
    proxy.on(
        dlock_harness::Matcher::command("PING"),
        dlock_harness::Action::HoldReply,
    );
    let begun = std::time::Instant::now();
    let pool = LockPool::connect(config).await.unwrap();
    assert!(begun.elapsed() >= RENEWED, "the check had its time");
    proxy.clear_triggers();
    proxy.release_held();
    assert_eq!(lines(&[&proxy.url(), "concern="]), [""; 0]);
    until("the pool works", CAP, async || pool.ping().await.is_ok()).await;
}
