//! Faults of the list, and bugs that other systems had with these kinds of lock, each a test with
//! its number: those that need a dead process, a second process, or a look at the server. Those
//! that both backends can show are in `tests/conformance/bugs.rs` and `bugs_elsewhere.rs`.

use std::time::{Duration, Instant};

use dlock_harness::{until, wait};
use dlock_runtime::{Config, LockPool, LockRequest, Wait};
use dlock_tests::{KINDS, locks, of_kind};

use crate::lab::{self, CAP, ITEM, LONG, Lab, ON_SERVER, SLACK, TTL, tell};
use crate::waiters::{A, AT_ONCE, W, WAIT, turn, waits};

fn item(pool: &LockPool, kind: &str) -> LockRequest {
    of_kind(pool.lock(ITEM), kind).ttl(LONG).wait(WAIT)
}

/// A child process: it has the first of two keys, and waits for the other.
#[tokio::test]
#[ignore = "a child process"]
async fn half() {
    let Some(url) = lab::server_of_role() else {
        return;
    };
    let config = Config::new(url).connect_timeout(CAP);
    let pool = LockPool::connect(config).await.unwrap();
    tell("asks", ());
    let both = pool.lock_all(["b", "a"]).ttl(TTL).renew();
    let both = both.wait(Wait::Forever).acquire().await;
    panic!("it has both, or neither: {both:?}");
}

/// Redis-semaphore #28 and F58: killed between the first key and the second.
#[tokio::test]
async fn f58_a_process_killed_half_way_keeps_its_half_for_its_lease() {
    let lab = Lab::new();
    let direct = lab.direct().await;
    let held = direct.lock("b").ttl(LONG).acquire().await.unwrap();
    let mut child = lab::child("kinds::half", &lab.server.url());
    child.expect_line("asks", CAP).await;
    locks::until_queued(&lab.server, "b", 1, CAP).await; // it has half
    assert!(direct.lock("a").try_acquire().await.unwrap().is_none());
    wait::pause(TTL).await;
    let kept = direct.lock("a").try_acquire().await.unwrap();
    assert!(kept.is_none(), "its half lives for as long as it waits");
    let waiter = waits(direct.lock("a").ttl(LONG).wait(WAIT));
    child.kill();
    let since = Instant::now();
    let turn = turn(waiter).await;
    let took = turn.at - since;
    assert!(took < wait::scaled(TTL + SLACK * 2), "{took:?}");
    held.verify().await.unwrap();
    drop((held, turn.guard));
    let both = direct.lock_all(["a", "b"]).wait(WAIT).acquire().await;
    both.unwrap().release().await.unwrap();
}

/// F58. The key is free within 50 ms of the error, as the list says, plus what a busy machine adds.
#[tokio::test]
async fn f58_what_was_had_already_is_given_back_when_the_wait_is_over() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let _held = direct.lock("c").ttl(LONG).acquire().await.unwrap();
    for wait in [Wait::Once, Wait::For(Duration::from_millis(300))] {
        let all = pool.lock_all(["a", "b", "c"]).ttl(LONG).wait(wait);
        assert!(all.acquire().await.unwrap_err().is_busy());
        let since = Instant::now();
        until("only `c` is held", CAP, async || {
            let mut locks = lab.locks().await;
            locks.retain(|key| !key.starts_with("lock:@"));
            locks == ["lock:c"]
        })
        .await;
        let took = since.elapsed();
        assert!(
            took < wait::scaled(Duration::from_millis(50) + SLACK),
            "{took:?}"
        );
    }
}

/// When each entry ends, in the order of these times.
async fn ends(lab: &Lab) -> Vec<(String, f64)> {
    let words = ["ZRANGE", ON_SERVER, "0", "-2", "WITHSCORES"];
    lab.server.ask(&words).await
}

