//! A hundred tasks of one process wait for one key, and the connection, the server or its data goes
//! away: all get their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dlock_harness::{until, wait};
use dlock_runtime::{LockPool, Wait};
use tokio::task::JoinSet;

use crate::lab::{CAP, COMMAND, ITEM, LONG, Lab, SLACK};
use crate::outage::{Outage, tests_of};
use crate::waiters::{A, W, is_pushed, item, one_waits};

const TASKS: usize = 100;

/// After this many turns the fault comes.
const TURNS_BEFORE: usize = 30;

/// Polls are at least a second apart.
const BEFORE_THE_NEXT_POLL: Duration = Duration::from_millis(950);

/// What the tasks did in their turns.
#[derive(Default)]
struct Record {
    inside: AtomicBool,
    turns: AtomicUsize,
    overlaps: AtomicUsize,
}

impl Record {
    async fn turn(&self) {
        let overlap = self.inside.swap(true, Ordering::SeqCst);
        self.overlaps
            .fetch_add(usize::from(overlap), Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.inside.store(false, Ordering::SeqCst);
        self.turns.fetch_add(1, Ordering::SeqCst);
    }

    fn turns(&self) -> usize {
        self.turns.load(Ordering::SeqCst)
    }
}

/// Starts all tasks; they are in the local queue when this returns.
async fn hundred(pool: &LockPool, record: &Arc<Record>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let in_line = Arc::new(AtomicUsize::new(0));
    for _ in 0..TASKS {
        let (record, in_line) = (record.clone(), in_line.clone());
        let lock = pool.lock(ITEM).ttl(LONG).wait(Wait::Forever);
        tasks.spawn(async move {
            in_line.fetch_add(1, Ordering::SeqCst); // one poll from here to joining the queue
            lock.run(async |_| record.turn().await).await.unwrap();
        });
    }
    until("they are in line", CAP, async || {
        in_line.load(Ordering::SeqCst) == TASKS
    })
    .await;
    tasks
}

/// All have had their turn, alone, and nothing is left.
async fn all_had_their_turn(lab: &Lab, pool: LockPool, record: &Record, mut tasks: JoinSet<()>) {
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    };
    let done = wait::within(CAP * 2, all).await;
    assert!(done.is_some(), "{} had their turn", record.turns());
    assert_eq!(record.turns(), TASKS);
    assert_eq!(
        record.overlaps.load(Ordering::SeqCst),
        0,
        "two held it at once"
    );
    lab.until_at_rest().await;
    drop(pool);
    until("the connections are closed", CAP, async || {
        lab.proxy.live() == 0
    })
    .await;
}

tests_of! { check:
    a_connection_that_is_killed Killed,
    all_connections_that_are_cut Cut,
    a_black_hole_that_heals BlackHole,
    a_wire_that_stalls_for_a_while Stalled,
    replies_and_pushes_that_are_lost_for_a_while Mute,
    requests_that_are_lost_for_a_while Deaf,
    a_server_that_is_stopped_for_a_while ServerStopped,
    a_server_that_forgets_its_scripts ScriptsForgotten,
    a_server_that_comes_back_without_data ServerWithoutData,
    a_server_that_is_emptied Emptied,
    a_queue_that_is_deleted QueueDeleted,
}

/// It lasts until a connection counts as dead.
async fn comes_and_goes(outage: Outage, lab: &Lab) {
    outage.begins(lab).await;
    if outage.lasts() {
        wait::pause(COMMAND * 3).await;
        outage.ends(lab);
    }
}

/// It comes while another process holds the lock; and once more between two turns, if it takes no
/// lock away.
async fn check(outage: Outage) {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let record = Arc::default();
    let tasks = hundred(&pool, &record).await;
    lab.until_queued(1).await;
    comes_and_goes(outage, &lab).await;
    if outage.takes_the_lock() {
        drop(holder);
    } else {
        // The queue entry exists again, or still, before the holder lets go.
        until("they wait again", CAP, async || {
            lab.server.ask::<usize>(&["EXISTS", W]).await == 1
        })
        .await;
        assert_eq!(record.turns(), 0);
        lab.is_its(&holder).await;
        holder.release().await.unwrap();
        until("some had their turn", CAP, async || {
            record.turns() >= TURNS_BEFORE
        })
        .await;
        comes_and_goes(outage, &lab).await;
    }
    all_had_their_turn(&lab, pool, &record, tasks).await;
}

/// Kills the connection of a waiter that has just polled and would poll again in a second; returns
/// how long it takes until it has another queue entry.
async fn is_replaced(lab: &Lab) -> Duration {
    let place = lab.places().await.remove(0);
    let sign_of_life = async || lab.server.ask::<Option<u64>>(&["ZSCORE", A, &place]).await;
    let first = sign_of_life().await;
    until("it has polled", CAP, async || sign_of_life().await != first).await;
    let killed = Instant::now();
    let kill = ["CLIENT", "KILL", "TYPE", "pubsub"];
    lab.server.cmd(&kill).await;
    until(
        "it has another place",
        CAP,
        async || matches!(&lab.places().await[..], [new] if *new != place),
    )
    .await;
    killed.elapsed()
}

/// The old connection's channel has no subscriber any more: the waiter queues again at once, and
/// gets its push over the new connection.
#[tokio::test]
async fn a_waiter_whose_connection_is_replaced_is_told_over_the_new_one() {
    let (lab, _pool, _direct, holder, waiter) = one_waits().await;
    // A waiter that only polled on schedule would be late each time; one that has to connect on a
    // busy machine is late now and then.
    let mut took = vec![is_replaced(&lab).await];
    while took.last() >= Some(&BEFORE_THE_NEXT_POLL) {
        assert!(took.len() < 5, "took {took:?}");
        took.push(is_replaced(&lab).await);
    }
    let _held = is_pushed(&lab, holder, waiter).await;
}

/// A second waiter joins while the first one's acquire is unanswered, so that the acquire goes on
/// in a task of its own.
#[tokio::test]
async fn the_first_of_two_waits_no_longer_than_it_says() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let patience = Duration::from_secs(2);
    let waiter = || {
        let request = item(&pool).wait(patience);
        tokio::spawn(async move {
            let begun = Instant::now();
            let error = request.acquire().await.unwrap_err();
            (begun.elapsed(), error)
        })
    };
    lab.server.stop_signal();
    let first = waiter();
    tokio::task::yield_now().await;
    let second = waiter();
    tokio::task::yield_now().await;
    lab.server.cont();
    for waiter in [first, second] {
        let ended = wait::within(CAP, waiter).await;
        let (after, error) = ended.expect("it ends").unwrap();
        assert!(error.is_busy(), "{error:?}");
        assert!(after < wait::scaled(patience + SLACK), "{after:?}");
    }
    holder.release().await.unwrap();
    lab.until_at_rest().await;
}

/// Each cut breaks all connections at once, and many callers wait: all get their turn, nothing
/// stays.
#[tokio::test]
async fn many_callers_survive_a_wire_that_is_cut_again_and_again() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let callers = (0..20).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let lock = pool.lock(ITEM).ttl(LONG).wait(LONG);
            let guard = lock.acquire().await.unwrap();
            let fence = guard.fence();
            drop(guard);
            fence
        })
    });
    let callers: Vec<_> = callers.collect();
    for _ in 0..10 {
        lab.proxy.cut_all();
        wait::pause(Duration::from_millis(20)).await;
    }
    let mut fences = Vec::new();
    for caller in callers {
        fences.push(caller.await.unwrap());
    }
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 20, "each grant has its own token");
    lab.until_free().await;
}
