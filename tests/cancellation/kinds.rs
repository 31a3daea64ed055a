//! Every kind of lock, dropped at every poll: while it is acquired, while it is waited for, and at
//! the head of the queue. Nothing stays in the set at the key, in its queue or in the table of
//! tokens, and the next waiter has the lock at once.

use std::cell::Cell;

use dlock_harness::wait::within;
use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockGuard, LockPool, LockRequest};
use dlock_tests::{KINDS, locks, of_kind};
use tokio::task::JoinHandle;

use crate::left_behind::leaves_no_token;
use crate::waiters::{TTL, no_queue_is_left};
use crate::world::{A_WHILE, SOON, World};
use dlock_harness::polls::{Cut, When, at_every_poll, dropped_at};

/// Several keys count as a kind here: the word, and a kind that excludes it.
const KEYS: (&str, &str) = ("keys", "x");

fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.into_iter().chain([KEYS])
}

fn key(kind: &str, cut: Cut) -> String {
    format!("item:{kind}:{:?}-{}", cut.when, cut.polls)
}

/// The key that others contend for: of several, the one that is taken last.
fn contended(kind: &str, key: &str) -> String {
    if kind == "keys" {
        format!("{key}:last")
    } else {
        key.to_owned()
    }
}

fn request(pool: &LockPool, kind: &str, key: &str) -> LockRequest {
    let request = if kind == "keys" {
        pool.lock_all([contended(kind, key), key.to_owned()])
    } else {
        of_kind(pool.lock(key), kind)
    };
    request.ttl(TTL).wait(A_WHILE * 2)
}

async fn all_freed(world: &World, kind: &str, key: &str) {
    world.freed(key).await;
    world.freed(&contended(kind, key)).await;
}

async fn an_acquire_of_each_kind_leaves_nothing(world: &World) {
    let baseline = world.baseline().await;
    for (kind, _) in kinds() {
        at_every_poll(
            async |cut| {
                request(&world.pool, kind, &key(kind, cut))
                    .acquire()
                    .await
                    .unwrap()
            },
            async |cut, guard| {
                drop(guard);
                all_freed(world, kind, &key(kind, cut)).await;
                world.is_back_at(&baseline).await;
            },
        )
        .await;
    }
    if let Some(server) = &world.server {
        no_queue_is_left(server).await;
    }
}

/// The next waiter in the queue.
struct Next(JoinHandle<()>);

impl Next {
    /// Takes the lock in its turn and gives it back.
    fn comes(request: LockRequest) -> Self {
        let acquire = request.acquire();
        Self(tokio::spawn(async move {
            acquire.await.unwrap().release().await.unwrap();
        }))
    }

    async fn had_its_turn(self, what: &str) {
        let turn = within(SOON, self.0).await;
        turn.unwrap_or_else(|| panic!("{what}: the next one waits"))
            .unwrap();
    }
}

/// Waits until this many wait in the queue, or `gone` says that there will never be as many;
/// without a server to ask, for a while.
async fn until_queued(
    server: Option<&RedisServer>,
    key: &str,
    count: usize,
    gone: impl Fn() -> bool,
) {
    let Some(server) = server else {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        return;
    };
    until("they stand in the queue", A_WHILE, async || {
        gone() || locks::queue(server, key).await.len() >= count
    })
    .await;
}

async fn a_reader_or_writer_that_waits_leaves_nothing(world: &World) {
    a_waiter_leaves_nothing(world, &["r", "w"]).await;
}

async fn who_waits_for_permits_leaves_nothing(world: &World) {
    a_waiter_leaves_nothing(world, &["p:1/3", "p:3/3"]).await;
}

async fn an_owner_that_waits_leaves_nothing(world: &World) {
    a_waiter_leaves_nothing(world, &["o:a"]).await;
}

async fn who_waits_in_order_of_arrival_leaves_nothing(world: &World) {
    a_waiter_leaves_nothing(world, &["fair"]).await;
}

async fn who_waits_for_several_keys_leaves_nothing(world: &World) {
    a_waiter_leaves_nothing(world, &["keys"]).await;
}

/// Each existing kind has a test for its waiters.
#[test]
fn no_kind_is_left_out() {
    let tested = ["r", "w", "p:1/3", "p:3/3", "o:a", "fair", "keys"];
    assert!(kinds().map(|it| it.0).eq(tested));
}

/// Dropped while it waits, is granted, or gives back: the waiter behind it has the lock as soon as
/// the holder has gone.
async fn a_waiter_leaves_nothing(world: &World, tested: &[&str]) {
    let baseline = world.baseline().await;
    for (kind, held) in kinds().filter(|it| tested.contains(&it.0)) {
        for when in [When::AtOnce, When::Woken] {
            for polls in 0..200 {
                let cut = Cut { polls, when };
                let had_it = one_goes(world, kind, held, cut).await;
                all_freed(world, kind, &key(kind, cut)).await;
                world.is_back_at(&baseline).await;
                if had_it {
                    assert!(polls > 1, "{kind} {cut:?}: it never waited");
                    break;
                }
                assert!(polls < 199, "{kind} {cut:?}: it never had its turn");
            }
        }
    }
    if let Some(server) = &world.server {
        no_queue_is_left(server).await;
    }
}

