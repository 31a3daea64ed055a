//! URLs that lead to no server: each is a typed error, in time.

use std::fs::File;
use std::process::Command;

use dlock_harness::{Authority, Proxy, RedisServer};
use dlock_runtime::{LockError, LockPool, Wait};

use crate::lab::{
    answers_no, connecting_fails, fails, fails_after_its_wait, lazy, misconfigured, ms,
    nothing_left, unavailable, waiter,
};

#[tokio::test]
async fn a_url_that_can_t_work_says_what_to_write() {
    for (url, says) in [
        ("", "no scheme; give `redis://host:6379`"),
        ("localhost:6379", "give `redis://host:6379`"),
        ("http://localhost", "unknown scheme; give"),
        ("rediss://localhost#insecure", "`insecure` is refused"),
        ("redis+sentinel://localhost", "no name of a master"),
        ("redis-cluster://localhost", "write `redis+cluster://`"),
        ("redlock://a,b", "2 nodes survive no more failures than 1"),
        ("redis://localhost:seven", "invalid port"),
        ("redis://localhost/first", "redis://host:6379/0"),
        ("redis+unix://localhost", "redis+unix:///run/redis.sock"),
        ("memory://shared", "takes nothing after it"),
    ] {
        misconfigured(&connecting_fails(url).await, says);
    }
}

#[tokio::test]
async fn a_closed_port_is_unavailable() {
    let server = RedisServer::start();
    server.kill9();
    unavailable(&connecting_fails(server.url()).await);
    let pool = lazy(server.url()).await;
    unavailable(&fails(&pool, Wait::Once).await);
    unavailable(&fails_after_its_wait(&pool).await);
    unavailable(&pool.ping().await.unwrap_err());
    unavailable(&pool.holder("k").await.unwrap_err());
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_the_server_comes_up() {
    let server = RedisServer::start();
    server.kill9();
    let waiter = waiter(&lazy(server.url()).await);
    tokio::time::sleep(ms(50)).await;
    assert!(!waiter.is_finished());
    server.restart_empty();
    assert_eq!(waiter.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_black_hole_is_unavailable_in_time() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    proxy.blackhole();
    unavailable(&connecting_fails(proxy.url()).await);
    let pool = lazy(proxy.url()).await;
    unavailable(&fails(&pool, Wait::Once).await);
    unavailable(&fails_after_its_wait(&pool).await);
    nothing_left(&server).await;
}

/// A connection whose wire fails later is as unavailable as a server that was never there.
#[tokio::test]
async fn a_wire_that_goes_dark_is_unavailable_in_time() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = LockPool::connect(proxy.url()).await.unwrap();
    proxy.blackhole();
    unavailable(&fails(&pool, Wait::Once).await);
    unavailable(&fails_after_its_wait(&pool).await);
    nothing_left(&server).await;
}

/// At whatever step of making a pool none is left: that passes, and no setting is wrong.
#[test]
fn a_pool_for_which_no_descriptors_are_left_is_unavailable() {
    const URLS: &str = "DLOCK_TEST_FEW_DESCRIPTORS";
    let Ok(urls) = std::env::var(URLS) else {
        let authority = Authority::new();
        let identity = authority.issue("server", &["127.0.0.1"]);
        let server = RedisServer::builder().tls(&authority, &identity, false);
        let server = server.start();
        let mut few = Command::new("sh");
        few.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""]);
        few.arg(std::env::current_exe().unwrap());
        few.args(["--exact", "--nocapture"]);
        few.arg(std::thread::current().name().unwrap());
        let urls = format!("{} {}", server.url(), server.tls_url().unwrap());
        assert!(few.env(URLS, urls).status().unwrap().success());
        return;
    };
    for url in urls.split(' ') {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mut taken = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
        while let Err(error) = runtime.block_on(LockPool::connect(url)) {
            assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
            taken.pop().expect("a pool needs fewer");
        }
    }
}

#[tokio::test]
async fn a_name_that_nobody_has_is_unavailable() {
    unavailable(&connecting_fails("redis://no-such-host.invalid").await);
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_unavailable() {
    unavailable(&connecting_fails("redis+unix:///no/such/redis.sock").await);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_said() {
    let server = RedisServer::start();
    let error = answers_no(format!("{}/99", server.url())).await;
    misconfigured(&error, "the URL's database does not exist there");
}
