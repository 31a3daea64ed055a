//! A transaction is two round trips: `WATCH` with what is read, then `MULTI`. Here everything else
//! that may happen to its key and queue happens between them, for each transaction in turn: never
//! two holders, nothing of others is touched, every waiter gets the lock, fences rise, and nothing
//! is left.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{LockError, LockGuard, LockPool, Released, Wait};
use dlock_tests::patient;
use tokio::task::JoinHandle;

use crate::{CAP, LONG, connect, plain};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transaction {
    Release,
    /// A release that keeps the key for `min_hold`.
    Keep,
    Extend,
    /// A waiter finds the key free, and gives the lock to the first of the queue.
    Grant,
}

use Transaction::{Extend, Grant, Keep, Release};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// Another program takes the key without asking.
    Theft,
    Deleted,
    Flushed,
    /// Somebody with scripts asks for the lock, or without.
    Scripted,
    Plain,
    /// The first of the queue gives up.
    Left,
}

use Meanwhile::{Deleted, Flushed, Left, Nothing, Plain, Scripted, Theft};

const EVENTS: [Meanwhile; 7] = [Nothing, Theft, Deleted, Flushed, Scripted, Plain, Left];

const MIN_HOLD: Duration = Duration::from_millis(500);

struct Lab {
    server: RedisServer,
    wire: Proxy,
    /// Its transactions are held.
    held_up: LockPool,
    /// Of those who wait before.
    waits: LockPool,
    /// Of those who come meanwhile.
    plain: LockPool,
    scripted: LockPool,
}

/// Who believes to hold the lock, and the fences in the order of the grants.
#[derive(Default)]
struct Seen {
    inside: AtomicU32,
    fences: Mutex<Vec<u64>>,
}