/// F59; redisson #2144, #7098: a renewal extends its own entry only, and the key lives as long as
/// its longest entry.
#[tokio::test]
async fn f59_every_reader_has_its_own_expiry_and_the_key_the_longest() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let long = item(&direct, "r").acquire().await.unwrap();
    let before = ends(&lab).await;
    let short = item(&pool, "r").ttl(TTL).renew().acquire().await.unwrap();
    let first = ends(&lab).await;
    until("the short one was renewed", CAP, async || {
        ends(&lab).await[0].1 > first[0].1
    })
    .await;
    let after = ends(&lab).await;
    assert_eq!(after[1], before[0], "the long one is as it was");
    let left = lab.server.pttl(ON_SERVER).await;
    assert!(left > 20_000, "the key ends with the longest: {left}");
    drop((short, long));
    lab.until_free().await;
}

/// Readers, or writers, of two processes that take the lock again as soon as they have given it
/// back.
fn come_and_go(pools: [&LockPool; 2], kind: &'static str) -> Vec<tokio::task::JoinHandle<()>> {
    let tasks = (0..6).map(|number| {
        let pool = pools[number % 2].clone();
        tokio::spawn(async move {
            loop {
                let body = async |_: &_| tokio::time::sleep(Duration::from_millis(20)).await;
                item(&pool, kind).run(body).await.unwrap();
            }
        })
    });
    tasks.collect()
}

/// F59: neither starves the other, and small requests do not overtake a big one for ever. An owner
/// may overtake the queue for as long as it likes; that is documented.
#[tokio::test]
async fn f59_nobody_starves_behind_those_who_come_and_go() {
    for (many, one) in [("r", "w"), ("w", "r"), ("p:1/3", "p:3/3")] {
        let lab = Lab::new();
        let (here, there) = (lab.direct().await, lab.direct().await);
        let crowd = come_and_go([&here, &there], many);
        until("they are there", CAP, async || {
            !lab.locks().await.is_empty()
        })
        .await;
        let pool = lab.pool().await;
        for _ in 0..3 {
            let since = Instant::now();
            let guard = item(&pool, one).acquire().await.unwrap();
            let took = since.elapsed();
            assert!(took < wait::scaled(AT_ONCE), "{one} among {many}: {took:?}");
            guard.release().await.unwrap();
        }
        for task in crowd {
            task.abort();
        }
    }
}

/// F60; redisson #1104, #2099, #4929: no timeout of a waiter is stored on the server, so none can
/// drift; what is stored ends by itself.
#[tokio::test]
async fn f60_the_queue_is_in_the_order_of_the_servers_clock_and_ends_by_itself() {
    for (kind, held) in KINDS {
        let lab = Lab::new();
        let (pool, direct) = (lab.pool().await, lab.direct().await);
        #[allow(clippy::cast_precision_loss, reason = "exact until 2255")]
        let time = async || locks::time(&lab.server).await as f64;
        let _holder = item(&direct, held).acquire().await.unwrap();
        let before = time().await;
        let waiter = waits(item(&pool, kind));
        lab.until_queued(1).await;
        let after = time().await;
        let scores = async |set: &str| -> Vec<(String, f64)> {
            lab.server
                .ask(&["ZRANGE", set, "0", "-1", "WITHSCORES"])
                .await
        };
        let (arrived, first_beat) = (scores(W).await, scores(A).await);
        // Epochs are the server's time, or one more than the last epoch.
        assert!(
            (before..=after + 10.0).contains(&arrived[0].1),
            "{kind}: {arrived:?}"
        );
        until("it shows a sign of life", CAP, async || {
            scores(A).await[0].1 > first_beat[0].1
        })
        .await;
        assert_eq!(scores(W).await, arrived, "{kind}: it keeps its place");
        let ahead = scores(A).await[0].1 - time().await;
        assert!(ahead <= 3.5e6, "{kind}: alive for {ahead} µs");
        for set in [W, A] {
            let left = lab.server.pttl(set).await;
            assert!(
                (1..=7000).contains(&left),
                "{kind}: {set} ends in {left} ms"
            );
        }
        waiter.abort();
        until("it has left", CAP, async || lab.places().await.is_empty()).await;
    }
}

