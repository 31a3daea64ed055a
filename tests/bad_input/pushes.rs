//! A server that sends this user no pushes: the log says so once, with the reason, and locks work
//! all the same.

use std::net::SocketAddr;
use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockPool, Refusal};

use crate::fake;
use crate::lab::{LONG, ms, patient};
use crate::texts::{heard, listen};

const CAP: Duration = Duration::from_secs(20);

/// The warnings about pushes from the server at this address.
fn warnings(address: SocketAddr) -> Vec<String> {
    let address = address.to_string();
    let about_pushes = |text: &String| text.contains("no pushes") && text.contains(&address);
    heard().into_iter().filter(about_pushes).collect()
}

/// Uses the caller's connection and the watchdog's.
async fn check_said_once(server: &RedisServer, url: String, reason: &str) {
    listen();
    let pool = LockPool::connect(patient(url)).await.unwrap();
    let renewals = async || server.commandstats("pexpire").await;
    let before = renewals().await;
    let lock = pool.lock("k").ttl(LONG).renew_every(ms(50));
    let guard = lock.acquire().await.unwrap();
    until("the watchdog has connected and renewed", CAP, async || {
        renewals().await > before
    })
    .await;
    guard.release().await.unwrap();
    let [warning] = &warnings(server.addr())[..] else {
        panic!("{:?}", warnings(server.addr()));
    };
    assert!(warning.contains(reason), "{warning}");
}

#[tokio::test]
async fn over_resp2() {
    let server = RedisServer::start();
    let url = format!("{}?protocol=resp2", server.url());
    check_said_once(&server, url, "RESP2").await;
}

#[tokio::test]
async fn where_the_user_may_not_subscribe() {
    for rights in [["+@all", "resetchannels"], ["+@all", "-subscribe"]] {
        let server = RedisServer::start();
        let user = [
            "ACL", "SETUSER", "ann", "reset", "on", ">secret", "~*", "&*",
        ];
        server.cmd(&[&user[..], &rights].concat()).await;
        let url = format!("redis://ann:secret@{}", server.addr());
        check_said_once(&server, url, "o permissions").await; // Redis 7.2: "No"
    }
}

#[tokio::test]
async fn nothing_is_said_where_they_can_be_had() {
    listen();
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    drop(pool.lock("k").ttl(LONG).acquire().await.unwrap());
    assert!(warnings(server.addr()).is_empty());
}

#[tokio::test]
async fn over_a_proxy_that_knows_no_subscribe() {
    listen();
    let proxy = fake::answering(&[("SUBSCRIBE", "-ERR unknown command 'subscribe'\r\n")]);
    LockPool::connect(patient(proxy.url())).await.unwrap();
    let [warning] = &warnings(proxy.addr())[..] else {
        panic!("{:?}", warnings(proxy.addr()));
    };
    assert!(warning.contains("unknown command"), "{warning}");
}

/// Redis 6 quotes the command in backticks, for which the client library has an error of its own.
#[tokio::test]
async fn over_a_proxy_that_knows_no_hello() {
    listen();
    for answer in [
        "-ERR unknown command 'HELLO', with args beginning with: '3' \r\n",
        "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n",
        "-NOPROTO unsupported protocol version\r\n",
    ] {
        let proxy = fake::answering(&[("HELLO", answer)]);
        LockPool::connect(patient(proxy.url())).await.unwrap();
        let [warning] = &warnings(proxy.addr())[..] else {
            panic!("{answer}: {:?}", warnings(proxy.addr()));
        };
        assert!(warning.contains("RESP2"), "{warning}");
    }
}

/// A refusal that passes by itself is no reason to poll from then on.
#[tokio::test]
async fn a_server_that_is_loading_says_nothing_about_pushes() {
    listen();
    let server = fake::answering(&[(
        "SUBSCRIBE",
        "-LOADING Redis is loading the dataset in memory\r\n",
    )]);
    let refused = LockPool::connect(patient(server.url())).await;
    let Err(LockError::Refused { reason, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, Refusal::Loading);
    assert!(warnings(server.addr()).is_empty());
}
