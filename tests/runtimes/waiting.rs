//! Waiters of several runtimes, one pool and one key. One runtime runs the leader for all: when it
//! ends, another takes over, wherever the waiting stood.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use dlock_harness::wait::scaled;
use dlock_harness::{Action, Matcher, Proxy, RedisServer, until_blocking};
use dlock_runtime::{Config, LockError, LockGuard, LockPool, LockRequest};
use dlock_tests::locks;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::block_on::{block_on, poll_once};
use crate::{current_thread, multi_thread, warm_pool};

const CAP: Duration = Duration::from_secs(10);
/// The lease is 30 s, so a waiter that has the lock by then did not wait for its end. A queue entry
/// that died with its connection costs a poll.
const SOON: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(30);

/// One process behind a proxy, and another process, which holds the lock.
struct World {
    home: Runtime,
    server: RedisServer,
    proxy: Proxy,
    pool: LockPool,
    holder: Option<LockGuard>,
}

fn request(pool: &LockPool) -> LockRequest {
    pool.lock("key").ttl(TTL).wait(TTL * 2)
}

impl World {
    /// With timeouts so long that no held-back command is given up.
    fn new() -> Self {
        Self::with(|config| config.connect_timeout(CAP).command_timeout(CAP))
    }

    fn with(settings: impl Fn(Config) -> Config) -> Self {
        let (home, server) = (multi_thread(), RedisServer::start());
        let proxy = Proxy::start(server.addr());
        let config = |url: String| settings(Config::new(url));
        let pool = home.block_on(warm_pool(config(proxy.url())));
        let other = home.block_on(LockPool::connect(config(server.url())));
        let holder = home.block_on(request(&other.unwrap()).acquire()).unwrap();
        Self {
            home,
            server,
            proxy,
            pool,
            holder: Some(holder),
        }
    }

    /// The number of entries in the server's queue.
    fn places(&self) -> usize {
        self.home.block_on(locks::queue(&self.server, "key")).len()
    }

    fn release(&mut self) {
        let holder = self.holder.take().unwrap();
        self.home.block_on(holder.release()).unwrap();
    }

    /// The lock is free, and nothing of a queue is left.
    fn is_quiet(&self) {
        self.home.block_on(locks::until_none(&self.server, SOON));
    }
}

/// Joins the queue on this runtime, and takes its turn in a task of it.
fn wait_on(runtime: &Runtime, pool: &LockPool, turns: &Sender<&'static str>, name: &'static str) {
    let (request, turns) = (request(pool), turns.clone());
    runtime.block_on(async move {
        let mut acquiring = Box::pin(request.acquire());
        assert!(poll_once(acquiring.as_mut()).await.is_none(), "it is held");
        tokio::spawn(async move {
            let guard = acquiring.await.unwrap();
            let _ = turns.send(name);
            guard.release().await.unwrap();
        });
    });
}

/// Runs a runtime's tasks until a condition holds.
fn drive(runtime: &Runtime, what: &str, mut until: impl FnMut() -> bool) {
    until_blocking(what, CAP, || {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        until()
    });
}

