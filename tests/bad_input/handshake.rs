//! Something answers at the address, but dlock can't use it.

use std::error::Error;

use dlock_harness::RedisServer;
use dlock_harness::fake::with_buffers;
use dlock_runtime::{Concern, LockError, LockPool, Refusal, Wait};

use crate::fake;
use crate::lab::{
    answers_no, connecting_fails, fails, fails_at_once, misconfigured, nothing_left, patient,
    refused, unavailable,
};

const AUTH: &str = "check the URL's credentials";

#[tokio::test]
async fn a_wrong_missing_or_foreign_password_is_refused_at_once() {
    let server = RedisServer::builder().password("open-sesame").start();
    let addr = server.addr();
    for url in [
        format!("redis://{addr}"),
        format!("redis://:wrong@{addr}"),
        format!("redis://ann:open-sesame@{addr}"),
    ] {
        refused(&answers_no(&url).await, Refusal::Auth, AUTH);
        refused(
            &fails_at_once(&LockPool::connect(patient(&url).lazy()).await.unwrap()).await,
            Refusal::Auth,
            AUTH,
        );
        let resp2 = format!("{url}?protocol=resp2");
        refused(&answers_no(resp2).await, Refusal::Auth, AUTH);
    }
    nothing_left(&server).await;
}

/// For a user without a password, HELLO accepts any password, and AUTH does not. dlock reports what
/// the server says, and does not crash.
#[tokio::test]
async fn a_password_that_the_server_does_not_want_is_its_business() {
    let server = RedisServer::start();
    let url = format!("redis://:unwanted@{}", server.addr());
    LockPool::connect(url.as_str()).await.unwrap();
    let error = answers_no(format!("{url}?protocol=resp2")).await;
    refused(&error, Refusal::Auth, AUTH);
}

#[tokio::test]
async fn a_server_that_is_too_old_is_named_with_what_is_needed() {
    for (version, old) in [
        ("5.0.14", fake::old_redis("5.0.14")),
        ("6.0.16", fake::old_redis("6.0.16")),
        ("6.1.240", fake::redis("6.1.240", "standalone", "master")),
    ] {
        let says = format!("the server is redis {version}; dlock needs 6.2 or newer");
        misconfigured(&answers_no(old.url()).await, &says);
        let resp2 = format!("{}?protocol=resp2", old.url());
        misconfigured(&answers_no(resp2).await, &says);
        let pool = LockPool::connect(patient(old.url()).lazy()).await.unwrap();
        misconfigured(&pool.lock("k").acquire().await.unwrap_err(), &says);
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_and_a_sentinel_say_what_to_write() {
    let cluster = fake::redis("7.2.0", "cluster", "master");
    misconfigured(&answers_no(cluster.url()).await, "write `redis+cluster://`");
    let sentinel = fake::redis("7.2.0", "sentinel", "sentinel");
    misconfigured(&answers_no(sentinel.url()).await, "this is a sentinel");
}

#[tokio::test]
async fn what_is_no_redis_is_an_error_and_no_panic() {
    for answer in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "",
        "\r\n",
        "+OK\r\n",
        ":1\r\n",
        "*-1\r\n",
        "$99999999999\r\n",
        "\0\0\0",
    ] {
        let fake = fake::saying(answer);
        let error = connecting_fails(fake.url()).await;
        assert!(
            matches!(
                error,
                LockError::Unavailable { .. } | LockError::Refused { .. }
            ),
            "{answer:?}: {error:?}"
        );
    }
}

/// It is read to the bound, whichever command it answers, and no further.
#[tokio::test]
async fn an_answer_without_an_end_ends_the_connection() {
    for (command, first, again) in [
        ("HELLO", "*2000000000\r\n", ":1\r\n"),
        ("HELLO", "$2000000000\r\n", "x"),
        ("HELLO", "+", "x"),
        ("TIME", "%2000000000\r\n", "*0\r\n"),
        ("INFO", "=2000000000\r\n", "x"),
        ("SUBSCRIBE", ">2000000000\r\n", "$1\r\nx\r\n"),
        ("EVALSHA", "*2000000000\r\n", "*1\r\n:1\r\n"),
        ("EVALSHA", "-", "x"),
        ("EVALSHA", ">3\r\n+message\r\n+c\r\n$2000000000\r\n", "x"),
        ("PING", "$2000000000\r\n", "x"),
    ] {
        let fake = fake::endless(command, first, again);
        let (what, error) = match command {
            "PING" | "EVALSHA" => {
                let pool = LockPool::connect(patient(fake.url())).await.unwrap();
                let error = match command {
                    "PING" => pool.ping().await.unwrap_err(),
                    _ => fails(&pool, Wait::Once).await,
                };
                ("a command about locks is longer than 2048 KiB", error)
            }
            _ => (
                "another command of the handshake is longer than 64 KiB",
                connecting_fails(fake.url()).await,
            ),
        };
        unavailable(&error);
        let said = error.source().unwrap().to_string();
        assert!(said.contains(what), "{command} {first:?}: {said}");
        let taken = fake.most_taken();
        assert!(
            taken < with_buffers(4 << 20),
            "{command} {first:?}: {taken} bytes"
        );
    }
}

#[tokio::test]
async fn what_ends_the_connection_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().take(2).for_each(drop));
    unavailable(&answers_no(format!("redis://{addr}")).await);
}

