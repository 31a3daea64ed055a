//! A server whose clock keeps being set: the log reports it, and a check. One that was set back keeps
//! nothing for as long as the step.

use std::time::{Duration, Instant};

use dlock_harness::{Clock, Clocks, Proxy, RedisServer, until, wait};
use dlock_runtime::{Concern, Config, Finding, LockPool, LockRequest, Wait};
use dlock_tests::{KINDS, of_kind};
use futures_util::future::join_all;

use crate::fake;
use crate::texts::{heard, listen};

const CAP: Duration = Duration::from_secs(20);

fn told(address: &str) -> Vec<String> {
    let is_told =
        |text: &String| text.contains("the server's clock was set") && text.contains(address);
    heard().into_iter().filter(is_told).collect()
}

#[tokio::test]
async fn a_clock_that_is_set_is_told() {
    listen();
    let server = fake::setting_its_clock();
    let address = server.addr().to_string();
    // An idle connection asks for the time at this interval; one answer a second is examined.
    let often = Duration::from_millis(100);
    let config = Config::new(server.url()).health_check_interval(often);
    let pool = LockPool::connect(config).await.unwrap();
    until("it is told", CAP, async || !told(&address).is_empty()).await;
    let news = told(&address);
    // Several hours in ms, less the seconds in between.
    let hours = news[0].split("ms=").nth(1).unwrap();
    let millis: u64 = hours.split_whitespace().next().unwrap().parse().unwrap();
    assert!(millis >= 3_590_000, "{news:?}");
    let findings = pool.check().await.unwrap();
    let of_clock = findings.iter().filter(|it| it.concern() == Concern::Clock);
    let risks: Vec<&str> = of_clock.map(Finding::risk).collect();
    let [step, offset] = &risks[..] else {
        panic!("{risks:?}");
    };
    // As many hours as answers came since the one before that was examined.
    let seconds = step.split("was set forward by at least ").nth(1);
    let seconds: f64 = seconds.unwrap().split('s').next().unwrap().parse().unwrap();
    assert!(seconds >= 3_590.0, "{step}");
    assert!(offset.contains("behind this machine's"), "{offset}");
}

const STEP: i64 = -600;
const TTL: Duration = Duration::from_secs(2);
const MIN_HOLD: Duration = Duration::from_millis(300);

/// What a loaded machine, a poll and a claim add.
const SLACK: Duration = Duration::from_secs(6);

/// A server whose clock is set, and two pools; one is cut off when its process is to be dead.
struct Stage<'a> {
    what: String,
    server: RedisServer,
    clock: &'a Clock,
    wire: Proxy,
    dies: LockPool,
    lives: LockPool,
}