fn next(turns: &Receiver<&'static str>) -> &'static str {
    let next = turns.recv_timeout(scaled(SOON));
    next.expect("somebody has the lock soon")
}

/// How far the waiting has come when its runtime ends.
#[derive(Clone, Copy, Debug)]
enum Point {
    AcquireSent,
    AcquireAnswered,
    Queued,
    PollAnswered,
    Granted,
}

const POINTS: [Point; 5] = [
    Point::AcquireSent,
    Point::AcquireAnswered,
    Point::Queued,
    Point::PollAnswered,
    Point::Granted,
];

/// Lets the first waiter come to this point on a runtime of its own.
fn wait_up_to(point: Point, world: &mut World, doomed: &Runtime, behind: impl FnOnce(&World)) {
    let scripts = || Matcher::script().containing("lock:key");
    let kept = match point {
        Point::AcquireSent => world.proxy.on(scripts(), Action::Hold),
        Point::AcquireAnswered => world.proxy.on(scripts(), Action::HoldReply),
        Point::PollAnswered => world.proxy.on(scripts().nth(2), Action::HoldReply),
        Point::Queued | Point::Granted => world.proxy.on(scripts(), Action::Signal),
    };
    let (dies, _) = channel();
    wait_on(doomed, &world.pool, &dies, "the first");
    behind(world);
    drive(doomed, "it came so far", || kept.fired() > 0);
    match point {
        Point::AcquireSent | Point::AcquireAnswered | Point::PollAnswered => {}
        Point::Queued => drive(doomed, "it has its place", || world.places() == 1),
        Point::Granted => {
            drive(doomed, "it has its place", || world.places() == 1);
            world.proxy.stall_replies();
            world.release();
            until_blocking("it is granted", CAP, || world.places() == 0);
        }
    }
}

#[test]
fn a_runtime_that_ends_while_it_leads_leaves_the_lock_to_the_others() {
    for point in POINTS {
        for doomed in [current_thread(), multi_thread()] {
            let mut world = World::new();
            let second = multi_thread();
            let (turns, order) = channel();
            wait_up_to(point, &mut world, &doomed, |world| {
                wait_on(&second, &world.pool, &turns, "second");
                wait_on(&world.home, &world.pool, &turns, "third");
            });
            drop(doomed);
            world.proxy.pass();
            world.proxy.release_held();
            if world.holder.is_some() {
                assert!(order.try_recv().is_err(), "{point:?}: it is held");
                world.release();
            }
            assert_eq!(
                (next(&order), next(&order)),
                ("second", "third"),
                "{point:?}"
            );
            world.is_quiet();
        }
    }
}

#[test]
fn one_runtime_after_the_other_may_end() {
    let mut world = World::new();
    let (turns, order) = channel();
    let mut runtimes: Vec<_> = (0..4).map(|_| multi_thread()).collect();
    for doomed in &runtimes {
        wait_on(doomed, &world.pool, &turns, "doomed");
    }
    wait_on(&world.home, &world.pool, &turns, "last");
    for doomed in runtimes.drain(..) {
        until_blocking("there is a place", CAP, || world.places() >= 1);
        doomed.shutdown_background();
    }
    world.release();
    assert_eq!(next(&order), "last");
    world.is_quiet();
}

/// Its connection receives nothing meanwhile: other processes are held up for the 3 s of a claim,
/// and its own runtimes until they notice that the leader is stuck.
#[test]
fn a_blocked_runtime_that_leads_does_not_hold_up_others_for_as_long_as_it_blocks() {
    let mut world = World::with(|config| config);
    let (turns, order) = channel();
    let (block, blocks) = channel::<()>();
    let blocked = current_thread();
    wait_on(&blocked, &world.pool, &turns, "blocked");
    drive(&blocked, "it has its place", || world.places() == 1);
    let (end, ends) = tokio::sync::oneshot::channel::<()>();
    let blocked = thread::spawn(move || {
        blocked.block_on(async {
            let _ = blocks.recv(); // as `thread::sleep` in a handler would
            let _ = ends.await;
        });
    });
    wait_on(&world.home, &world.pool, &turns, "neighbour");
    let other = LockPool::connect(Config::new(world.server.url()));
    let other = world.home.block_on(other).unwrap();
    wait_on(&world.home, &other, &turns, "other process");
    until_blocking("both processes queue", CAP, || world.places() == 2);
    world.release();
    let next_of = |cap| order.recv_timeout(scaled(cap)).expect("not held up");
    let mut while_it_blocks = [next_of(CAP * 2), next_of(CAP * 2)];
    while_it_blocks.sort_unstable();
    assert_eq!(while_it_blocks, ["neighbour", "other process"]);
    drop(block);
    assert_eq!(next(&order), "blocked", "it keeps its entry");
    world.is_quiet();
    drop(end);
    blocked.join().unwrap();
}

/// The actix layout: a current-thread runtime and local tasks on each worker thread.
#[test]
fn local_tasks_of_many_workers_all_get_their_turn() {
    const WORKERS: usize = 4;
    const WAITERS: usize = 8;
    let mut world = World::new();
    let (turns, order) = channel();
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (pool, turns) = (world.pool.clone(), turns.clone());
            thread::spawn(move || {
                let local = LocalSet::new();
                for _ in 0..WAITERS {
                    let (pool, turns) = (pool.clone(), turns.clone());
                    local.spawn_local(async move {
                        let body = async |_: &LockGuard| {
                            turns.send("in").unwrap();
                            tokio::task::yield_now().await;
                            turns.send("out").unwrap();
                        };
                        request(&pool).run(body).await.unwrap();
                    });
                }
                current_thread().block_on(local);
            })
        })
        .collect();
    until_blocking("they wait", CAP, || world.places() == 1);
    world.release();
    for _ in 0..WORKERS * WAITERS {
        assert_eq!((next(&order), next(&order)), ("in", "out"), "one at a time");
    }
    for worker in workers {
        worker.join().unwrap();
    }
    world.is_quiet();
}