/// As `PostgreSQL` does at what it takes for a startup message, and some proxies at `HELLO`.
#[tokio::test]
async fn what_ends_the_connection_at_the_first_command_is_no_redis() {
    let proxy = fake::ending_at("HELLO", "master");
    let stranger = fake::ending_at("", "");
    for (url, says) in [
        (proxy.url(), "`HELLO`, was not answered"),
        (proxy.url(), "write `protocol=resp2` into the URL"),
        (stranger.url(), "is it another service's port"),
        (
            stranger.url() + "?protocol=resp2",
            "is it another service's port",
        ),
    ] {
        let error = answers_no(url).await;
        unavailable(&error);
        let said = error.source().unwrap().to_string();
        assert!(said.contains(says), "{said}");
    }
    let pool = LockPool::connect(patient(proxy.url() + "?protocol=resp2"));
    pool.await.unwrap().ping().await.unwrap();
    let replica = fake::ending_at("HELLO", "slave");
    let error = answers_no(replica.url() + "?protocol=resp2").await;
    refused(&error, Refusal::ReadOnly, "read-only replica");
}

#[tokio::test]
async fn a_user_without_any_right_is_refused() {
    let server = RedisServer::start();
    server
        .cmd(&["ACL", "SETUSER", "nobody", "on", ">pass"])
        .await;
    let error = answers_no(format!("redis://nobody:pass@{}", server.addr())).await;
    refused(&error, Refusal::NoPermission, "a right (to run `");
}

/// With each command that opens a connection: a missing right is named, and nothing else is blamed.
#[tokio::test]
async fn a_right_that_is_missing_to_connect_is_named() {
    let server = RedisServer::start();
    for command in ["select", "time"] {
        let rights = ["+@all", &format!("-{command}")];
        let user = ["ACL", "SETUSER", "ann", "reset", "on", ">pass", "~*", "&*"];
        server.cmd(&[&user[..], &rights].concat()).await;
        for protocol in ["resp3", "resp2"] {
            let url = format!("redis://ann:pass@{}/1?protocol={protocol}", server.addr());
            let error = answers_no(url).await;
            let right = format!("this user lacks a right (to run `{command}`)");
            refused(&error, Refusal::NoPermission, &right);
            let source = error.source().unwrap().to_string();
            assert!(source.contains(&format!("'{command}'")), "{source}");
        }
    }
}

#[tokio::test]
async fn a_password_that_is_missing_is_not_blamed_on_the_database() {
    let server = RedisServer::builder()
        .args(["--requirepass", "pass"])
        .start();
    for protocol in ["resp3", "resp2"] {
        let url = format!("redis://{}/1?protocol={protocol}", server.addr());
        refused(&answers_no(url).await, Refusal::Auth, "missing password");
    }
}

/// Whatever it answers to the questions of a check: nothing is taken as good, and the pool works on.
#[tokio::test]
async fn strange_answers_to_a_check_are_not_checked() {
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let lines = |line: &str| text(&format!("{line}\r\n").repeat(1_000));
    let garbage = [
        "+OK\r\n".to_owned(),
        ":-1\r\n".to_owned(),
        "_\r\n".to_owned(),
        "*2\r\n:1\r\n*0\r\n".to_owned(),
        "*1\r\n*2\r\n$3\r\nset\r\n:7\r\n".to_owned(),
        "*1\r\n*2\r\n$3\r\nfoo\r\n$6\r\nNOPERM\r\n".to_owned(),
        "-ERR \u{1b}[31mno\r\n".to_owned(),
        text(""),
        text("\0\u{1b}\n\n::\n:"),
        lines("maxmemory:-99999999999999999999999999999"),
        lines("role:master\nmaxmemory_policy"),
    ];
    for answer in &garbage {
        let fake = fake::checked(answer, answer);
        let pool = LockPool::connect(patient(fake.url())).await.unwrap();
        let findings = pool.check().await.unwrap();
        let unknown = findings
            .iter()
            .filter(|it| it.concern() == Concern::NotChecked);
        let unknown: Vec<String> = unknown.map(ToString::to_string).collect();
        assert_eq!(unknown.len(), 2, "{answer:?}: {findings:?}");
        assert!(unknown[0].contains("`maxmemory_policy`"), "{unknown:?}");
        assert!(unknown[1].contains("`EVAL`"), "{unknown:?}");
        let clock = findings.iter().find(|it| it.concern() == Concern::Clock);
        assert!(clock.unwrap().risk().contains("behind this machine's"));
        assert!(!format!("{findings:?}").contains('\u{1b}'));
        pool.ping().await.unwrap();
    }
}
