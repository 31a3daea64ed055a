//! A canary password, and the tokens on the server, appear in no text, whatever goes wrong.

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockPool, Wait, current};
use futures_util::FutureExt;

use crate::lab::{LONG, ms, patient};
use crate::texts::{Seen, heard, listen};

const CANARY: &str = "c4n4ry-s3cret";

fn url(server: &RedisServer) -> String {
    format!("redis://ann:{CANARY}@{}", server.addr())
}

/// A server where `ann` has all rights, or fewer.
async fn server(args: &[&str], rights: &[&str]) -> RedisServer {
    listen();
    let server = RedisServer::builder().args(args.iter().copied()).start();
    let password = format!(">{CANARY}");
    let words = [&["ACL", "SETUSER", "ann", "on", &password, "~*"], rights].concat();
    server.cmd(&words).await;
    server
}

/// The part that all tokens of this process share, read from a lock's value: 16 hexadecimal digits.
async fn token_of_this_process() -> String {
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let _held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let value: String = server.ask(&["GET", "lock:k"]).await;
    let token = value.split('|').nth(2).unwrap();
    let (instance, _) = token.split_once('-').unwrap();
    assert_eq!(instance.len(), 16);
    instance.to_owned()
}

async fn none_is_shown(seen: &Seen) {
    assert!(seen.count() > 0);
    seen.none_has(&[CANARY, &token_of_this_process().await]);
}

/// Connects and takes a lock, lazily and not; records every error.
async fn try_all(seen: &mut Seen, url: &str) {
    for url in [url.to_owned(), format!("{url}?protocol=resp2")] {
        seen.debug(&Config::new(&url));
        if let Err(error) = LockPool::connect(url.as_str()).await {
            seen.error(&error);
        }
        let config = Config::new(&url).connect_timeout(ms(300)).lazy();
        let pool = LockPool::connect(config).await.unwrap();
        seen.debug(&pool);
        seen.debug(&pool.lock("k"));
        seen.failure(pool.lock("k").ttl(LONG).wait(ms(50)).acquire().await);
        for error in [pool.ping().await.err(), pool.holder("k").await.err()]
            .into_iter()
            .flatten()
        {
            seen.error(&error);
        }
    }
}

#[tokio::test]
async fn addresses_that_lead_nowhere() {
    listen();
    let mut seen = Seen::default();
    for url in [
        "rediss://ann:@h",
        "redis://ann:@h:port",
        "redis://ann:@h/x",
        "redis://ann:@h?x=1",
        "http://ann:@h",
        "redis://:@",
    ] {
        let url = url.replacen(":@", &format!(":{CANARY}@"), 1);
        seen.debug(&Config::new(&url));
        seen.failure(LockPool::connect(url).await);
    }
    for url in [
        format!("redis://:12?{CANARY}@h"),
        format!("redis+unix:///s?pass=1&{CANARY}=2"),
        CANARY.to_owned(),
    ] {
        seen.failure(LockPool::connect(url).await);
    }
    try_all(
        &mut seen,
        &format!("redis://ann:{CANARY}@no-such-host.invalid"),
    )
    .await;
    seen.failure(
        LockPool::connect(format!("redis+unix:///no/socket?user=ann&pass={CANARY}")).await,
    );
    none_is_shown(&seen).await;
}

#[tokio::test]
async fn a_closed_port() {
    let server = server(&[], &["+@all"]).await;
    server.kill9();
    let mut seen = Seen::default();
    try_all(&mut seen, &url(&server)).await;
    none_is_shown(&seen).await;
}

#[tokio::test]
async fn a_wrong_password() {
    listen();
    let server = RedisServer::builder().password("another").start();
    let mut seen = Seen::default();
    try_all(&mut seen, &url(&server)).await;
    try_all(&mut seen, &format!("redis://:{CANARY}@{}", server.addr())).await;
    none_is_shown(&seen).await;
}

#[tokio::test]
async fn a_user_without_rights_and_a_server_without_memory() {
    for rights in [
        &["+@all", "-eval", "-evalsha"][..],
        &["+@all", "-set"],
        &["+hello", "+time"],
        &[],
    ] {
        let server = server(&[], rights).await;
        let mut seen = Seen::default();
        try_all(&mut seen, &url(&server)).await;
        none_is_shown(&seen).await;
    }
    let server = server(&["--maxmemory", "1"], &["+@all"]).await;
    let mut seen = Seen::default();
    try_all(&mut seen, &url(&server)).await;
    none_is_shown(&seen).await;
}