/// Threads that only call `block_on`: a leader's task then runs only while its thread waits for the
/// lock itself.
#[test]
fn threads_that_only_block_on_their_waiting_all_get_their_turn() {
    let mut world = World::new();
    let (turns, order) = channel();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (pool, turns) = (world.pool.clone(), turns.clone());
            thread::spawn(move || {
                let runtime = current_thread();
                for _ in 0..4 {
                    let guard = runtime.block_on(request(&pool).acquire()).unwrap();
                    turns.send("in").unwrap();
                    runtime.block_on(guard.release()).unwrap();
                }
            })
        })
        .collect();
    until_blocking("they wait", CAP, || world.places() == 1);
    world.release();
    for _ in 0..16 {
        next(&order);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    world.is_quiet();
}

/// The waiter began on a runtime, and is polled outside any runtime from then on. It becomes the
/// leader there, too.
#[test]
fn a_waiter_that_is_polled_by_hand_gets_the_lock() {
    for drives in [true, false] {
        let mut world = World::new();
        let doomed = multi_thread();
        let (dies, _) = channel();
        if !drives {
            wait_on(&doomed, &world.pool, &dies, "the first");
            until_blocking("it has its place", CAP, || world.places() == 1);
        }
        let mut waits = Box::pin(request(&world.pool).acquire());
        let begun = world.home.block_on(poll_once(waits.as_mut()));
        assert!(begun.is_none());
        let by_hand = thread::spawn(move || block_on(waits));
        until_blocking("there is a place", CAP, || world.places() == 1);
        drop(doomed);
        world.release();
        until_blocking("it has the lock", SOON, || by_hand.is_finished());
        let guard = by_hand.join().unwrap().unwrap();
        world.home.block_on(guard.release()).unwrap();
        world.is_quiet();
    }
}

/// The waiter began on a runtime that has ended, and its timer with it. Its `wait` ends in time on
/// another runtime; outside any it is an error, and no panic.
#[test]
fn a_waiter_that_moved_outlives_the_runtime_where_it_began() {
    for by_hand in [false, true] {
        let mut world = World::new();
        let doomed = multi_thread();
        let request = request(&world.pool).wait(Duration::from_secs(3));
        let mut waits = Box::pin(request.acquire());
        let mut polled = || assert!(doomed.block_on(poll_once(waits.as_mut())).is_none());
        until_blocking("it has an entry", CAP, || {
            polled();
            world.places() == 1
        });
        polled(); // its timer is made
        drop(doomed);
        if by_hand {
            let error = block_on(waits).unwrap_err();
            assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        } else {
            let error = current_thread().block_on(waits).unwrap_err();
            assert!(error.is_busy(), "{error:?}");
        }
        world.release();
        world.is_quiet();
    }
}
