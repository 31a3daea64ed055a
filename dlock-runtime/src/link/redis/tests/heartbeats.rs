//! Tests of heartbeats batched into one command: when each is sent, and what each waiter is told.
//! The state alone is tested in `link/batcher/tests`.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, link, waiter};
use super::refusals::{RIGHTS, as_user};
use super::shared::MORE_RIGHTS;
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::link::batcher::{Batcher, HeartbeatPace};
use crate::rules::commands::{Busy, Claim, Keep, Left, Polled};
use crate::values::error::Refusal;

/// A window longer than any test waits for.
const LONG: HeartbeatPace = HeartbeatPace {
    window: CAP,
    most: 3,
};

const SHORT: HeartbeatPace = HeartbeatPace {
    window: Duration::from_millis(500),
    most: 100,
};

const ALIVE: &str = "lock:@a:{lock:a}";

/// A holder of `lock:a`, and this many waiters for it, which receive no pushes.
async fn waiting(link: &RedisLink, number: usize) -> Vec<Claim> {
    let waiters = (0..number).map(|it| waiter("lock:a", "", &format!("waiter:{it}")));
    queue(link, &claim("lock:a", "holder"), waiters.collect()).await
}

/// Readers that wait behind a writer.
async fn readers(link: &RedisLink, number: usize) -> Vec<Claim> {
    let entry = |letter, name: String| format!("1|{letter}|{name}||30000|0|0||host|1|f|0");
    let reader = |it| Claim {
        queues: true,
        ..claim("lock:a", &entry('r', format!("reader:{it}")))
    };
    let writer = claim("lock:a", &entry('w', "writer".to_owned()));
    queue(link, &writer, (0..number).map(reader).collect()).await
}

async fn queue(link: &RedisLink, holder: &Claim, waiters: Vec<Claim>) -> Vec<Claim> {
    for who in [holder].into_iter().chain(&waiters) {
        let command = acquire(who, link.server_time() + HOUR);
        link.acquire(&command, CAP).await.unwrap();
    }
    waiters
}

/// What each waiter is told: `waits`, `waits for others` that poll for it, to `poll`, and so on.
async fn together(link: &RedisLink, claims: &[Claim]) -> Vec<&'static str> {
    let heartbeats = link.heartbeats(LONG);
    let answers = heartbeats.beat_together(claims.to_vec(), CAP).await;
    let told = |answer| match answer {
        Ok(Some(Polled::Queued(Busy { left, value, .. }))) => match left {
            Left::For(Duration::ZERO) if value.is_empty() => "waits for others",
            _ => "waits",
        },
        Ok(None) => "poll",
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(told).collect()
}

/// Polls without a waker.
fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Sends a first heartbeat by itself, so that those after it wait for the window.
async fn warm(heartbeats: &Arc<Batcher>, who: &Claim) {
    let first = heartbeats.beat(who, CAP).await;
    assert!(matches!(first, Ok(None)), "a lone one waits for nobody");
}

async fn beats(lab: &Lab) -> Vec<String> {
    lab.tell(&["ZRANGE", ALIVE, "0", "-1", "WITHSCORES"]).await
}

#[tokio::test]
async fn what_comes_within_the_window_goes_out_as_one() {
    let lab = Lab::new().await;
    let waiters = waiting(&lab.link, 5).await;
    let heartbeats = lab.link.heartbeats(SHORT);
    let before = lab.server.commandstats("evalsha").await + lab.server.commandstats("eval").await;
    warm(&heartbeats, &waiters[0]).await; // right before the others, which come within its window
    let beat = |at: usize| heartbeats.beat(&waiters[at], CAP);
    let (a, b, c, d) = tokio::join!(beat(1), beat(2), beat(3), beat(4));
    for answer in [a, b, c, d] {
        assert!(matches!(answer, Ok(Some(Polled::Queued(_)))), "{answer:?}");
    }
    assert_eq!(lab.server.commandstats("zmscore").await, 1);
    let after = lab.server.commandstats("evalsha").await + lab.server.commandstats("eval").await;
    assert!(after - before <= 2, "by its name, and by its text");
    let shown = format!("{heartbeats:?}");
    assert!(!shown.contains("1|x|waiter"), "no token is shown");
}

