//! What waiting costs: a hand-over between processes is two commands; a waiting process sends about
//! one command a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dlock_harness::{Monitor, RedisServer, until};
use dlock_runtime::{LockError, LockPool, Wait};
use dlock_tests::patient;
use tokio::task::JoinHandle;

use crate::connect;
use crate::record::{Call, Line, lines, lines_so_far};

const CAP: Duration = Duration::from_secs(60);
const SECOND: u64 = 1_000_000;

/// A pool with this limit of hand-offs in a chain; its time limit is so long that no pause of the
/// machine ends a chain.
async fn named(server: &RedisServer, name: &str, handoffs: usize) -> LockPool {
    let config = patient(server.url())
        .holder_name(name)
        .local_handoff(handoffs, Duration::from_secs(1));
    LockPool::connect(config).await.unwrap()
}

/// Tasks that take `key` while there are turns left, and release it at once.
fn take_turns(pool: &LockPool, tasks: usize, turns: &Arc<AtomicUsize>) -> Vec<JoinHandle<()>> {
    let take = |pool: LockPool, turns: Arc<AtomicUsize>| async move {
        let another = |left: usize| left.checked_sub(1);
        while turns
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, another)
            .is_ok()
        {
            let guard = pool.lock("key").wait(Wait::Forever).acquire();
            guard.await.unwrap().release().await.unwrap();
        }
    };
    let tasks = (0..tasks).map(|_| tokio::spawn(take(pool.clone(), turns.clone())));
    tasks.collect()
}

/// The number of hand-overs that are counted, and of those before them, while the queues fill.
const COUNTED: usize = 200;
const BEFORE: usize = 250;

/// Two pools with this many waiters each; returns what clients sent from one release to the
/// `COUNTED`th after it.
async fn hand_overs(waiters: usize) -> Vec<Line> {
    let server = RedisServer::start();
    let (one, two) = (
        named(&server, "one", 0).await,
        named(&server, "two", 0).await,
    );
    let monitor = server.monitor();
    // The last tasks find nobody behind them, so there are more turns than are counted.
    let turns = Arc::new(AtomicUsize::new(BEFORE + COUNTED + 4 * waiters));
    let mut tasks = take_turns(&one, waiters, &turns);
    tasks.extend(take_turns(&two, waiters, &turns));
    for task in tasks {
        task.await.unwrap();
    }
    let all = lines(&monitor).await;
    let is_release = |line: &Line| Call::of(line) == Some(Call::Release);
    let releases = all.iter().enumerate().filter(|(_, line)| is_release(line));
    let at: Vec<usize> = releases.map(|(index, _)| index).collect();
    all[at[BEFORE]..at[BEFORE + COUNTED]].to_vec()
}

