//! Finding the master: what the sentinels say, do not know, or lie about.

use std::time::{Duration, Instant};

use dlock_harness::{RedisServer, Watched, until};
use dlock_runtime::{Config, Credentials, LockError, LockPool, Refusal};
use dlock_tests::{patient, refusal, works};

use crate::CAP;
use dlock_tests::recorded as log;

async fn refused(config: Config) -> (LockError, String) {
    let begun = Instant::now();
    let error = LockPool::connect(config).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(15));
    let text = format!("{error:?}");
    (error, text)
}

#[tokio::test]
async fn the_master_that_a_majority_names_is_used() {
    let watched = Watched::start().await;
    let pool = LockPool::connect(patient(watched.url())).await.unwrap();
    let held = pool.lock("k").acquire().await.unwrap();
    assert_eq!(
        watched.servers[0].ask::<u64>(&["EXISTS", "lock:k"]).await,
        1
    );
    held.release().await.unwrap();
    let shown = format!("{pool:?}");
    assert!(shown.contains("redis+sentinel://127.0.0.1:"), "{shown}");

    // One hangs, one is away: no majority, until one goes on.
    watched.sentinels[0].stop_signal();
    LockPool::connect(patient(watched.url())).await.unwrap();
    watched.sentinels[1].kill9();
    let config = Config::new(watched.url()).connect_timeout(Duration::from_secs(1));
    let (error, text) = refused(config).await;
    assert!(matches!(error, LockError::Unavailable { .. }), "{text}");
    assert!(
        text.contains("no majority of the sentinels names a master"),
        "{text}"
    );
    assert!(
        text.contains("no answer") && text.contains(" says 127.0.0.1:"),
        "{text}"
    );
    // What is connected goes on.
    works(&pool, "k").await.unwrap();
    watched.sentinels[0].cont();
    LockPool::connect(patient(watched.url())).await.unwrap();
}

/// The pool's address names the sentinels.
#[tokio::test]
async fn an_error_names_the_master() {
    let watched = Watched::start_steady().await;
    let config = Config::new(watched.url()).command_timeout(Duration::from_millis(300));
    let pool = LockPool::connect(config).await.unwrap();
    works(&pool, "k").await.unwrap();
    let master = &watched.servers[0];
    master.stop_signal();
    let error = pool.lock("k").try_acquire().await.unwrap_err();
    let text = format!("{error:?}");
    assert!(matches!(error, LockError::Unavailable { .. }), "{text}");
    let named = format!("the master, 127.0.0.1:{}: no answer", master.port());
    assert!(text.contains(&named), "{text}");
    assert!(text.contains("redis+sentinel://"), "{text}");
    master.cont();

    // In an answer to one of several commands, too, and once.
    master.cmd(&["ACL", "SETUSER", "default", "-scan"]).await;
    let mut text = String::new();
    until("it answers", Duration::from_secs(10), async || {
        let listed = pool.admin().list("*").next_page().await;
        text = format!("{:?}", listed.unwrap_err());
        text.contains("NoPermission") || text.contains("NoPerm")
    })
    .await;
    assert_eq!(text.matches("the master, 127.0.0.1").count(), 1, "{text}");
}

/// As after a failover to a replica that never got the user.
#[tokio::test]
async fn a_master_that_lacks_the_user_is_named() {
    let watched = Watched::start().await;
    let url = watched.url().replacen("://", "://dlock:x@", 1);
    let (error, text) = refused(patient(&url)).await;
    assert_eq!(refusal(&error), Some(Refusal::Auth), "{text}");
    let named = format!("the master, 127.0.0.1:{}: ", watched.servers[0].port());
    assert!(text.contains(&named), "{text}");
    assert!(text.contains("users are not replicated"), "{text}");
    let asked = || async { Ok::<_, std::io::Error>(Credentials::new("dlock", "x")) };
    let config = Config::new(watched.url()).credentials(asked);
    let (_, text) = refused(config).await;
    let begins = "Unavailable: the login at redis failed: check";
    assert!(text.starts_with(begins) && text.contains(&named), "{text}");
}

