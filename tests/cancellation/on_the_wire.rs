//! A waiter dropped while a command or message about its process's queue entry is certainly on its
//! way: a proxy holds it back. Each case alone, and with another waiter here that keeps the queue
//! entry, in front of another process.

use std::time::Duration;

use dlock_harness::resp::words;
use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{Config, LockGuard, LockPool};
use tokio::task::JoinHandle;

use crate::waiters::{
    STRANGER, TTL, Turn, Turns, no_queue_is_left, places, request, until_entries, wait_here,
};
use crate::world::{A_WHILE, Baseline, World};

const KEY: &str = "item";

/// A process behind a proxy, whose first waiter is dropped; and a rival process, which holds the
/// lock and waits for it once more.
struct Wire {
    world: World,
    proxy: Proxy,
    rival: LockPool,
    baseline: Baseline,
    turns: Turns,
    tasks: Vec<JoinHandle<()>>,
    neighbour: bool,
}

/// As in `world`, but polls come once a second: a grant is awaited for 3 s at most, so most grants
/// seen here are not found by a poll.
fn config(url: &str) -> Config {
    let config = Config::new(url).connect_timeout(A_WHILE);
    config.command_timeout(A_WHILE)
}

impl Wire {
    async fn new(neighbour: bool) -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        let rival = config(&server.url()).holder_name(STRANGER);
        let rival = LockPool::connect(rival).await.unwrap();
        drop(rival.lock("warm").acquire().await.unwrap());
        let world = World::over(server, config(&proxy.url())).await;
        // Both pools have run all scripts: each command is one request.
        for pool in [&world.pool, &rival] {
            let warm = pool.lock("warm").wait(A_WHILE).acquire().await.unwrap();
            warm.extend(TTL * 2).await.unwrap();
            let next = tokio::spawn(pool.lock("warm").wait(A_WHILE).acquire());
            until("a place", A_WHILE, async || {
                places(world.server(), "warm").await != (0, 0)
            })
            .await;
            next.abort();
            until_entries(world.server(), "warm", (0, 0)).await;
            warm.release().await.unwrap();
            world.freed("warm").await;
        }
        let baseline = world.baseline().await;
        Self {
            world,
            proxy,
            rival,
            baseline,
            turns: Turns::default(),
            tasks: Vec::new(),
            neighbour,
        }
    }

    /// The rival holds the lock.
    async fn hold(&self) -> LockGuard {
        request(&self.rival, KEY).acquire().await.unwrap()
    }

    /// The waiter that will be dropped; it is the first in the queue.
    fn first(&self) -> JoinHandle<()> {
        wait_here(&self.world.pool, KEY, Turn::Local(0), &self.turns)
    }

    /// The waiters behind it: here, if the case has a neighbour, and in the other process.
    async fn others(&mut self) {
        self.neighbours();
        self.stranger().await;
    }

    fn neighbours(&mut self) {
        if self.neighbour {
            let pool = &self.world.pool;
            let task = wait_here(pool, KEY, Turn::Local(1), &self.turns);
            self.tasks.push(task);
        }
    }

    async fn stranger(&mut self) {
        let task = wait_here(&self.rival, KEY, Turn::Stranger, &self.turns);
        self.tasks.push(task);
        let queued = async || places(self.world.server(), KEY).await.1 == 1;
        until("the other process has its place", A_WHILE, queued).await;
    }

    /// Drops the first waiter. With no other waiter here, its queue entry goes too, and quickly:
    /// not by a missed heartbeat.
    async fn goes(&self, first: JoinHandle<()>) {
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
    }

    fn locals_first(&self) -> Vec<Turn> {
        if self.neighbour {
            vec![Turn::Local(1), Turn::Stranger]
        } else {
            vec![Turn::Stranger]
        }
    }

    /// All that stayed had the lock, in this order; the lock is free, and nothing is left.
    async fn ends(self, order: &[Turn], what: &str) {
        self.turns.are(order, what).await;
        for task in self.tasks {
            task.await.unwrap();
        }
        self.proxy.pass();
        self.proxy.release_held();
        self.world.freed(KEY).await;
        no_queue_is_left(self.world.server()).await;
        self.world.is_back_at(&self.baseline).await;
        self.world.pool.ping().await.unwrap();
        assert_eq!(self.turns.so_far(), order, "{what}");
    }
}

fn scripts() -> Matcher {
    Matcher::script().containing("lock:item")
}

/// Commands about leases have one key per lock; those about the queue have four keys.
fn renewals() -> Matcher {
    Matcher::when(|request| matches!(words(request)[..], [b"EVALSHA", _, b"1", b"lock:item", ..]))
}

/// An acquire that does not queue.
fn last_looks() -> Matcher {
    Matcher::when(|request| {
        matches!(
            words(request)[..],
            [b"EVALSHA", _, b"4", b"lock:item", .., b"0", _] // the last argument proves grants
        )
    })
}

const BOTH: [bool; 2] = [false, true];

#[tokio::test]
async fn its_acquire_has_not_arrived() {
    for neighbour in BOTH {
        let mut wire = Wire::new(neighbour).await;
        let holder = wire.hold().await;
        let acquire = wire.proxy.on(scripts(), Action::Hold);
        let first = wire.first();
        acquire.seen().await;
        wire.neighbours();
        wire.goes(first).await;
        assert_eq!(places(wire.world.server(), KEY).await, (0, 0));
        wire.proxy.release_held();
        if neighbour {
            until_entries(wire.world.server(), KEY, (1, 0)).await;
        }
        wire.stranger().await;
        holder.release().await.unwrap();
        let order = wire.locals_first();
        wire.ends(&order, "an acquire held back").await;
    }
}

