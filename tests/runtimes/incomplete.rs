//! No tokio runtime, or one without timers or I/O: a `Config` error that says `enable_all`, never a
//! panic.

use std::pin::pin;
use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer};
use dlock_runtime::{LockError, LockPool, Released, distributed_lock};
use dlock_tests::patient;
use tokio::runtime::{Builder, Runtime};

use crate::block_on::{block_on, poll_once};
use crate::{multi_thread, warm_pool};

/// Where a future is polled.
#[derive(Debug)]
enum Place {
    Outside,
    Inside(Runtime),
}

impl Place {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Place::Outside => block_on(future),
            Place::Inside(runtime) => runtime.block_on(future),
        }
    }
}

fn without_timers() -> [Place; 3] {
    let bare = Builder::new_current_thread().build();
    let io_only = Builder::new_multi_thread().enable_io().build();
    let inside = |built: std::io::Result<Runtime>| Place::Inside(built.unwrap());
    [Place::Outside, inside(bare), inside(io_only)]
}

fn without_io() -> Place {
    let built = Builder::new_current_thread().enable_time().build();
    Place::Inside(built.unwrap())
}

fn check<T>(what: &str, place: &Place, answer: Result<T, LockError>) {
    match answer {
        Err(LockError::Config { why: text, .. }) if text.to_string().contains("enable_all") => {}
        Err(other) => panic!("{what} in {place:?}: {other:?}"),
        Ok(_) => panic!("{what} in {place:?} went well"),
    }
}

#[distributed_lock(key = "key")]
async fn body_must_not_run() -> Result<(), LockError> {
    panic!("the body ran")
}

/// Every way to use a pool.
fn check_all(place: &Place, pool: &LockPool) {
    let lock = || pool.lock("key");
    check("acquire", place, place.block_on(lock().acquire()));
    check("try_acquire", place, place.block_on(lock().try_acquire()));
    let body = async |_: &dlock_runtime::LockGuard| panic!("the body ran");
    check("run", place, place.block_on(lock().run(body)));
    let annotated = pool.scope(body_must_not_run());
    check("the attribute", place, place.block_on(annotated));
}

#[test]
fn redis_without_a_whole_runtime_is_a_config_error() {
    let server = RedisServer::start();
    for place in without_timers().into_iter().chain([without_io()]) {
        let connect = LockPool::connect(patient(server.url()));
        check("connect", &place, place.block_on(connect));
        let lazy = LockPool::connect(patient(server.url()).lazy());
        let pool = place.block_on(lazy).unwrap();
        check_all(&place, &pool);
        check("ping", &place, place.block_on(pool.ping()));
        check("holder", &place, place.block_on(pool.holder("key")));
        // None of that damages the pool for a complete runtime.
        let guard = multi_thread().block_on(pool.lock("key").acquire());
        drop(guard.unwrap());
    }
}

#[test]
fn memory_needs_timers_and_no_io() {
    for place in without_timers() {
        let pool = place.block_on(LockPool::connect("memory://")).unwrap();
        check_all(&place, &pool);
    }
    let place = without_io();
    let pool = place.block_on(LockPool::connect("memory://")).unwrap();
    let guard = place.block_on(pool.lock("key").acquire()).unwrap();
    place.block_on(guard.release()).unwrap();
}

/// A guard may be carried anywhere: calls that ask the server are refused there, and it can be
/// given back.
#[test]
fn a_guard_carried_into_an_incomplete_runtime_panics_nowhere() {
    let (server, whole) = (RedisServer::start(), multi_thread());
    let pool = whole
        .block_on(LockPool::connect(patient(server.url())))
        .unwrap();
    for place in without_timers().into_iter().chain([without_io()]) {
        let guard = whole.block_on(pool.lock("key").acquire()).unwrap();
        check("verify", &place, place.block_on(guard.verify()));
        let lease = Duration::from_secs(60);
        check("extend", &place, place.block_on(guard.extend(lease)));
        assert!(guard.is_held());
        let released = place.block_on(guard.release());
        assert_eq!(released.unwrap(), Released::Freed, "in {place:?}");
    }
}

/// As above, with a renewal under way, whose answer the release has to wait for; the watchdog's thread
/// wakes it.
#[test]
fn a_release_during_a_renewal_in_an_incomplete_runtime_frees_the_key() {
    for place in without_timers().into_iter().chain([without_io()]) {
        let (server, whole) = (RedisServer::start(), multi_thread());
        let proxy = Proxy::start(server.addr());
        let renewal = Matcher::script().containing("lock:key").nth(2);
        let renewal = proxy.on(renewal, Action::Hold);
        let pool = whole.block_on(warm_pool(patient(proxy.url())));
        let request = pool.lock("key").renew_every(Duration::from_millis(50));
        let guard = whole.block_on(request.acquire()).unwrap();
        renewal.seen_blocking();
        let mut release = pin!(guard.release());
        assert!(place.block_on(poll_once(release.as_mut())).is_none());
        proxy.release_held();
        let released = place.block_on(release);
        assert_eq!(released.unwrap(), Released::Freed, "in {place:?}");
        assert_eq!(whole.block_on(server.pttl("lock:key")), -2);
    }
}
