//! A body of five ttls keeps its lock, whatever blocks its executor or breaks its connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dlock_harness::{Action, RedisServer, until, wait};
use dlock_runtime::{Config, Credentials, LockGuard, LockPool, Released};
use dlock_tests::served;
use futures_util::future::join_all;
use tokio::net::TcpStream;

use crate::lab::{CAP, ITEM, LONG, Lab, SOON, TTL, requests};
use crate::observer::Onlooker;

async fn nothing(_: &Lab) {}

/// Runs a body of five ttls that blocks its executor, while another thread disturbs and watches.
async fn keeps(disturb: impl AsyncFn(&Lab) + Send + 'static) {
    let lab = Arc::new(Lab::new());
    let pool = lab.pool().await;
    let locked = pool
        .lock(ITEM)
        .ttl(TTL)
        .renew()
        .run(async |lock: &LockGuard| {
            let onlooker = Onlooker::start(&lab, disturb);
            thread::sleep(TTL * 5);
            onlooker.end();
            lock.remaining()
        });
    assert!(
        locked.await.unwrap() > TTL / 3,
        "the last renewal was long ago"
    );
    lab.until_free().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_blocked_current_thread_runtime() {
    keeps(nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_blocked_runtime_of_one_worker() {
    keeps(nothing).await;
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_all_the_time() {
    keeps(async |lab: &Lab| drop(lab.server.cmd(&["SCRIPT", "FLUSH"]).await)).await;
}

#[tokio::test]
async fn a_server_that_kills_its_connections_all_the_time() {
    keeps(async |lab: &Lab| drop(lab.server.cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await))
        .await;
}

#[tokio::test]
async fn a_server_that_is_out_of_memory() {
    let lab = Arc::new(Lab::new());
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(TTL).renew().acquire().await.unwrap();
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let onlooker = Onlooker::start(&lab, nothing);
    wait::pause(TTL * 3).await;
    onlooker.end();
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Freed);
    assert!(lab.locks().await.is_empty());
}

/// One renewal is lost, in each way in which it can be.
#[tokio::test]
async fn a_renewal_that_is_lost() {
    for fault in [
        Action::CutBefore,
        Action::CutInside(40),
        Action::CutAfter,
        Action::CutReply(2),
    ] {
        survives(TTL, fault).await;
    }
}

/// The wire swallows one renewal; when it works again, the connection is reset.
#[tokio::test]
async fn a_renewal_that_is_swallowed() {
    let lab = Arc::new(Lab::new());
    let pool = lab.pool().await;
    let renewing = lab.proxy.on(requests("renew").every(), Action::Signal);
    let locked = pool.lock(ITEM).ttl(TTL).renew().run(async |_| {
        let onlooker = Onlooker::start(&lab, nothing);
        until("the first", CAP, async || renewing.fired() >= 1).await;
        lab.proxy.drop_requests();
        until("the swallowed", CAP, async || renewing.fired() >= 2).await;
        lab.proxy.pass();
        tokio::time::sleep(TTL * 2).await;
        onlooker.end();
    });
    locked.await.unwrap();
    lab.until_free().await;
}

/// The watchdog's connection goes silent: it takes two timeouts to notice, and the lease lasts that
/// long.
#[tokio::test]
async fn a_renewal_that_is_never_answered() {
    for fault in [Action::Hold, Action::HoldReply] {
        survives(Duration::from_secs(4), fault).await;
    }
}

async fn survives(ttl: Duration, fault: Action) {
    let lab = Arc::new(Lab::new());
    let pool = lab.pool().await;
    let breaking = lab.proxy.on(requests("renew").nth(2), fault);
    let locked = pool.lock(ITEM).ttl(ttl).renew().run(async |_| {
        let onlooker = Onlooker::start(&lab, nothing);
        tokio::time::sleep(ttl * 5 / 2).await;
        onlooker.end();
    });
    locked
        .await
        .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
    assert_eq!(breaking.fired(), 1, "{fault:?}");
    lab.until_free().await;
}

/// The watchdog connects when a lock is granted that it will renew, and only then.
#[tokio::test]
async fn the_watchdog_connects_at_the_grant() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let lock = |key: &'static str| pool.lock(key).ttl(LONG);
    let _plain = lock("plain").acquire().await.unwrap();
    assert_eq!(lab.proxy.accepted(), 1, "nothing is to be renewed");
    let _first = lock(ITEM).renew().acquire().await.unwrap();
    until("it has connected", SOON, async || lab.proxy.live() == 2).await;
    let _second = lock("second").renew().acquire().await.unwrap();
    lab.proxy.cut_all();
    let _third = lock("third").renew().acquire().await.unwrap();
    until("it has again", SOON, async || lab.proxy.live() == 2).await;
}

/// Its watchdog tries to connect for twice as long as a body may take to begin.
fn patient(url: impl AsRef<str>) -> Config {
    Config::new(url.as_ref()).connect_timeout(CAP)
}

/// A body of two ttls keeps its lock although only the connection works that the pool had.
async fn keeps_over_the_pools_own(what: &str, pool: &LockPool) {
    let begun = Instant::now();
    let locked = pool.lock(ITEM).ttl(TTL).renew().run(async |_| {
        assert!(begun.elapsed() < CAP / 2, "{what}: its body waited");
        tokio::time::sleep(TTL * 2).await;
    });
    locked
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// From the second call on there is no way to connect.
fn once() -> impl Fn() -> io::Result<()> {
    let calls = AtomicUsize::new(0);
    move || match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Ok(()),
        _ => Err(io::Error::other("not just now")),
    }
}

#[tokio::test]
async fn a_watchdog_that_can_t_connect() {
    let server = RedisServer::start();
    let (failing, hanging, asked) = (once(), once(), once());
    let password = move || std::future::ready(asked().map(|()| Credentials::password("")));
    let rows = [
        (
            "no descriptor",
            patient(server.url()).connector(move |host, port| {
                let may = failing();
                async move { may.map(|()| TcpStream::connect((host, port)))?.await }
            }),
        ),
        (
            "a name that is not resolved",
            patient(server.url()).connector(move |host, port| {
                let may = hanging();
                async move {
                    if may.is_err() {
                        std::future::pending::<()>().await;
                    }
                    TcpStream::connect((host, port)).await
                }
            }),
        ),
        ("no token", patient(server.url()).credentials(password)),
    ];
    join_all(rows.map(async |(what, config)| {
        let pool = LockPool::connect(config.namespace(format!("{what}:")))
            .await
            .unwrap();
        keeps_over_the_pools_own(what, &pool).await;
    }))
    .await;
}

#[tokio::test]
async fn a_watchdog_whose_certificate_file_is_gone() {
    let (server, authority) = served::with_tls();
    let pool = LockPool::connect(patient(server.tls_url().unwrap()));
    let pool = pool.await.unwrap();
    std::fs::remove_file(authority.file()).unwrap();
    keeps_over_the_pools_own("no file", &pool).await;
}

/// Of one server, and of a quorum.
#[tokio::test]
async fn a_watchdog_that_no_server_has_a_place_for() {
    let servers = [(); 4].map(|()| RedisServer::start());
    let (one, nodes) = servers.split_first().unwrap();
    let nodes: Vec<_> = nodes.iter().map(|it| it.addr().to_string()).collect();
    let quorum = patient(format!("redlock://{}", nodes.join(",")));
    let (one, quorum) = tokio::join!(
        LockPool::connect(patient(one.url())),
        LockPool::connect(quorum.max_ttl(TTL)),
    );
    let (one, quorum) = (one.unwrap(), quorum.unwrap());
    until("the nodes vote", CAP, async || {
        quorum.lock("first").acquire().await.is_ok()
    })
    .await;
    for server in &servers {
        let mut only = server.connect().await;
        let mut full = redis::cmd("CONFIG");
        full.arg("SET").arg("maxclients").arg(1);
        full.exec_async(&mut only).await.unwrap();
    }
    tokio::join!(
        keeps_over_the_pools_own("one", &one),
        keeps_over_the_pools_own("quorum", &quorum),
    );
}