#[tokio::test]
async fn it_is_queued_and_does_not_know() {
    for neighbour in BOTH {
        let mut wire = Wire::new(neighbour).await;
        let holder = wire.hold().await;
        let acquire = wire.proxy.on(scripts(), Action::HoldReply);
        let first = wire.first();
        acquire.seen().await;
        wire.others().await;
        wire.goes(first).await;
        // Its queue entry passes to its neighbour, or is given up before the reply arrives.
        until_entries(wire.world.server(), KEY, (neighbour.into(), 1)).await;
        holder.release().await.unwrap();
        if neighbour {
            wire.proxy.release_held();
        }
        let order = wire.locals_first();
        wire.ends(&order, "a `queued` held back").await;
    }
}

#[tokio::test]
async fn its_acquire_was_granted_and_it_does_not_know() {
    for neighbour in BOTH {
        let mut wire = Wire::new(neighbour).await;
        let acquire = wire.proxy.on(scripts(), Action::HoldReply);
        let first = wire.first();
        acquire.seen().await;
        wire.others().await;
        wire.goes(first).await;
        if neighbour {
            wire.proxy.release_held();
        }
        let order = wire.locals_first();
        wire.ends(&order, "a grant at once held back").await;
    }
}

#[tokio::test]
async fn its_place_is_being_polled() {
    for action in [Action::Hold, Action::HoldReply] {
        for neighbour in BOTH {
            let mut wire = Wire::new(neighbour).await;
            let holder = wire.hold().await;
            let poll = wire.proxy.on(scripts().nth(2), action);
            let first = wire.first();
            until_entries(wire.world.server(), KEY, (1, 0)).await;
            wire.others().await;
            poll.seen().await;
            wire.goes(first).await;
            until_entries(wire.world.server(), KEY, (neighbour.into(), 1)).await;
            wire.proxy.release_held();
            holder.release().await.unwrap();
            let order = wire.locals_first();
            wire.ends(&order, "a poll held back").await;
        }
    }
}

#[tokio::test]
async fn its_grant_is_on_its_way() {
    for neighbour in BOTH {
        let mut wire = Wire::new(neighbour).await;
        let holder = wire.hold().await;
        let first = wire.first();
        until_entries(wire.world.server(), KEY, (1, 0)).await;
        wire.others().await;
        wire.proxy.stall_replies();
        holder.release().await.unwrap();
        // Its queue entry was the first, so the lock is this process's now.
        until_entries(wire.world.server(), KEY, (0, 1)).await;
        assert!(!wire.world.is_free(KEY).await);
        wire.goes(first).await;
        if neighbour {
            wire.proxy.pass();
        }
        let order = wire.locals_first();
        wire.ends(&order, "a push held back").await;
    }
}

/// A grant in turn is confirmed before a body with a `min_hold` begins; this one has not begun, so
/// its key is not kept.
#[tokio::test]
async fn it_confirms_its_min_hold() {
    for action in [Action::Hold, Action::HoldReply] {
        for neighbour in BOTH {
            let mut wire = Wire::new(neighbour).await;
            let holder = wire.hold().await;
            let confirm = wire.proxy.on(renewals(), action);
            let confirmed = request(&wire.world.pool, KEY).min_hold(A_WHILE);
            let first = tokio::spawn(async move { drop(confirmed.acquire().await) });
            until_entries(wire.world.server(), KEY, (1, 0)).await;
            wire.others().await;
            holder.release().await.unwrap();
            confirm.seen().await;
            wire.goes(first).await;
            wire.proxy.release_held();
            // The process had its turn, so its neighbour stands behind the other process by now.
            let mut order = wire.locals_first();
            order.reverse();
            wire.ends(&order, "a confirmation held back").await;
        }
    }
}

#[tokio::test]
async fn it_tries_past_the_queue() {
    for action in [Action::Hold, Action::HoldReply] {
        for neighbour in BOTH {
            let mut wire = Wire::new(neighbour).await;
            let holder = wire.hold().await;
            let look = wire.proxy.on(last_looks(), action);
            let impatient = request(&wire.world.pool, KEY).wait(Duration::from_millis(300));
            let first = tokio::spawn(async move { drop(impatient.acquire().await) });
            until_entries(wire.world.server(), KEY, (1, 0)).await;
            wire.others().await;
            look.seen().await;
            wire.goes(first).await;
            until_entries(wire.world.server(), KEY, (neighbour.into(), 1)).await;
            wire.proxy.release_held();
            holder.release().await.unwrap();
            let order = wire.locals_first();
            wire.ends(&order, "a last look held back").await;
        }
    }
}

/// The command is executed when the lock is free and its caller has gone.
#[tokio::test]
async fn a_last_look_that_comes_late_keeps_no_lock() {
    let wire = Wire::new(false).await;
    let holder = wire.hold().await;
    let look = wire.proxy.on(last_looks(), Action::Hold);
    let impatient = request(&wire.world.pool, KEY).wait(Duration::from_millis(50));
    let first = tokio::spawn(async move { drop(impatient.acquire().await) });
    look.seen().await;
    wire.goes(first).await;
    until_entries(wire.world.server(), KEY, (0, 0)).await;
    holder.release().await.unwrap();
    let monitor = wire.world.monitor().unwrap();
    wire.proxy.release_held();
    monitor
        .wait_for("lua] \"SET\" \"lock:item\"", A_WHILE)
        .await;
    drop(monitor);
    wire.ends(&[], "a last look after its caller").await;
}
