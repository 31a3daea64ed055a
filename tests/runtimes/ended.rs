//! A runtime that is dropped at a chosen moment: what its tasks held or asked for is released at
//! once, not when a lease of 30 s ends.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use dlock_harness::wait::scaled;
use dlock_harness::{Action, Matcher, Proxy, RedisServer, until, until_blocking};
use dlock_runtime::{Config, LockError, LockPool, distributed_lock};
use tokio::runtime::{Builder, Runtime};

use crate::warm_pool;

const CAP: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(3);

/// The runtimes whose end is tested: a current-thread one drops its tasks where it is dropped, a
/// multi-thread one on its threads.
fn each_kind() -> [Runtime; 2] {
    let build = |mut builder: Builder| builder.enable_all().build().unwrap();
    [
        build(Builder::new_current_thread()),
        build(Builder::new_multi_thread()),
    ]
}

/// A server behind a proxy, and a pool whose first runtime lives on.
struct World {
    runtime: Runtime,
    server: RedisServer,
    proxy: Proxy,
    pool: LockPool,
}

impl World {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        // The default `command_timeout`: a clean-up has to finish within the bound here.
        let config = Config::new(proxy.url()).connect_timeout(CAP);
        let pool = runtime.block_on(warm_pool(config));
        Self {
            runtime,
            server,
            proxy,
            pool,
        }
    }

    /// Whether the key exists, with most of its 30 s left.
    fn is_locked(&self) -> bool {
        self.runtime.block_on(self.server.pttl("lock:key")) > 20_000
    }

    fn is_gone_soon(&self) {
        self.runtime.block_on(until("it is gone", SOON, async || {
            self.server.pttl("lock:key").await == -2
        }));
        // And stays free: the next caller has it alone.
        let next = self.runtime.block_on(self.pool.lock("key").acquire());
        let next = next.unwrap();
        self.runtime.block_on(next.release()).unwrap();
    }

    /// Lets a task acquire the key on `doomed`, and keep it.
    fn ask(&self, doomed: &Runtime) {
        let pool = self.pool.clone();
        doomed.spawn(async move {
            let _guard = pool.lock("key").acquire().await;
            pending::<()>().await;
        });
    }
}

/// Runs a runtime's tasks until a condition holds.
fn drive(runtime: &Runtime, mut until: impl FnMut() -> bool) {
    until_blocking("it came so far", CAP, || {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        until()
    });
}

#[test]
fn a_runtime_dropped_while_it_holds_frees_the_key() {
    for doomed in each_kind() {
        let world = World::new();
        world.ask(&doomed);
        drive(&doomed, || world.is_locked());
        drop(doomed);
        world.is_gone_soon();
    }
}

#[test]
fn a_runtime_shut_down_in_the_background_while_it_holds_frees_the_key() {
    for doomed in each_kind() {
        let world = World::new();
        world.ask(&doomed);
        drive(&doomed, || world.is_locked());
        doomed.shutdown_background();
        world.is_gone_soon();
    }
}

#[distributed_lock(key = "key", renew)]
async fn for_ever() -> Result<(), LockError> {
    pending().await
}

#[test]
fn a_runtime_dropped_with_a_locked_body_frees_the_key() {
    for doomed in each_kind() {
        let world = World::new();
        let pool = world.pool.clone();
        doomed.spawn(async move { pool.scope(for_ever()).await });
        drive(&doomed, || world.is_locked());
        drop(doomed);
        world.is_gone_soon();
    }
}

/// The acquire was executed, and its reply will never be read.
#[test]
fn a_runtime_dropped_before_the_grant_arrives_frees_the_key() {
    for doomed in each_kind() {
        let world = World::new();
        let acquire = Matcher::script().containing("lock:key");
        let granted = world.proxy.on(acquire, Action::HoldReply);
        world.ask(&doomed);
        drive(&doomed, || granted.fired() > 0);
        assert!(world.is_locked());
        drop(doomed);
        world.is_gone_soon();
    }
}

/// The acquire is executed after its runtime has ended, and after a first clean-up has found
/// nothing.
#[test]
fn a_runtime_dropped_before_its_acquire_arrives_locks_nothing_for_long() {
    for doomed in each_kind() {
        let world = World::new();
        let acquire = Matcher::script().containing("lock:key");
        let sent = world.proxy.on(acquire, Action::Hold);
        world.ask(&doomed);
        drive(&doomed, || sent.fired() > 0);
        let cleaned = Matcher::script().containing("lock:key");
        let cleaned = world.proxy.on(cleaned, Action::Signal);
        drop(doomed);
        cleaned.seen_blocking();
        let monitor = world.server.monitor();
        world.proxy.release_held();
        let arrived = monitor.wait_for("\"lock:key\" \"lock:@fence\"", CAP);
        world.runtime.block_on(arrived);
        world.is_gone_soon();
    }
}

/// The release was executed, or will be; the runtime that sent it has ended.
#[test]
fn a_runtime_dropped_while_it_releases_frees_the_key() {
    for (doomed, action) in each_kind()
        .into_iter()
        .zip([Action::Hold, Action::HoldReply])
    {
        let world = World::new();
        let release = Matcher::script().containing("lock:key").nth(2);
        let released = world.proxy.on(release, action);
        let pool = world.pool.clone();
        doomed.spawn(async move { pool.lock("key").acquire().await?.release().await });
        drive(&doomed, || released.fired() > 0);
        drop(doomed);
        world.is_gone_soon();
    }
}

/// Reports when its task is gone.
struct Gone(mpsc::Sender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A worker thread is in the middle of a poll when the shutdown begins, and only then asks for the
/// lock: whatever that has to spawn is dropped at once. The poll has to end all the same, for a
/// runtime's drop waits for it.
#[test]
fn an_acquire_that_begins_while_its_runtime_ends_does_not_hold_it_up() {
    let world = World::new();
    // The second thread notices the shutdown.
    let doomed = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (gone, is_gone) = mpsc::channel();
    let (in_poll, is_in_poll) = mpsc::channel();
    let pool = world.pool.clone();
    doomed.spawn(async move {
        let _gone = Gone(gone);
        in_poll.send(()).unwrap();
        until_blocking("what is spawned is dropped at once", CAP, || {
            tokio::spawn(pending::<()>()).is_finished()
        });
        let _guard = pool.lock("key").acquire().await;
        pending::<()>().await;
    });
    is_in_poll.recv().unwrap();
    doomed.shutdown_background();
    let ended = is_gone.recv_timeout(scaled(CAP));
    assert_eq!(ended, Ok(()), "the task is polled for ever");
    world.is_gone_soon();
}

#[test]
fn a_runtime_dropped_while_it_waits_leaves_the_holder_alone() {
    for doomed in each_kind() {
        let world = World::new();
        let guard = world.runtime.block_on(world.pool.lock("key").acquire());
        let guard = guard.unwrap();
        let acquires = Matcher::script().containing("lock:key");
        let acquires = world.proxy.on(acquires, Action::Signal);
        world.ask(&doomed);
        drive(&doomed, || acquires.count() >= 2);
        drop(doomed);
        assert!(world.is_locked());
        world.runtime.block_on(guard.verify()).unwrap();
        world.runtime.block_on(guard.release()).unwrap();
        world.is_gone_soon();
    }
}