/// F60; redisson #2883, #3730: it makes no difference how many gave up before it.
#[tokio::test]
async fn f60_two_hundred_that_gave_up_cost_the_last_one_nothing() {
    for (kind, held) in [("fair", "x"), ("w", "r")] {
        let lab = Lab::new();
        let (pool, direct) = (lab.pool().await, lab.direct().await);
        let holder = item(&direct, held).acquire().await.unwrap();
        let crowd: Vec<_> = (0..200).map(|_| waits(item(&pool, kind))).collect();
        lab.until_queued(200).await;
        let last = waits(item(&direct, kind));
        lab.until_queued(201).await;
        for waiter in crowd {
            waiter.abort();
        }
        lab.until_queued(1).await;
        lab.no_polls();
        let since = Instant::now();
        holder.release().await.unwrap();
        let took = turn(last).await.at - since;
        assert!(took < wait::scaled(AT_ONCE), "{kind}: {took:?}");
    }
}

/// F62; consul #7523: a release wakes the waiters that it lets in, and no others.
#[tokio::test]
async fn f62_a_release_wakes_one_of_two_hundred() {
    const CROWD: u32 = 200;
    for (kind, held) in [("fair", "x"), ("p:1/1", "p:1/1"), ("w", "w")] {
        let lab = Lab::new();
        let config = lab.config().command_timeout(CAP);
        let (pool, direct) = (lab.pool_of(config).await, lab.direct().await);
        let holder = item(&direct, held).acquire().await.unwrap();
        let crowd = (0..CROWD).map(|_| {
            let request = item(&pool, kind);
            tokio::spawn(async move { request.run(async |_| ()).await })
        });
        let crowd: Vec<_> = crowd.collect();
        lab.until_queued(200).await;
        let counts = async || {
            let scripts = lab.server.commandstats("evalsha").await;
            (scripts, lab.server.commandstats("publish").await)
        };
        let (scripts, published) = counts().await;
        let since = Instant::now();
        holder.release().await.unwrap();
        for waiter in crowd {
            waiter.await.unwrap().unwrap();
        }
        // Each waiter polls once a second, and no more often because of the others' turns.
        let looks = CROWD * u32::try_from(since.elapsed().as_secs() + 1).unwrap();
        let (scripts, published) = {
            let (scripts_now, published_now) = counts().await;
            (scripts_now - scripts, published_now - published)
        };
        assert_eq!(published, u64::from(CROWD), "{kind}: one push a turn");
        let most = u64::from(2 * CROWD + looks);
        assert!(scripts <= most, "{kind}: {scripts} scripts, at most {most}");
    }
}

/// Redisson #6025: a request for more permits than are left is not granted and given back again and
/// again.
#[tokio::test]
async fn redisson_6025_waiters_for_permits_do_not_spin() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let _held = item(&direct, "p:1/3").acquire().await.unwrap();
    let _waiters: Vec<_> = ["p:3/3", "p:1/3", "p:3/3", "p:2/3"]
        .map(|kind| waits(item(&pool, kind)))
        .into();
    lab.until_queued(4).await;
    let (before, since) = (lab.server.commandstats("evalsha").await, Instant::now());
    wait::pause(Duration::from_secs(2)).await;
    let scripts = lab.server.commandstats("evalsha").await - before;
    // Every waiter polls at least once a second, some of them in one command, and not much more
    // often.
    let seconds = since.elapsed().as_secs() + 1;
    assert!(
        (1..=4 * seconds).contains(&scripts),
        "{scripts} in {seconds} s"
    );
}

/// Redisson #4064: a connection subscribes once, however many wait over it.
#[tokio::test]
async fn redisson_4064_waiting_leaves_no_subscriptions() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    for (kind, held) in KINDS {
        for _ in 0..3 {
            let holder = item(&direct, held).acquire().await.unwrap();
            let (waiter, gone) = (waits(item(&pool, kind)), waits(item(&pool, kind)));
            lab.until_queued(2).await;
            gone.abort();
            holder.release().await.unwrap();
            turn(waiter).await.guard.release().await.unwrap();
            lab.until_free().await;
        }
    }
    let channels: Vec<String> = lab.server.ask(&["PUBSUB", "CHANNELS"]).await;
    // Two pools, each with its own connection and its watchdog's.
    assert!(channels.len() <= 4, "{channels:?}");
}