/// A caller that goes before takes no place in it: its heartbeat is not sent.
#[tokio::test]
async fn a_full_batch_waits_for_nothing() {
    let lab = Lab::new().await;
    let waiters = waiting(&lab.link, 5).await;
    let heartbeats = lab.link.heartbeats(LONG);
    warm(&heartbeats, &waiters[0]).await;
    let within = CAP / 2; // the window ends later
    let beat = |at: usize| heartbeats.beat(&waiters[at], within);
    assert!(poll_once(pin!(beat(4))).is_pending());
    let (a, b, c) = tokio::join!(beat(1), beat(2), beat(3));
    for answer in [a, b, c] {
        assert!(matches!(answer, Ok(Some(Polled::Queued(_)))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_deadline_that_is_over_before_it_was_sent_says_so() {
    let lab = Lab::new().await;
    let waiters = waiting(&lab.link, 2).await;
    let heartbeats = lab.link.heartbeats(LONG);
    warm(&heartbeats, &waiters[0]).await;
    let before = beats(&lab).await;
    let answer = heartbeats
        .beat(&waiters[1], Duration::from_millis(20))
        .await;
    assert!(matches!(answer, Err(CommandError::Unsent(_))), "{answer:?}");
    lab.link.ping(CAP).await.unwrap();
    assert_eq!(beats(&lab).await, before);
}

#[tokio::test]
async fn no_answer_and_a_cut_one_are_unclear_for_each() {
    let server = RedisServer::start();
    for action in [Action::HoldReply, Action::CutReply(20)] {
        server.cmd(&["FLUSHALL"]).await;
        let proxy = Proxy::start(server.addr());
        let link = link(&proxy.url()).await;
        let waiters = waiting(&link, 4).await;
        let heartbeats = link.heartbeats(LONG);
        warm(&heartbeats, &waiters[0]).await;
        let held = proxy.on(Matcher::script(), action);
        let within = Duration::from_secs(2); // sent long before that, even on a busy machine
        let beat = |at: usize| heartbeats.beat(&waiters[at], within);
        let (a, b, c) = tokio::join!(beat(1), beat(2), beat(3));
        held.seen().await;
        for answer in [a, b, c] {
            assert!(
                matches!(answer, Err(CommandError::Unclear(_))),
                "{answer:?}"
            );
        }
    }
}

/// The waiters are told that nothing was sent, and none waits for a task that no longer exists.
#[test]
fn the_end_of_the_runtime_is_told() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (ends, other) = (runtime(), runtime());
    let server = RedisServer::start();
    let (heartbeats, waiters, _link) = ends.block_on(async {
        let link = link(&server.url()).await;
        let waiters = waiting(&link, 3).await;
        let heartbeats = link.heartbeats(LONG);
        warm(&heartbeats, &waiters[0]).await;
        (heartbeats, waiters, link)
    });
    other.block_on(async {
        let mut waits = pin!(heartbeats.beat(&waiters[1], CAP));
        assert!(poll_once(waits.as_mut()).is_pending());
        ends.shutdown_background();
        for answer in [waits.await, heartbeats.beat(&waiters[2], CAP).await] {
            assert!(matches!(answer, Err(CommandError::Unsent(_))), "{answer:?}");
        }
    });
}

/// Any poll grants to the head, so of thousands of waiters only one has to poll.
#[tokio::test]
async fn of_those_who_wait_for_a_free_lock_one_polls() {
    let lab = Lab::new().await;
    let others = "waits for others";
    for shared in [false, true] {
        let waiters = if shared {
            readers(&lab.link, 4).await
        } else {
            waiting(&lab.link, 4).await
        };
        assert_eq!(together(&lab.link, &waiters).await, ["waits"; 4]);
        lab.tell::<()>(&["DEL", "lock:a"]).await;
        let before = beats(&lab).await;
        let told = together(&lab.link, &waiters).await;
        assert_eq!(told, ["poll", others, others, others]);
        assert_ne!(
            beats(&lab).await,
            before,
            "and all have shown a sign of life"
        );
        let answer = lab.link.poll(&waiters[0], CAP).await.unwrap();
        assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
        let told = together(&lab.link, &waiters).await;
        // All of them hold the lock as readers, and have to ask for it.
        let expected = if shared { "poll" } else { "waits" };
        assert_eq!(told, ["poll", expected, expected, expected]);
        lab.tell::<()>(&["FLUSHALL"]).await;
    }
}

/// A claim that is not queued is told to poll by itself: one reply can't answer all such claims.
#[tokio::test]
async fn who_has_no_place_polls() {
    let lab = Lab::new().await;
    let mut waiters = waiting(&lab.link, 3).await;
    waiters.insert(1, waiter("lock:a", "", "nobody"));
    lab.link
        .cancel(&waiters[3], Keep::NOT, 0, CAP)
        .await
        .unwrap();
    let told = together(&lab.link, &waiters).await;
    assert_eq!(told, ["waits", "poll", "waits", "poll"]);
    assert_eq!(
        beats(&lab).await.len(),
        2 * 2,
        "nobody has come by a heartbeat"
    );
}

#[tokio::test]
async fn an_owner_that_holds_already_polls() {
    let lab = Lab::new().await;
    let of = |owner: &str, name: &str| Claim {
        queues: true,
        ..claim(
            "lock:a",
            &format!("1|o|{name}||30000|0|0|{owner}|host|1|f|0"),
        )
    };
    let (one, other) = (of("one", "a"), of("one", "b"));
    let theirs = [of("two", "c"), of("two", "d")];
    queue(&lab.link, &one, theirs.to_vec()).await;
    // Put there by hand, because an acquire would grant it the lock at once.
    for set in ["lock:@w:{lock:a}", ALIVE] {
        lab.tell::<u64>(&["ZADD", set, "8e15", &other.value]).await;
    }
    let [third, fourth] = theirs;
    let told = together(&lab.link, &[third, other, fourth]).await;
    assert_eq!(told, ["waits", "poll", "waits"]);
}

#[tokio::test]
async fn one_bad_key_hurts_no_neighbour() {
    let lab = Lab::new().await;
    let waiters = waiting(&lab.link, 2).await;
    lab.tell::<()>(&["LPUSH", "lock:list", "x"]).await;
    lab.tell::<()>(&["LPUSH", "lock:@w:{lock:odd}", "x"]).await;
    lab.tell::<()>(&["SET", "lock:odd", "somebody"]).await;
    let [list, odd] = ["lock:list", "lock:odd"].map(|key| waiter(key, "", "ours"));
    let [one, two] = [&waiters[0], &waiters[1]].map(Claim::clone);
    let told = together(&lab.link, &[one, list, odd, two]).await;
    assert_eq!(told, ["waits", "poll", "poll", "waits"]);
}

/// The user has no right to one of the keys, so nothing was executed.
#[tokio::test]
async fn a_key_outside_the_users_pattern_sends_each_by_itself() {
    let server = RedisServer::start();
    let link = as_user(&server, &RIGHTS).await;
    let mut waiters = waiting(&link, 2).await;
    waiters.push(waiter("other:a", "", "ours"));
    assert_eq!(together(&link, &waiters).await, ["poll"; 3]);
}

#[tokio::test]
async fn without_a_right_each_polls_and_nothing_was_added() {
    let lab = Lab::new().await;
    let rights = [&RIGHTS[..], &MORE_RIGHTS, &["+zmscore"]].concat();
    for missing in ["zmscore", "get", "pexpire", "zadd", "pttl"] {
        lab.tell::<()>(&["FLUSHALL"]).await;
        let link = as_user(&lab.server, &rights).await;
        let waiters = waiting(&link, 3).await;
        let before = beats(&lab).await;
        let right = format!("-{missing}");
        lab.server.cmd(&["ACL", "SETUSER", "worker", &right]).await;
        assert_eq!(together(&link, &waiters).await, ["poll"; 3], "{missing}");
        let is_read_only = missing != "pttl"; // `PTTL` comes last
        assert_eq!(beats(&lab).await == before, is_read_only, "{missing}");
    }
}

#[tokio::test]
async fn out_of_memory_signs_of_life_are_shown() {
    let lab = Lab::new().await;
    let waiters = waiting(&lab.link, 3).await;
    let before = beats(&lab).await;
    lab.tell::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(together(&lab.link, &waiters).await, ["waits"; 3]);
    assert_ne!(beats(&lab).await, before);
}

#[tokio::test]
async fn a_replica_is_left_to_the_poll_of_each() {
    let lab = Lab::new().await;
    let waiters = waiting(&lab.link, 2).await;
    lab.tell::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    assert_eq!(together(&lab.link, &waiters).await, ["poll"; 2]);
    super::lab::assert_refused(lab.link.poll(&waiters[0], CAP).await, Refusal::ReadOnly);
}

/// A heartbeat is dropped at every moment, with a cancel after it: it never brings the entry back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_brings_no_dead_entry_back() {
    let lab = Arc::new(Lab::new().await);
    lab.granted(&claim("lock:a", "holder")).await;
    let heartbeats = lab.link.heartbeats(HeartbeatPace {
        window: Duration::from_micros(300),
        most: 4,
    });
    let tasks = (0..8_u64).map(|task| {
        let (lab, heartbeats) = (lab.clone(), heartbeats.clone());
        tokio::spawn(async move {
            for turn in 0..100_u64 {
                let who = waiter("lock:a", "", &format!("{task}:{turn}"));
                lab.acquire(&who).await.unwrap();
                let patience = Duration::from_micros((turn * 7 + task * 131) % 900);
                let _ = tokio::time::timeout(patience, heartbeats.beat(&who, CAP)).await;
                lab.link.cancel(&who, Keep::NOT, 0, CAP).await.unwrap();
                let left: Option<f64> = lab.tell(&["ZSCORE", ALIVE, &who.value]).await;
                assert_eq!(left, None, "turn {turn}");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    until("all have gone", CAP, async || {
        lab.keys().await == [FENCES, "lock:a"]
    })
    .await;
}
