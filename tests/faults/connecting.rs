//! Connections that are being made, or have to be made again: no caller's timeout ends the attempt,
//! and every caller is told why there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dlock_harness::{Action, Matcher, RedisServer, until};
use dlock_runtime::{Concern, Config, Finding, LockError, LockPool, Refusal, Wait};
use dlock_tests::patient;
use dlock_tests::recorded::{lines, record};
use futures_util::future::join_all;
use tokio::net::TcpStream;

use crate::body::refused;
use crate::lab::{CAP, COMMAND, ITEM, LONG, Lab, SOON};

/// A lock is granted, and given back.
async fn is_had(pool: &LockPool, key: &str) {
    let guard = pool.lock(key).wait(CAP).acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// Its caller goes while it is being made: it serves the next one.
#[tokio::test]
async fn a_connection_that_is_being_made_serves_the_next_caller() {
    let lab = Lab::new();
    let pool = lab.pool_of(patient(lab.proxy.url()).lazy()).await;
    let hello = lab.proxy.on(Matcher::any(), Action::Hold);
    let goes = tokio::spawn(pool.lock(ITEM).acquire());
    hello.seen().await;
    goes.abort();
    assert!(goes.await.unwrap_err().is_cancelled());
    lab.proxy.release_held();
    is_had(&pool, ITEM).await;
    assert_eq!(lab.proxy.accepted(), 1, "no caller's patience ends it");
    drop(pool);
    until("it is closed", SOON, async || lab.proxy.live() == 0).await;
}

/// A server that shakes hands and ends each connection soon after, in each way: whoever calls, and
/// however many, connections are spaced out as failed attempts are.
#[tokio::test]
async fn connections_that_are_lost_soon_are_spaced_out() {
    let every_second = AtomicU64::new(0);
    let is_script = |request: &[u8]| request.windows(4).any(|it| it == b"EVAL");
    let second = move |request: &[u8]| {
        is_script(request) && every_second.fetch_add(1, Ordering::SeqCst) % 2 == 1
    };
    // With the shortest pauses, 12 to 400 ms, each of the two connections (the callers' and the
    // watchdog's) is made 13 times in the 2.5 s that the calls may take; with pauses from 50 ms on,
    // because commands are answered in between, 50 times.
    for (which, fault, most) in [
        (Matcher::script(), Action::CutBefore, 26),
        (Matcher::script(), Action::CutInside(20), 26),
        (Matcher::script(), Action::CutAfter, 26),
        (Matcher::script(), Action::CutReply(2), 26),
        (Matcher::when(second), Action::CutAfter, 100),
    ] {
        let lab = Lab::new();
        let pool = lab.pool_of(lab.config().lazy()).await;
        lab.proxy.on(which.every(), fault);
        let ask = |n| {
            pool.lock(format!("{ITEM}:{n}"))
                .wait(Duration::from_secs(2))
        };
        let _ = join_all((0..20).map(|n| ask(n).acquire())).await;
        let made = lab.proxy.accepted();
        assert!(made <= most, "{fault:?}: {made} connections");
    }
}

/// Nobody waits for what it would have made: its caller has an error, or goes.
#[tokio::test]
async fn an_attempt_ends_with_its_pool() {
    for goes in [false, true] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let config = Config::new(url).connect_timeout(4 * CAP).lazy();
        let pool = LockPool::connect(config).await.unwrap();
        let caller = tokio::spawn(pool.lock(ITEM).wait(Wait::Once).acquire());
        let (mut attempt, _) = listener.accept().await.unwrap();
        drop(pool);
        if goes {
            caller.abort();
        }
        assert!(caller.await.is_ok_and(|it| it.is_err()) != goes);
        let mut said = Vec::new(); // and then its end
        let ends = tokio::io::AsyncReadExt::read_to_end(&mut attempt, &mut said);
        tokio::time::timeout(SOON, ends).await.unwrap().unwrap();
    }
}

/// A refusal that will not pass is reported to all callers, not just to the one whose attempt met
/// it.
#[tokio::test]
async fn a_wrong_password_is_told_to_everybody() {
    let server = dlock_harness::RedisServer::builder()
        .password("right")
        .start();
    let url = server.url().replace("right", "wrong");
    let pool = LockPool::connect(Config::new(url).lazy()).await.unwrap();
    let ask = || pool.lock(ITEM).wait(Duration::from_secs(2)).acquire();
    for told in join_all((0..20).map(|_| ask())).await {
        assert_eq!(refused(told), Refusal::Auth);
    }
}

/// A master that was demoted keeps its connections open: a caller that is refused as by a replica
/// tries again at the new master.
#[tokio::test]
async fn a_demoted_master_is_left() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    lab.server.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let before = lab.proxy.accepted();
    for _ in 0..2 {
        let answer = pool.lock(ITEM).wait(Wait::Once).acquire().await;
        assert_eq!(refused(answer), Refusal::ReadOnly);
    }
    assert!(lab.proxy.accepted() > before, "it connected anew");
    lab.server.cmd(&["REPLICAOF", "NO", "ONE"]).await;
    drop(pool.lock(ITEM).wait(CAP).acquire().await);
    until("the pool works again", CAP, async || {
        pool.lock(ITEM).acquire().await.is_ok()
    })
    .await;
}