/// How often the lock went from one pool to the other.
fn crossings(window: &[Line]) -> usize {
    let granted = |line: &Line| -> Option<bool> {
        let is_grant = !line.by_client && line.words[0] == "SET" && line.names("lock:key");
        is_grant.then(|| line.words[2].contains("|one|"))
    };
    let holders: Vec<bool> = window.iter().filter_map(granted).collect();
    holders.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// However long its local queue, each process has one queue entry on the server, and sends a new
/// acquire after each of its turns.
async fn check_two_commands_a_hand_over(waiters: usize) {
    let window = hand_overs(waiters).await;
    let sent: Vec<&Line> = window.iter().filter(|line| line.by_client).collect();
    let count = |call: Call| sent.iter().filter(|it| Call::of(it) == Some(call)).count();
    let (polls, acquires) = (count(Call::Poll), count(Call::Acquire));
    // At either end of the window an acquire may be in flight.
    let all = sent.len() - polls;
    println!("{waiters} waiters: {all} commands, {polls} polls, {COUNTED} hand-overs");
    assert_eq!(count(Call::Release), COUNTED);
    assert!(acquires.abs_diff(COUNTED) <= 2, "{acquires} acquires");
    // If the machine stalls, a grant may go stale or a lease may need its extension: rare.
    assert!(all <= 2 * COUNTED + COUNTED / 20, "{all} commands");
    let seconds = (window[window.len() - 1].at - window[0].at).div_ceil(SECOND);
    let budget = 2 * (2 + usize::try_from(seconds).unwrap());
    assert!(polls <= budget, "{polls} polls in {seconds} s");
    // The processes alternate, so these were hand-overs between them.
    let crossings = crossings(&window);
    assert!(crossings >= COUNTED * 9 / 10, "{crossings} crossings");
}

#[tokio::test]
async fn a_hand_over_is_two_commands_however_many_wait() {
    for waiters in [2, 10, 100] {
        check_two_commands_a_hand_over(waiters).await;
    }
}

/// Two commands for a chain of 17 holders.
#[tokio::test]
async fn a_chain_of_local_handoffs_is_two_commands() {
    const TURNS: usize = 1_700;
    let server = RedisServer::start();
    let (one, two) = (
        named(&server, "one", 16).await,
        named(&server, "two", 16).await,
    );
    let monitor = server.monitor();
    let turns = Arc::new(AtomicUsize::new(TURNS));
    let mut tasks = take_turns(&one, 10, &turns);
    tasks.extend(take_turns(&two, 10, &turns));
    for task in tasks {
        task.await.unwrap();
    }
    let all = lines(&monitor).await;
    let sent = all.iter().filter(|line| line.by_client).count();
    let (rows, crossings) = (TURNS / 17, crossings(&all));
    println!("{TURNS} turns: {sent} commands, {crossings} crossings");
    assert!(sent <= 2 * rows + rows / 2, "{sent} commands");
    assert!(crossings >= rows * 8 / 10, "{crossings} crossings");
}

/// Tasks of a pool that wait for a key until they are dropped.
fn wait_for(pool: &LockPool, key: &'static str, tasks: usize) -> Waiting {
    let wait = |pool: LockPool| async move {
        let guard = pool.lock(key).wait(Wait::Forever).acquire().await?;
        guard.release().await.map(drop)
    };
    Waiting(
        (0..tasks)
            .map(|_| tokio::spawn(wait(pool.clone())))
            .collect(),
    )
}

struct Waiting(Vec<JoinHandle<Result<(), LockError>>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// What clients sent about a key, until a poll of it came `after` µs later than its first one. A
/// script's text, which is sent when its hash is unknown, counts as the same command.
async fn said_of(monitor: &Monitor, key: &str, after: u64) -> Vec<Line> {
    let mut said = Vec::new();
    until("it is polled for long enough", CAP, async || {
        said = lines_so_far(monitor);
        said.retain(|line| line.by_client && line.names(key) && line.words[0] != "EVAL");
        let mut polls = said.iter().filter(|it| Call::of(it) == Some(Call::Poll));
        let (first, last) = (polls.next(), polls.next_back());
        matches!((first, last), (Some(first), Some(last)) if last.at - first.at >= after)
    })
    .await;
    said
}

/// A foreign lock is held for long; the tasks of a pool wait for it.
async fn check_an_idle_queue_is_cheap(tasks: usize) {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let held = ["SET", "lock:key", "foreign", "NX", "PX", "600000"];
    server.cmd(&held).await;
    let monitor = server.monitor();
    let _waiting = wait_for(&pool, "key", tasks);
    let said = said_of(&monitor, "lock:key", 6 * SECOND).await;
    let first = said.iter().position(|it| Call::of(it) == Some(Call::Poll));
    let first = first.unwrap();
    // One queue entry, made by one acquire, however many tasks wait.
    assert_eq!(first, 1, "{said:#?}");
    assert_eq!(Call::of(&said[0]), Some(Call::Acquire));
    let idle = &said[first..];
    let commands = u64::try_from(idle.len() - 1).unwrap(); // the first one starts the clock
    let micros = idle[idle.len() - 1].at - idle[0].at;
    println!("{tasks} tasks: {commands} commands in {micros} µs");
    assert!(commands * 10 * SECOND <= 12 * micros, "{idle:#?}");
    // The queue entry stays the same.
    assert!(idle.iter().all(|it| Call::of(it) == Some(Call::Poll)));
    let of_the_queue: Vec<String> = server
        .ask(&["ZRANGE", "lock:@w:{lock:key}", "0", "-1"])
        .await;
    let words: Vec<&str> = said[0].words.iter().map(String::as_str).collect();
    let [_, _, _, _, _, _, _, entry, _, _, _, "1", _] = words[..] else {
        panic!("{:?}", said[0]);
    };
    assert_eq!(of_the_queue, [entry]);
}

#[tokio::test]
async fn one_waiting_task_or_fifty_send_about_a_command_a_second() {
    tokio::join!(
        check_an_idle_queue_is_cheap(1),
        check_an_idle_queue_is_cheap(50)
    );
}

/// The cost is per key, not per process: two keys cost twice as much, and no more.
#[tokio::test]
async fn two_keys_cost_about_a_command_a_second_each() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let keys = ["one", "two"];
    for key in keys {
        let key = format!("lock:{key}");
        let held = ["SET", &key, "foreign", "NX", "PX", "600000"];
        server.cmd(&held).await;
    }
    let monitor = server.monitor();
    let _waiting = keys.map(|key| wait_for(&pool, key, 3));
    for key in keys {
        let said = said_of(&monitor, &format!("lock:{key}"), 5 * SECOND).await;
        let polls = said.iter().filter(|it| Call::of(it) == Some(Call::Poll));
        let polls: Vec<&Line> = polls.collect();
        let micros = polls[polls.len() - 1].at - polls[0].at;
        let count = u64::try_from(polls.len() - 1).unwrap();
        assert!(count * 10 * SECOND <= 12 * micros, "{key}: {count}");
    }
}
