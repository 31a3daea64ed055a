//! A server in a state in which it gives no locks. An error that passes by itself is waited for;
//! any other is returned at once.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockPool, Refusal, Released, Wait};

use crate::lab::{
    LONG, answers_no, fails, fails_after_its_wait, fails_at_once, ms, nothing_left, patient,
    refused, waiter,
};

const CAP: Duration = Duration::from_secs(20);

async fn pool() -> (RedisServer, LockPool) {
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    (server, pool)
}

#[tokio::test]
async fn out_of_memory_is_refused_at_once_and_leaves_nothing() {
    let (server, pool) = pool().await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    refused(
        &fails_at_once(&pool).await,
        Refusal::OutOfMemory,
        "raise `maxmemory`",
    );
    nothing_left(&server).await;
}

#[tokio::test]
async fn out_of_memory_what_is_held_goes_on_and_is_given_back() {
    let (server, pool) = pool().await;
    let held = pool.lock("a").ttl(LONG).acquire().await.unwrap();
    let dropped = pool.lock("b").ttl(LONG).acquire().await.unwrap();
    let mut ran = false;
    let body = pool.lock("c").ttl(LONG).run(async |lock| {
        server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
        held.extend(LONG * 2).await.unwrap();
        held.verify().await.unwrap();
        lock.verify().await.unwrap();
        ran = true;
    });
    body.await.unwrap();
    assert!(ran);
    assert_eq!(held.release().await.unwrap(), Released::Freed);
    drop(dropped);
    until("all is given back", CAP, async || {
        server.keys().await == ["lock:@fence"]
    })
    .await;
}

/// Starts a reload that lasts as long as the delay per key makes it. The server answers between two
/// keys, because each is a chunk that it reads.
async fn start_loading(server: &RedisServer) -> tokio::task::JoinHandle<()> {
    for words in [
        ["DEBUG", "POPULATE", "4000", "filler", "2048"],
        ["CONFIG", "SET", "rdbcompression", "no", ""],
        [
            "CONFIG",
            "SET",
            "loading-process-events-interval-bytes",
            "1024",
            "",
        ],
        ["CONFIG", "SET", "key-load-delay", "5000", ""],
    ] {
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        server.cmd(&words).await;
    }
    let mut connection = server.connect().await;
    let reload = tokio::spawn(async move {
        let reload = redis::cmd("DEBUG")
            .arg("RELOAD")
            .exec_async(&mut connection)
            .await;
        reload.unwrap();
    });
    until("it is loading", CAP, async || {
        refusal(server, &["GET", "x"]).await.as_deref() == Some("LOADING")
    })
    .await;
    reload
}

/// The code of the server's refusal, such as `BUSY`.
async fn refusal(server: &RedisServer, words: &[&str]) -> Option<String> {
    let error = server.try_cmd(words).await.err()?;
    error.code().map(str::to_owned)
}

/// Needs Redis 7: Redis 6 answers only after each 2 MB that it loads.
#[tokio::test]
async fn loading_is_said_after_the_wait_and_waited_for() {
    if RedisServer::is_redis_6() {
        return;
    }
    let (server, pool) = pool().await;
    let reload = start_loading(&server).await;
    let says = "wait, or give the call a longer `wait`";
    refused(&fails(&pool, Wait::Once).await, Refusal::Loading, says);
    refused(&fails_after_its_wait(&pool).await, Refusal::Loading, says);
    refused(&pool.ping().await.unwrap_err(), Refusal::Loading, says);
    let waiter = waiter(&pool);
    server.cmd(&["CONFIG", "SET", "key-load-delay", "0"]).await;
    reload.await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap(), 7);
    assert_eq!(server.ask::<u64>(&["EXISTS", "lock:k"]).await, 0);
}