/// A stall that is shorter than two command timeouts ends no connection, however many calls it
/// leaves unanswered.
#[tokio::test]
async fn one_stall_is_no_dead_connection() {
    let lab = Lab::new();
    let config = lab.config().command_timeout(COMMAND * 4);
    let pool = lab.pool_of(config).await;
    is_had(&pool, ITEM).await;
    let before = lab.proxy.accepted();
    lab.proxy.stall();
    // Their leases are over long before the server answers: each call gives up after 100 ms.
    let short = (0..10).map(|n| {
        let request = pool
            .lock(format!("short:{n}"))
            .ttl(Duration::from_millis(100));
        request.wait(Wait::Once).acquire()
    });
    for given_up in join_all(short).await {
        assert!(matches!(given_up, Err(LockError::Unavailable { .. })));
    }
    lab.proxy.pass();
    is_had(&pool, ITEM).await;
    lab.until_free().await;
    assert_eq!(lab.proxy.accepted(), before, "the connections are the same");
}

/// Another program takes its lock in two steps: a waiter that sees the key between them waits for
/// the second.
#[tokio::test]
async fn a_lock_taken_in_two_steps_is_waited_for() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let key = crate::lab::ON_SERVER;
    lab.server.cmd(&["SET", key, "theirs", "NX"]).await;
    let looked = lab.proxy.on(
        dlock_harness::Matcher::script().containing(key),
        dlock_harness::Action::Signal,
    );
    let waiter = tokio::spawn(pool.lock(ITEM).wait(CAP).acquire());
    looked.seen().await;
    lab.server.cmd(&["PEXPIRE", key, "300"]).await;
    waiter.await.unwrap().unwrap().release().await.unwrap();

    lab.server.cmd(&["SET", key, "left behind"]).await;
    let answer = pool.lock(ITEM).wait(LONG).acquire().await;
    assert_eq!(refused(answer), Refusal::NoTtl);
}

/// The fence of the item's lock, taken over a connection that is made for it, in a runtime of its
/// own, or the error in words; and whether that connection is left to others.
async fn elsewhere(pool: &LockPool, key: &str) -> Result<(), String> {
    let lock = pool.lock(key).wait(Wait::Once);
    let taken = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async { lock.acquire().await?.release().await })
    });
    let taken = tokio::task::spawn_blocking(|| taken.join().unwrap());
    let taken = taken.await.unwrap();
    taken.map(drop).map_err(|error| format!("{error:?}"))
}

/// One name leads to one server, then to another one (a failover), and then to either: connections
/// that work go to one of them at any time.
#[tokio::test]
async fn a_name_that_leads_to_several_servers_splits_no_lock() {
    record();
    let servers = [RedisServer::start(), RedisServer::start()];
    let addresses = servers.each_ref().map(RedisServer::addr);
    let leads_to = Arc::<AtomicUsize>::default();
    let now = leads_to.clone();
    let config = Config::new("redis://locks.of.two")
        .connector(move |_, _| TcpStream::connect(addresses[now.load(Ordering::SeqCst)]));
    let pool = LockPool::connect(config).await.unwrap();
    is_had(&pool, "first").await;

    leads_to.store(1, Ordering::SeqCst);
    elsewhere(&pool, "second").await.unwrap();
    // The connection of this runtime went to the server of before.
    until("it is replaced", CAP, async || pool.ping().await.is_ok()).await;
    is_had(&pool, "third").await;
    let is_address = |it: &&Finding| it.concern() == Concern::Address;
    assert_eq!(pool.check().await.unwrap().iter().find(is_address), None);

    leads_to.store(0, Ordering::SeqCst);
    let before = servers[0].commandstats("evalsha").await;
    for _ in 0..2 {
        let error = elsewhere(&pool, "fourth").await.unwrap_err();
        assert!(error.contains("leads to several servers"), "{error}");
    }
    assert_eq!(servers[0].commandstats("evalsha").await, before);
    is_had(&pool, "fifth").await;
    let findings = pool.check().await.unwrap();
    let found = findings.iter().find(is_address);
    let said = lines(&["WARN", "locks.of.two", "two may hold one lock"]);
    let [said] = &said[..] else {
        panic!("{said:?}")
    };
    for text in [found.unwrap().risk(), said] {
        assert_eq!(text.matches("run id ").count(), 2, "{text}");
    }

    // Once the one that is used is gone, the other one is taken.
    servers[1].kill9();
    until("it goes on at the other", CAP, async || {
        pool.lock("sixth").acquire().await.is_ok()
    })
    .await;
}