impl Seen {
    fn enters(&self, guard: &LockGuard) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
        self.fences.lock().unwrap().push(guard.fence().get());
    }

    fn leaves(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits, holds the lock for a moment, and gives it back.
fn turn(pool: &LockPool, key: &str, seen: &Arc<Seen>) -> JoinHandle<()> {
    let acquire = pool.lock(key).ttl(LONG).wait(Wait::Forever).acquire();
    let seen = seen.clone();
    tokio::spawn(async move {
        let guard = acquire.await.unwrap();
        seen.enters(&guard);
        guard.verify().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        seen.leaves();
        guard.release().await.unwrap();
    })
}

impl Lab {
    async fn new() -> Self {
        let server = RedisServer::start();
        let wire = Proxy::start(server.addr());
        Self {
            held_up: connect(plain(wire.url())).await,
            waits: connect(plain(server.url())).await,
            plain: connect(plain(server.url())).await,
            scripted: connect(patient(server.url())).await,
            server,
            wire,
        }
    }

    async fn queued(&self, key: &str, waiters: u64) {
        let queue = format!("lock:@w:{{lock:{key}}}");
        until("it waits", CAP, async || {
            self.server.ask::<u64>(&["ZCARD", &queue]).await == waiters
        })
        .await;
    }

    /// Returns who came meanwhile. `first`: who waits.
    async fn happens(
        &self,
        meanwhile: Meanwhile,
        key: &str,
        first: &mut Option<JoinHandle<()>>,
        seen: &Arc<Seen>,
    ) -> Option<JoinHandle<()>> {
        let lock = format!("lock:{key}");
        let waiting = u64::from(first.is_some());
        let pool = match meanwhile {
            Nothing => return None,
            Theft => {
                let theft = ["SET", &lock, "theirs", "PX", "60000"];
                self.server.cmd(&theft).await;
                return None;
            }
            Deleted => {
                self.server.cmd(&["DEL", &lock]).await;
                return None;
            }
            Flushed => {
                self.server.cmd(&["FLUSHALL"]).await;
                return None;
            }
            Left => {
                if let Some(first) = first.take() {
                    first.abort();
                    self.queued(key, 0).await;
                }
                return None;
            }
            Scripted => &self.scripted,
            Plain => &self.plain,
        };
        let comes = turn(pool, key, seen);
        // Of a free key it is granted at once, if nobody waits.
        let queue = format!("lock:@w:{{lock:{key}}}");
        until("it waits, or has had its turn", CAP, async || {
            comes.is_finished() || self.server.ask::<u64>(&["ZCARD", &queue]).await > waiting
        })
        .await;
        Some(comes)
    }

    /// What the transaction is about; for a grant, another program has the key.
    async fn held(&self, transaction: Transaction, key: &str, seen: &Seen) -> Option<LockGuard> {
        if transaction == Grant {
            let theirs = ["SET", &format!("lock:{key}"), "theirs", "PX", "60000"];
            self.server.cmd(&theirs).await;
            return None;
        }
        let request = self.held_up.lock(key).ttl(LONG);
        let request = match transaction {
            Keep => request.min_hold(MIN_HOLD),
            _ => request,
        };
        let guard = request.acquire().await.unwrap();
        seen.enters(&guard);
        Some(guard)
    }

    async fn case(&self, transaction: Transaction, meanwhile: Meanwhile, waited_for: bool) {
        let what = format!("{transaction:?}, {meanwhile:?}, waited for: {waited_for}");
        let key = &*format!("{transaction:?}-{meanwhile:?}-{waited_for}");
        let lock = format!("lock:{key}");
        let seen = Arc::<Seen>::default();
        let held = self.held(transaction, key, &seen).await;
        let first_of = match transaction {
            Grant => &self.held_up,
            _ => &self.waits,
        };
        let mut first = waited_for.then(|| turn(first_of, key, &seen));
        self.queued(key, u64::from(waited_for)).await;

        let multi = self.wire.on(Matcher::command("MULTI"), Action::Hold);
        if transaction != Extend && held.is_some() {
            seen.leaves();
        }
        let ended = tokio::spawn(async move {
            match (transaction, held) {
                (Extend, Some(held)) => {
                    let extended = held.extend(2 * LONG).await;
                    let is_lost = extended.as_ref().is_err_and(LockError::is_lost);
                    assert!(extended.is_ok() || is_lost, "{extended:?}");
                    (!is_lost, Some(held))
                }
                (_, Some(held)) => match held.release().await.unwrap() {
                    Released::Freed => (true, None),
                    released => {
                        assert_eq!(released, Released::NotHeld);
                        (false, None)
                    }
                },
                (_, None) => (true, None),
            }
        });
        if transaction == Grant {
            self.server.cmd(&["DEL", &lock]).await;
        }
        multi.seen().await;
        let is_gone = matches!(meanwhile, Theft | Deleted | Flushed);
        if is_gone && transaction == Extend {
            seen.leaves(); // it is about to learn it
        }
        let second = self.happens(meanwhile, key, &mut first, &seen).await;
        self.wire.clear_triggers();
        self.wire.release_held();
        let (done, held) = ended.await.unwrap();
        if transaction != Grant {
            assert_eq!(done, !is_gone, "{what}");
        }
        if meanwhile == Theft {
            let left = self.server.ask::<Option<String>>(&["GET", &lock]).await;
            assert_eq!(left.as_deref(), Some("theirs"), "{what}");
            assert!(self.server.pttl(&lock).await <= 60_000, "{what}");
            self.server.cmd(&["DEL", &lock]).await;
        }
        if transaction == Release && meanwhile == Left {
            let granted = self.server.ask::<Option<String>>(&["GET", &lock]).await;
            assert_eq!(granted, None, "to one who has left: {what}");
        }
        if let Some(held) = held.filter(|_| done) {
            seen.leaves();
            held.release().await.unwrap();
        }
        self.all_have_turns([first, second], &seen, &what).await;
    }

    /// Who waits gets the lock, fences have risen, and nothing is left.
    async fn all_have_turns(&self, waiters: [Option<JoinHandle<()>>; 2], seen: &Seen, what: &str) {
        for waiter in waiters.into_iter().flatten() {
            let turn = tokio::time::timeout(CAP, waiter).await;
            turn.unwrap_or_else(|_| panic!("nobody gives it the lock: {what}"))
                .unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let fences = seen.fences.lock().unwrap().clone();
        assert!(
            fences.is_sorted_by(|one, next| one < next),
            "{what}: {fences:?}"
        );
        until(&format!("nothing is left: {what}"), CAP, async || {
            let keys = self.server.keys().await;
            keys.iter().all(|key| key == "lock:@fence")
        })
        .await;
    }
}

/// A server that has a compare-and-delete of its own releases without a transaction, if nobody
/// waits.
async fn releases_by_one_command(server: &RedisServer) -> bool {
    let ask = ["COMMAND", "INFO", "DELEX", "DELIFEQ"];
    let known: Vec<redis::Value> = server.ask(&ask).await;
    known.iter().any(|it| *it != redis::Value::Nil)
}

#[tokio::test]
async fn whatever_happens_between_the_two_round_trips_of_a_transaction() {
    let lab = Lab::new().await;
    let by_one_command = releases_by_one_command(&lab.server).await;
    for transaction in [Release, Keep, Extend, Grant] {
        for waited_for in [false, true] {
            let none = match transaction {
                Release => by_one_command,
                Grant => !waited_for,
                Keep | Extend => false,
            };
            for meanwhile in EVENTS {
                // Who has left can't be granted the lock by its own poll.
                let is_both = transaction == Grant && meanwhile == Left;
                if !none && !is_both {
                    lab.case(transaction, meanwhile, waited_for).await;
                }
            }
        }
    }
}