impl<'a> Stage<'a> {
    async fn new(what: String, (clocks, nth): (&'a Clocks, usize), scripts: bool) -> Self {
        let server = clocks.server(nth).start();
        let wire = Proxy::start(server.addr());
        let [dies, lives] = [wire.url(), server.url()].map(|url| {
            let patient = Config::new(url).command_timeout(Duration::from_secs(2));
            if scripts {
                patient
            } else {
                patient.without_scripts()
            }
        });
        Self {
            what,
            clock: &clocks[nth],
            dies: LockPool::connect(dies).await.unwrap(),
            lives: LockPool::connect(lives).await.unwrap(),
            wire,
            server,
        }
    }

    /// What a later release does not change: the locks' longest PTTL.
    async fn lasts_at_most(&self, most: i64) {
        for key in self.server.keys().await {
            if !key.starts_with("lock:@") {
                let left = self.server.pttl(&key).await;
                assert!(left <= most, "{}: {key} has {left} ms", self.what);
            }
        }
    }

    /// Somebody who waits gets the lock after this time, and what is usual.
    async fn is_free_after(&self, longest: Duration, kind: &str) {
        let begun = Instant::now();
        let wait = wait::scaled(longest + SLACK);
        let taken = request(&self.lives, kind).wait(wait).acquire().await;
        let after = begun.elapsed();
        let what = &self.what;
        let taken = taken.unwrap_or_else(|error| panic!("{what}: after {after:?}: {error}"));
        drop(taken);
    }
}

/// Exclusive locks of one key and of several, with and without scripts, and each kind with many
/// holders, all with one that they exclude.
const WAYS: [(&str, &str, bool); 9] = [
    ("x", "x", true),
    ("x", "x", false),
    ("several", "several", true),
    (KINDS[0].0, KINDS[0].1, true),
    (KINDS[1].0, KINDS[1].1, true),
    (KINDS[2].0, KINDS[2].1, true),
    (KINDS[3].0, KINDS[3].1, true),
    (KINDS[4].0, KINDS[4].1, true),
    (KINDS[5].0, KINDS[5].1, true),
];

fn request(pool: &LockPool, kind: &str) -> LockRequest {
    if kind == "several" {
        return pool.lock_all(["a", "b"]).ttl(TTL);
    }
    of_kind(pool.lock("a").ttl(TTL), kind)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn min_hold_keeps_no_key_for_as_long_as_the_clock_was_set_back() {
    let clocks = Clocks::new(2 * WAYS.len());
    let rows = WAYS.into_iter().flat_map(|way| [(way, true), (way, false)]);
    let row = |(nth, (way, in_the_body)): (usize, (_, bool))| {
        let (one, other, scripts) = way;
        let clocks = &clocks;
        async move {
            let what = format!("{one}, {other}, scripts {scripts}, in the body {in_the_body}");
            let stage = Stage::new(what, (clocks, nth), scripts).await;
            let set = |is_now: bool| is_now.then(|| stage.clock.set(STEP));
            set(!in_the_body);
            let held = request(&stage.lives, one)
                .min_hold(MIN_HOLD)
                .acquire()
                .await;
            let held = held.unwrap();
            set(in_the_body);
            held.release().await.unwrap();
            stage.lasts_at_most(300).await;
            stage.is_free_after(MIN_HOLD, other).await;
        }
    };
    join_all(rows.enumerate().map(row)).await;
}

/// Nothing has told its connection of the step before it takes the lock; then its process dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_taken_after_a_step_back_ends_in_its_ttl() {
    let clocks = Clocks::new(WAYS.len());
    let row = |(nth, (one, other, scripts))| {
        let clocks = &clocks;
        async move {
            let what = format!("{one}, {other}, scripts {scripts}");
            let stage = Stage::new(what, (clocks, nth), scripts).await;
            stage.clock.set(STEP);
            let held = request(&stage.dies, one).acquire().await.unwrap();
            stage.lasts_at_most(2_300).await;
            stage.wire.blackhole();
            stage.is_free_after(TTL, other).await;
            drop(held);
        }
    };
    join_all(WAYS.into_iter().enumerate().map(row)).await;
}

/// The head of the queue dies before the step. It counts as alive for 3.5 s from when somebody looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_waiter_lapses_although_the_clock_was_set_back() {
    // What is held, what waits for it and dies, what comes then, and whether the holder stays.
    let rows = [
        ("r", "w", "r", true, true),
        ("p:1/3", "p:3/3", "p:1/3", true, true),
        ("x", "x", "r", true, false),
        ("x", "x", "x", false, false),
    ];
    let clocks = Clocks::new(rows.len());
    let row = |(nth, row): (
        usize,
        (&'static str, &'static str, &'static str, bool, bool),
    )| {
        let (held, waits, comes, scripts, stays) = row;
        let clocks = &clocks;
        async move {
            let what = format!("{held}, {waits}, {comes}, scripts {scripts}");
            let stage = Stage::new(what, (clocks, nth), scripts).await;
            let holder = request(&stage.lives, held).renew().acquire().await.unwrap();
            let waits = request(&stage.dies, waits).wait(Wait::Forever);
            let waits = tokio::spawn(async move { waits.acquire().await });
            let is_queued = |key: &String| key.starts_with("lock:@a");
            until("it waits", CAP, async || {
                stage.server.keys().await.iter().any(is_queued)
            })
            .await;
            stage.wire.blackhole();
            stage.clock.set(STEP);
            if !stays {
                holder.release().await.unwrap();
            }
            stage.is_free_after(Duration::from_secs(7), comes).await;
            waits.abort();
        }
    };
    join_all(rows.into_iter().enumerate().map(row)).await;
}
