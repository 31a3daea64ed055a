//! Several waiters for one key in a known order, one of which goes away: which of them had the
//! lock, and in which order.
//!
//! A pool stands for a process. On a server there is a second process, which queues behind this one
//! before the waiter goes, or before the lock is given back: waiters that keep this process's queue
//! entry come before it. `memory://` is one process.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest};
use dlock_tests::locks;
use tokio::task::JoinHandle;

use crate::world::{A_WHILE, SOON, World, patient};

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A turn with the lock: a local waiter's, by its number, or the other process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Local(usize),
    Stranger,
}

/// The order of turns at one key.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<Vec<Turn>>>);

impl Turns {
    pub(crate) fn push(&self, turn: Turn) {
        self.0.lock().unwrap().push(turn);
    }

    pub(crate) fn so_far(&self) -> Vec<Turn> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until there were exactly these.
    pub(crate) async fn are(&self, expected: &[Turn], what: &str) {
        let enough = async || self.so_far().len() >= expected.len();
        until(&format!("{what}: {expected:?}"), SOON, enough).await;
        assert_eq!(self.so_far(), expected, "{what}");
    }
}

pub(crate) type Acquiring = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

pub(crate) fn request(pool: &LockPool, key: &str) -> LockRequest {
    pool.lock(key).ttl(TTL).wait(A_WHILE * 2)
}

/// Queues, and then takes its turn, on a task of its own.
pub(crate) fn wait_here(pool: &LockPool, key: &str, turn: Turn, turns: &Turns) -> JoinHandle<()> {
    let mut acquiring: Acquiring = Box::pin(request(pool, key).acquire());
    // The first poll joins the queue, so the waiters queue in the order of these calls.
    let seated = acquiring
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    let turns = turns.clone();
    tokio::spawn(async move {
        let guard = match seated {
            Poll::Ready(guard) => guard,
            Poll::Pending => acquiring.await,
        };
        turns.push(turn);
        tokio::task::yield_now().await;
        guard.unwrap().release().await.unwrap();
    })
}

/// A future that calls `tell` after its first poll, when it has joined the queue.
pub(crate) async fn seated<F: Future>(future: F, tell: impl FnOnce()) -> F::Output {
    let (mut future, mut tell) = (Box::pin(future), Some(tell));
    poll_fn(move |cx| {
        let polled = future.as_mut().poll(cx);
        if let Some(tell) = tell.take() {
            tell();
        }
        polled
    })
    .await
}

/// The holder name of the other process, by which its queue entries are recognized.
pub(crate) const STRANGER: &str = "stranger";

/// How many entries this process and the other one have in the queue of a key.
pub(crate) async fn places(server: &RedisServer, key: &str) -> (usize, usize) {
    let entries = locks::queue(server, key).await;
    let strangers = entries.iter().filter(|entry| entry.contains(STRANGER));
    let strangers = strangers.count();
    (entries.len() - strangers, strangers)
}

pub(crate) async fn until_entries(server: &RedisServer, key: &str, expected: (usize, usize)) {
    let what = format!("in the queue, here and elsewhere: {expected:?}");
    until(&what, A_WHILE, async || {
        places(server, key).await == expected
    })
    .await;
}

/// No queue is left on the server.
pub(crate) async fn no_queue_is_left(server: &RedisServer) {
    until("no queue is left", SOON, async || {
        let keys = server.keys().await;
        !keys
            .iter()
            .any(|key| key.starts_with("lock:@") && key != "lock:@fence")
    })
    .await;
}

/// The processes of a test.
pub(crate) struct Processes<'a> {
    pub(crate) world: &'a World,
    /// The first holder's process; without a server it is this one.
    holding: LockPool,
    /// The other process, which waits as this one does.
    pub(crate) stranger: Option<LockPool>,
    /// How often a local waiter had the lock before the other process, though it came later.
    rows: Cell<usize>,
}

impl<'a> Processes<'a> {
    pub(crate) async fn of(world: &'a World) -> Self {
        let Some(server) = &world.server else {
            let holding = world.pool.clone();
            return Self {
                world,
                holding,
                stranger: None,
                rows: Cell::new(0),
            };
        };
        let elsewhere = |config| async { LockPool::connect(config).await.unwrap() };
        let holding = elsewhere(patient(&server.url())).await;
        let stranger = elsewhere(patient(&server.url()).holder_name(STRANGER)).await;
        // The watchdogs connect now, and not in the middle of a count.
        for pool in [&holding, &stranger] {
            drop(pool.lock("warm").acquire().await.unwrap());
            world.freed("warm").await;
        }
        Self {
            world,
            holding,
            stranger: Some(stranger),
            rows: Cell::new(0),
        }
    }

    /// Asserts the turns. With local hand-off, the other process may have its turn later than its
    /// queue entry says, unless it comes first; the order of the local waiters stays the same.
    pub(crate) fn assert_turns(&self, turns: &Turns, in_order: &[Turn], what: &str) {
        let found = turns.so_far();
        if !self.world.hands_on || found == in_order {
            assert_eq!(found, in_order, "{what}");
            return;
        }
        let place = |turns: &[Turn]| turns.iter().position(|turn| *turn == Turn::Stranger);
        assert!(place(&found) > place(in_order), "{what}: {found:?}");
        let locals = |turns: &[Turn]| -> Vec<Turn> {
            let locals = turns.iter().filter(|turn| **turn != Turn::Stranger);
            locals.copied().collect()
        };
        assert_eq!(locals(&found), locals(in_order), "{what}: {found:?}");
        self.rows.set(self.rows.get() + 1);
    }

    pub(crate) async fn hold(&self, key: &str) -> LockGuard {
        request(&self.holding, key).acquire().await.unwrap()
    }

    /// If locks can be handed on in this world, at least one was; otherwise the test has shown
    /// nothing about it.
    pub(crate) fn assert_rows(&self) {
        let could_be = self.world.hands_on && self.stranger.is_some();
        assert!(!could_be || self.rows.get() > 0, "no lock was handed on");
    }

    /// Waits until this process has its queue entry, or `gone` says that it has none, and then lets
    /// the other process queue behind it.
    pub(crate) async fn let_stranger_queue(
        &self,
        key: &str,
        turns: &Turns,
        gone: impl Fn() -> bool,
    ) -> Option<JoinHandle<()>> {
        let (server, stranger) = (self.world.server.as_ref()?, self.stranger.as_ref()?);
        until("this process has its place", A_WHILE, async || {
            gone() || places(server, key).await.0 == 1
        })
        .await;
        let task = wait_here(stranger, key, Turn::Stranger, turns);
        until(
            "the other one has its place, or its turn",
            A_WHILE,
            async || places(server, key).await.1 == 1 || turns.so_far().contains(&Turn::Stranger),
        )
        .await;
        Some(task)
    }
}