/// Whether it had the lock, and gave it back, before it could be dropped.
async fn one_goes(world: &World, kind: &str, held: &str, cut: Cut) -> bool {
    let key = key(kind, cut);
    let contended = contended(kind, &key);
    let holder = of_kind(world.pool.lock(contended.as_str()), held).ttl(TTL);
    let holder = holder.acquire().await.unwrap();
    let gone = Cell::new(false);
    let goes = async {
        let turn = async {
            let acquire = request(&world.pool, kind, &key).acquire();
            acquire.await.unwrap().release().await.unwrap();
        };
        let had_it = dropped_at(cut, turn).await.is_some();
        gone.set(true);
        had_it
    };
    // With local hand-off, waiters for this process's own lock have no entry in the server's queue.
    let server = world.server.as_ref().filter(|_| !world.hands_on);
    let passes_on = async {
        until_queued(server, &contended, 1, || gone.get()).await;
        let next = Next::comes(request(&world.pool, kind, &key));
        // Of several keys, the leaver holds the first, and the next waiter waits for that one.
        let (queue, count) = match kind {
            "keys" => (&key, 1),
            _ => (&contended, 2),
        };
        until_queued(server, queue, count, || gone.get()).await;
        holder.release().await.unwrap();
        next
    };
    let (had_it, next) = tokio::join!(goes, passes_on);
    next.had_its_turn(&format!("{kind} {cut:?}")).await;
    had_it
}

/// Dropped at the head of the queue, where it blocks others that fit beside the holder: they get
/// in, though the holder stays.
async fn the_first_waiter_lets_the_others_by(world: &World) {
    for (held, first) in [("r", "w"), ("p:1/3", "p:3/3")] {
        for when in [When::AtOnce, When::Woken] {
            for polls in 0..4 {
                let cut = Cut { polls, when };
                let (key, gone) = (key(first, cut), Cell::new(false));
                let holder = request(&world.pool, held, &key).acquire().await.unwrap();
                let goes = async {
                    let acquire = request(&world.pool, first, &key).acquire();
                    let had_it = dropped_at(cut, acquire).await.is_some();
                    gone.set(true);
                    had_it
                };
                let comes = async {
                    until_queued(world.server.as_ref(), &key, 1, || gone.get()).await;
                    Next::comes(request(&world.pool, held, &key))
                };
                let (had_it, next) = tokio::join!(goes, comes);
                assert!(!had_it, "{first} beside {held}");
                next.had_its_turn(&format!("{first} {cut:?}")).await;
                holder.verify().await.unwrap();
                holder.release().await.unwrap();
                world.freed(&key).await;
            }
        }
    }
    if let Some(server) = &world.server {
        no_queue_is_left(server).await;
    }
}

/// A body under a lock of each kind, with a nested call and a downgrade, dropped at every poll.
async fn a_body_under_each_kind_leaves_nothing(world: &World) {
    let baseline = world.baseline().await;
    for (kind, _) in kinds() {
        let call = async |cut: Cut| {
            let key = key(kind, cut);
            let body = async |lock: &LockGuard| {
                tokio::task::yield_now().await;
                if kind == "w" {
                    lock.downgrade().await.unwrap();
                    tokio::task::yield_now().await;
                }
                if matches!(kind, "r" | "w" | "o:a") {
                    let nested = if kind == "w" { "r" } else { kind };
                    let nested = request(&world.pool, nested, &key);
                    nested
                        .run(async |_| tokio::task::yield_now().await)
                        .await
                        .unwrap();
                }
            };
            request(&world.pool, kind, &key).run(body).await.unwrap();
        };
        at_every_poll(call, async |cut, _| {
            all_freed(world, kind, &key(kind, cut)).await;
            world.is_back_at(&baseline).await;
        })
        .await;
    }
    if let Some(server) = &world.server {
        no_queue_is_left(server).await;
    }
}

everywhere!(
    an_acquire_of_each_kind_leaves_nothing,
    a_reader_or_writer_that_waits_leaves_nothing,
    who_waits_for_permits_leaves_nothing,
    an_owner_that_waits_leaves_nothing,
    who_waits_in_order_of_arrival_leaves_nothing,
    who_waits_for_several_keys_leaves_nothing,
    the_first_waiter_lets_the_others_by,
    a_body_under_each_kind_leaves_nothing,
);

#[test]
fn the_table_of_tokens_is_empty_after_each_kind_was_dropped_at_every_poll() {
    let name = "kinds::the_table_of_tokens_is_empty_after_each_kind_was_dropped_at_every_poll";
    leaves_no_token(name, async |server, redis, memory| {
        for (pool, server) in [(redis, Some(server)), (memory, None)] {
            for (kind, held) in kinds() {
                waits_at_every_poll(pool, server, kind, held).await;
            }
        }
    });
}

/// Waits behind a holder that gives the lock back as soon as anybody waits for it, dropped at every
/// poll.
async fn waits_at_every_poll(
    pool: &LockPool,
    server: Option<&RedisServer>,
    kind: &str,
    held: &str,
) {
    let waits = async |cut| {
        let key = key(kind, cut);
        let contended = contended(kind, &key);
        let holder = of_kind(pool.lock(contended.as_str()), held);
        let holder = holder.acquire().await.unwrap();
        let holding = async {
            until_queued(server, &contended, 1, || false).await;
            holder.release().await.unwrap();
        };
        let waiting = async {
            let guard = request(pool, kind, &key).acquire().await.unwrap();
            guard.release().await.unwrap();
        };
        tokio::join!(holding, waiting);
    };
    at_every_poll(waits, async |_, _| {}).await;
}