#[tokio::test]
async fn a_script_that_hogs_the_server_is_said_after_the_wait_and_waited_for() {
    let (server, pool) = pool().await;
    server.cmd(&["CONFIG", "SET", "lua-time-limit", "50"]).await;
    let mut connection = server.connect().await;
    let hog = tokio::spawn(async move {
        let mut eval = redis::cmd("EVAL");
        eval.arg("while true do end")
            .arg(0)
            .exec_async(&mut connection)
            .await
    });
    until("it is busy", CAP, async || {
        refusal(&server, &["PING"]).await.as_deref() == Some("BUSY")
    })
    .await;
    let says = "find it, or `SCRIPT KILL`";
    refused(&fails(&pool, Wait::Once).await, Refusal::Busy, says);
    refused(&fails_after_its_wait(&pool).await, Refusal::Busy, says);
    let waiter = waiter(&pool);
    tokio::time::sleep(ms(100)).await;
    assert!(!waiter.is_finished());
    server.cmd(&["SCRIPT", "KILL"]).await;
    assert_eq!(waiter.await.unwrap().unwrap(), 7);
    assert!(hog.await.unwrap().is_err(), "it was killed");
    assert_eq!(server.keys().await, ["lock:@fence"]);
}

#[tokio::test]
async fn a_replica_is_refused_when_connecting_and_at_once_later() {
    let (server, pool) = pool().await;
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let says = "give dlock the master's address";
    refused(&fails_at_once(&pool).await, Refusal::ReadOnly, says);
    refused(&answers_no(server.url()).await, Refusal::ReadOnly, says);
    refused(
        &fails_at_once(
            &LockPool::connect(patient(server.url()).lazy())
                .await
                .unwrap(),
        )
        .await,
        Refusal::ReadOnly,
        says,
    );
    nothing_left(&server).await;
}

#[tokio::test]
async fn a_replica_that_is_promoted_gives_locks() {
    let (server, pool) = pool().await;
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    refused(&fails_at_once(&pool).await, Refusal::ReadOnly, "master");
    server.cmd(&["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(waiter(&pool).await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_user_without_the_rights_is_refused_at_once_and_leaves_nothing() {
    let server = RedisServer::start();
    for (name, rights, lacks) in [
        (
            "reader",
            &["~*", "+@read", "+time", "+ping"][..],
            "to run `eval",
        ),
        (
            "scripter",
            &["~*", "+@all", "-eval", "-evalsha"],
            "to run `eval",
        ),
        ("setter", &["~*", "+@all", "-set"], "to run `set`)"),
        ("stranger", &["~other:*", "+@all"], "for a key)"),
    ] {
        server
            .cmd(&[&["ACL", "SETUSER", name, "on", ">pass"], rights].concat())
            .await;
        let pool = LockPool::connect(patient(format!("redis://{name}:pass@{}", server.addr())))
            .await
            .unwrap();
        refused(
            &fails_at_once(&pool).await,
            Refusal::NoPermission,
            &format!("this user lacks a right ({lacks}"),
        );
        nothing_left(&server).await;
    }
}

#[tokio::test]
async fn too_many_clients_is_said_after_the_wait_and_waited_for() {
    let server = RedisServer::start();
    let (pool, mut only) = (
        LockPool::connect(patient(server.url()).lazy())
            .await
            .unwrap(),
        server.connect().await,
    );
    set_maxclients(&mut only, 1).await;
    let says = "its `maxclients` is reached; raise it";
    refused(
        &answers_no(server.url()).await,
        Refusal::TooManyClients,
        says,
    );
    refused(
        &fails(&pool, Wait::Once).await,
        Refusal::TooManyClients,
        says,
    );
    refused(
        &fails_after_its_wait(&pool).await,
        Refusal::TooManyClients,
        says,
    );
    let waiter = waiter(&pool);
    set_maxclients(&mut only, 100).await;
    assert_eq!(waiter.await.unwrap().unwrap(), 7);
}

async fn set_maxclients(connection: &mut redis::aio::MultiplexedConnection, most: u32) {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET")
        .arg("maxclients")
        .arg(most)
        .exec_async(connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_can_t_persist_is_refused_at_once() {
    let (server, pool) = pool().await;
    server
        .cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"])
        .await;
    refused(
        &fails_at_once(&pool).await,
        Refusal::Misconfigured,
        "see its log",
    );
    server
        .cmd(&["CONFIG", "SET", "min-replicas-to-write", "0"])
        .await;
    nothing_left(&server).await;
}