/// Nothing fails yet, so nobody would know before the next failover.
#[tokio::test]
async fn sentinels_that_are_no_majority_any_more_are_told_and_locks_go_on() {
    log::record();
    let watched = Watched::start_steady().await;
    let pool = LockPool::connect(patient(watched.url())).await.unwrap();
    let held = pool.lock("held").renew_every(Duration::from_millis(100));
    let held = held.acquire().await.unwrap();
    let renewals = async || watched.servers[0].commandstats("pexpire").await;
    let before = renewals().await; // an acquire sets a deadline too
    let port = watched.sentinels[2].port().to_string();
    let told = || log::lines(&["WARN", "a failover would not be followed", &port]).len();
    // Each sentinel is heard.
    for sentinel in &watched.sentinels {
        until("it is listened to", CAP, async || {
            let clients: String = sentinel.ask(&["CLIENT", "LIST"]).await;
            clients.contains(" sub=1 ")
        })
        .await;
    }
    // The connection for renewals is made by the first one, and could not be made any more.
    until("it is renewed", CAP, async || renewals().await > before).await;
    watched.sentinels[0].kill9();
    watched.sentinels[1].kill9();
    until("it is told", CAP, async || told() > 0).await;
    watched.sentinels[2].kill9();
    for _ in 0..10 {
        let other = pool.lock("k").acquire().await.unwrap();
        other.release().await.unwrap();
    }
    held.verify().await.unwrap();
    held.release().await.unwrap();
    assert_eq!(told(), 1, "once");
    let ends = || log::lines(&["INFO", "a failover is followed again", &port]).len();
    assert_eq!(ends(), 0);
    watched.sentinels[0].restart();
    watched.sentinels[1].restart();
    until("its end is told", CAP, async || ends() > 0).await;
    assert_eq!((told(), ends()), (1, 1));
}

#[tokio::test]
async fn a_sentinel_that_lies_is_outvoted() {
    let (watched, other) = (Watched::start().await, RedisServer::start());
    let port = other.port().to_string();
    let liar = &watched.sentinels[1];
    liar.cmd(&["SENTINEL", "REMOVE", "locks"]).await;
    liar.cmd(&["SENTINEL", "MONITOR", "locks", "127.0.0.1", &port, "1"])
        .await;
    for _ in 0..5 {
        let pool = LockPool::connect(patient(watched.url())).await.unwrap();
        let held = pool.lock("k").acquire().await.unwrap();
        assert!(other.keys().await.is_empty());
        held.release().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_sentinel_or_knows_no_such_name_says_so() {
    let watched = Watched::start().await;
    let (error, text) = refused(patient(watched.url().replace("/locks", "/lokcs"))).await;
    assert!(matches!(error, LockError::Config { .. }), "{text}");
    assert!(
        text.contains("the sentinels know no master called \"lokcs\""),
        "{text}"
    );

    let server = &watched.servers[0];
    let url = format!("redis+sentinel://{}/locks", server.addr());
    let (error, text) = refused(patient(url)).await;
    assert!(matches!(error, LockError::Config { .. }), "{text}");
    assert!(text.to_lowercase().contains("unknown command"), "{text}");
    assert!(text.contains("give the sentinels' own ports"), "{text}");

    // The sentinel's address with the scheme of a server.
    let url = format!("redis://{}", watched.sentinels[0].addr());
    let (error, text) = refused(patient(url)).await;
    assert!(matches!(error, LockError::Config { .. }), "{text}");
    assert!(text.contains("give `redis+sentinel://`"), "{text}");
}

#[tokio::test]
async fn sentinels_with_a_password_of_their_own() {
    let watched = Watched::start().await;
    for sentinel in &watched.sentinels {
        let rules = ["resetpass", ">canary-a"];
        let user = [&["ACL", "SETUSER", "default"][..], &rules].concat();
        sentinel.cmd(&user).await;
    }
    let (error, text) = refused(patient(watched.url())).await;
    assert_eq!(refusal(&error), Some(Refusal::SentinelAuth), "{text}");
    assert!(
        text.contains("`sentinel_pass`") && !text.contains("before the host"),
        "{text}"
    );
    let (_, text) = refused(patient(watched.url() + "?sentinel_pass=canary-b")).await;
    assert!(!text.contains("canary"), "{text}");
    let pool = LockPool::connect(patient(watched.url() + "?sentinel_pass=canary-a"));
    let pool = pool.await.unwrap();
    assert!(!format!("{pool:?}").contains("canary"));
    works(&pool, "k").await.unwrap();
}