/// A server repeats the arguments of a command that it does not know: the password and the token
/// are among them.
#[tokio::test]
async fn a_server_that_repeats_what_it_was_sent() {
    for command in ["HELLO", "AUTH", "EVALSHA", "EVAL", "GET", "TIME"] {
        let server = server(&["--rename-command", command, ""], &["+@all"]).await;
        let said = server
            .try_cmd(&[command, "repeated"])
            .await
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("repeated"),
            "the server repeats nothing any more: {said}"
        );
        let mut seen = Seen::default();
        let with_hello = url(&server);
        for url in [with_hello.clone(), format!("{with_hello}?protocol=resp2")] {
            seen.debug(&Config::new(&url));
            let pool = LockPool::connect(Config::new(&url).lazy()).await.unwrap();
            let outcomes = [
                pool.lock("k")
                    .ttl(LONG)
                    .wait(Wait::Once)
                    .run(async |_| ())
                    .await
                    .err(),
                pool.holder("k").await.err(),
                pool.ping().await.err(),
            ];
            outcomes
                .iter()
                .flatten()
                .for_each(|error| seen.error(error));
        }
        none_is_shown(&seen).await;
    }
}

#[tokio::test]
async fn what_is_held_and_who_holds_it() {
    let server = server(&[], &["+@all"]).await;
    let mut seen = Seen::default();
    let config = patient(url(&server));
    seen.debug(&config);
    let pool = LockPool::connect(config).await.unwrap();
    seen.debug(&pool);
    seen.debug(&pool.lock("k"));
    let guard = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    seen.debug(&guard);
    seen.debug(&pool.holder("k").await.unwrap());
    seen.failure(pool.lock("k").wait(Wait::Once).acquire().await);
    let ran = pool.lock("k2").run(async |lock| {
        seen.debug(lock);
        seen.debug(&current().unwrap());
        seen.failure(pool.lock("k2").acquire().await);
    });
    ran.await.unwrap();
    seen.debug(&guard.release().await.unwrap());
    none_is_shown(&seen).await;
}

/// Each lock ends its lease in another way, with events.
#[tokio::test]
async fn what_is_lost_and_what_is_unclear() {
    let server = server(&[], &["+@all"]).await;
    let mut seen = Seen::default();
    let config = patient(url(&server));
    let pool = LockPool::connect(config).await.unwrap();
    let lapsed = pool.lock("lapsed").ttl(ms(100)).acquire().await.unwrap();
    lapsed.lost().await;
    seen.debug(&lapsed);
    seen.failure(lapsed.verify().await);
    let deleted = pool.lock("deleted").ttl(LONG).acquire().await.unwrap();
    server.cmd(&["DEL", "lock:deleted"]).await;
    seen.failure(deleted.verify().await);
    let unclear = pool.lock("unclear").ttl(LONG).acquire().await.unwrap();
    server.kill9();
    seen.failure(unclear.release().await);
    let events = || heard().concat();
    until("all of it is traced", LONG, async || {
        let heard = events();
        heard.contains("key=lapsed namespace=lock: ")
            && heard.contains("key=deleted namespace=lock: ")
            && heard.contains("key=unclear namespace=lock: ")
    })
    .await;
    none_is_shown(&seen).await;
}

#[tokio::test]
async fn a_panic_that_shows_what_it_has() {
    let server = server(&[], &["+@all"]).await;
    let pool = LockPool::connect(patient(url(&server))).await.unwrap();
    let body = pool
        .lock("k")
        .ttl(LONG)
        .run(async |lock| panic!("a panic with {lock:?} of {pool:?}"));
    let outcome = std::panic::AssertUnwindSafe(body).catch_unwind().await;
    let said = outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("\"k\" in \"lock:\""), "{said}");
    let mut seen = Seen::default();
    seen.debug(&said);
    assert!(
        heard().concat().contains("a panic with"),
        "the hook listens"
    );
    none_is_shown(&seen).await;
}
