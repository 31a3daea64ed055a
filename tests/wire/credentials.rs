//! Credentials that a program provides at each connect, and connections that it opens itself: each
//! may fail, hang or panic, and is asked again.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, Credentials, LockError, LockPool, Wait};
use dlock_tests::{patient, works};
use tokio::net::TcpStream;

const CAP: Duration = Duration::from_secs(20);

/// A password that the test changes, and how often it was asked for.
#[derive(Clone, Default)]
struct Vault {
    password: Arc<Mutex<String>>,
    asked: Arc<AtomicU64>,
}

impl Vault {
    fn holds(&self, password: &str) {
        password.clone_into(&mut self.password.lock().unwrap());
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn given_to(&self, config: Config) -> Config {
        let vault = self.clone();
        config.credentials(move || {
            let vault = vault.clone();
            async move {
                tokio::task::yield_now().await;
                vault.asked.fetch_add(1, Ordering::Relaxed);
                let password = vault.password.lock().unwrap().clone();
                if password.is_empty() {
                    return Err(io::Error::other("the vault is sealed"));
                }
                Ok(Credentials::new("dlock", password))
            }
        })
    }
}

async fn user(server: &RedisServer, password: &str) {
    let password = format!(">{password}");
    let words = [
        "ACL",
        "SETUSER",
        "dlock",
        "on",
        "resetpass",
        &password,
        "~*",
        "&*",
        "+@all",
    ];
    server.cmd(&words).await;
}

#[tokio::test]
async fn a_password_that_changes_is_asked_for_at_each_connect() {
    for options in ["", "?protocol=resp2"] {
        let server = RedisServer::start();
        let vault = Vault::default();
        user(&server, "first-canary").await;
        vault.holds("first-canary");
        let url = format!("redis://{}{options}", server.addr());
        let pool = LockPool::connect(vault.given_to(patient(&url)))
            .await
            .unwrap();
        works(&pool, "k").await.unwrap();
        assert_eq!(vault.asked(), 1, "once for each connection");

        user(&server, "second-canary").await; // open connections stay logged in
        works(&pool, "k").await.unwrap();
        assert_eq!(vault.asked(), 1);

        server.cmd(&["CLIENT", "KILL", "USER", "dlock"]).await;
        until("the login is refused", CAP, async || {
            let error = works(&pool, "k").await.err();
            let text = format!("{error:?}");
            assert!(!text.contains("canary"), "{text}");
            text.contains("Unavailable: the login at redis failed (k): check")
                && text.contains("the server refuses the credentials that the provider gave")
        })
        .await;
        let waiter = tokio::spawn(pool.lock("item:7").wait(Wait::Forever).acquire());
        vault.holds("second-canary");
        let guard = waiter.await.unwrap().unwrap(); // it waited through the refusals
        guard.release().await.unwrap();
        until("it has logged in again", CAP, async || {
            works(&pool, "k").await.is_ok()
        })
        .await;
        assert!(vault.asked() >= 3);
    }
}

#[tokio::test]
async fn a_provider_that_fails_is_asked_again() {
    let server = RedisServer::start();
    user(&server, "canary").await;
    let vault = Vault::default();
    let config = vault.given_to(patient(format!("redis://{}", server.addr())).lazy());
    assert!(!format!("{config:?}").contains("canary"));
    let pool = LockPool::connect(config).await.unwrap();
    let error = pool
        .lock("k")
        .wait(Duration::ZERO)
        .acquire()
        .await
        .unwrap_err();
    let text = format!("{error:?}");
    assert!(matches!(error, LockError::Unavailable { .. }), "{text}");
    assert!(text.contains("the login at redis failed (k): "), "{text}");
    assert!(
        text.contains("the provider of `Config::credentials` failed: the vault is sealed"),
        "{text}"
    );
    vault.holds("canary");
    until("it has logged in", CAP, async || {
        works(&pool, "k").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_provider_or_a_connector_that_hangs_or_panics_ends_with_the_connect_timeout() {
    let within = Duration::from_millis(300);
    let config = || Config::new("redis://localhost:1").connect_timeout(within);
    let hangs = config().credentials(std::future::pending::<Result<Credentials, io::Error>>);
    let panics = config().credentials(|| async {
        assert!(std::hint::black_box(false), "a provider's own panic");
        Ok::<_, io::Error>(Credentials::password("x"))
    });
    let no_way = config().connector(|_, _| std::future::pending::<io::Result<TcpStream>>());
    let fails = config().connector(|host, port| async move {
        Err::<TcpStream, _>(io::Error::other(format!("no way to {host}:{port}")))
    });
    for (config, reason) in [
        (hangs, "no connection"),
        (panics, "panicked"),
        (no_way, "no connection"),
        (fails, "no way to localhost:1"),
    ] {
        let begun = Instant::now();
        let error = LockPool::connect(config).await.unwrap_err();
        assert!(begun.elapsed() < CAP);
        let text = format!("{error:?}");
        assert!(matches!(error, LockError::Unavailable { .. }), "{text}");
        assert!(text.contains(reason), "{reason}: {text}");
    }
}

#[tokio::test]
async fn two_places_for_one_thing_are_refused() {
    let vault = Vault::default();
    let tcp = |config: Config| config.connector(|host, port| TcpStream::connect((host, port)));
    for (config, reason) in [
        (
            vault.given_to(Config::new("redis://:x@h")),
            "credentials: the URL has a user or a password too",
        ),
        (
            vault.given_to(Config::new("redis+unix:///s?user=ann")),
            "credentials: the URL has",
        ),
        (
            vault.given_to(Config::new("memory://")),
            "credentials: `memory://` has no server",
        ),
        (
            tcp(Config::new("memory://")),
            "connector: `memory://` has no server",
        ),
        (
            tcp(Config::new("redis+unix:///s")),
            "connector: the URL is a unix socket's",
        ),
        (
            Config::new("memory://").tls_ca("ca.pem"),
            "tls: `memory://` has no server",
        ),
        (
            Config::new("redis://h").tls_server_name("h"),
            "begin it with `rediss://`",
        ),
        (
            Config::new("redis+unix:///s").tls_ca("ca.pem"),
            "begin it with `rediss://`",
        ),
        (
            Config::new("rediss://h?tls_ca=a.pem").tls_ca("b.pem"),
            "tls_ca: the URL gives another one",
        ),
        (
            Config::new("rediss://h?tls_cert=a.pem"),
            "tls_cert: no `tls_key` beside it",
        ),
        (
            Config::new("rediss://h?tls_key=a.pem"),
            "tls_key: no `tls_cert` beside it",
        ),
        (Config::new("rediss://h").tls_ca(""), "tls_ca: empty"),
    ] {
        let error = LockPool::connect(config.lazy()).await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{reason}: {error}");
    }
}
