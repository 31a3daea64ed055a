//! What the watchdog sends: few commands for many locks, and none after a release.

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_harness::wait::{pause, within};
use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{LockGuard, LockPool, Released};
use dlock_tests::Seeded;
use futures_util::future::join_all;

use crate::connect;
use crate::record::{Line, Scripts, lines};

const CAP: Duration = Duration::from_secs(60);
/// The pause between two reads of a long record.
const PACE: Duration = Duration::from_millis(100);

fn micros(duration: Duration) -> u64 {
    duration.as_micros().try_into().unwrap()
}

/// How many of these lines renew each key.
fn renewals<'a>(scripts: &Scripts, lines: &'a [Line]) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    let calls = lines
        .iter()
        .filter_map(|line| Scripts::keys(&scripts.renew, line));
    for key in calls.flatten() {
        *counts.entry(key.as_str()).or_default() += 1;
    }
    counts
}

const LOCKS: usize = 1000;
const TTL: Duration = Duration::from_secs(6);
/// A third of the lease, as `renew` does it.
const PERIOD: Duration = Duration::from_secs(2);
const PERIODS: u32 = 3;
const CALLS_A_PERIOD: usize = 15;

/// The server's clock, in µs.
async fn time(server: &RedisServer) -> u64 {
    let (seconds, micros): (u64, u64) = server.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

/// Twenty batches of fifty, spread over a whole period: without early renewals they would be due at
/// twenty moments.
async fn take_many(pool: &LockPool) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for batch in 0..LOCKS / 50 {
        tokio::time::sleep(PERIOD / 20).await;
        let acquires = (0..50).map(|it| {
            let key = format!("many:{}", batch * 50 + it);
            pool.lock(key).ttl(TTL).renew().acquire()
        });
        let batch = join_all(acquires).await;
        guards.extend(batch.into_iter().map(Result::unwrap));
    }
    guards
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_locks_are_renewed_in_fifteen_calls_a_period() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let scripts = Scripts::learn(&server, &pool).await;
    let guards = take_many(&pool).await;

    let monitor = server.monitor();
    let warm = micros(PERIOD);
    let whole = warm + micros(PERIOD) * u64::from(PERIODS);
    let begun = time(&server).await;
    until("all periods are over", CAP, async || {
        pause(PACE).await;
        time(&server).await >= begun + whole
    })
    .await;
    let mut window = lines(&monitor).await;
    window.retain(|line| (begun + warm..begun + whole).contains(&line.at));

    let counts = renewals(&scripts, &window);
    let calls = window
        .iter()
        .filter(|line| Scripts::keys(&scripts.renew, line).is_some());
    let times: Vec<u64> = calls.map(|line| (line.at - begun) / 1000).collect();
    let budget = CALLS_A_PERIOD * usize::try_from(PERIODS).unwrap();
    assert!(times.len() <= budget, "too many calls, at ms {times:?}");
    assert_eq!(counts.len(), LOCKS, "each lock is renewed");
    let least = usize::try_from(PERIODS - 1).unwrap();
    let rare = counts.values().filter(|it| **it < least).count();
    assert_eq!(rare, 0, "renewed too rarely; calls at ms {times:?}");
    for guard in guards {
        assert!(guard.is_held(), "{} was lost", guard.key());
        assert_eq!(guard.release().await.unwrap(), Released::Freed);
    }
}

/// Ends some by `release` and some by drop, in the middle of their renewals.
async fn end_at_random(guards: Vec<LockGuard>) {
    let mut random = Seeded(3);
    let ends = guards.into_iter().map(|guard| {
        let pause = Duration::from_millis(random.between(0, 250));
        let drops = random.between(0, 2) == 0;
        async move {
            tokio::time::sleep(pause).await;
            if !drops {
                assert_eq!(guard.release().await.unwrap(), Released::Freed);
            }
        }
    });
    join_all(ends).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_renewal_follows_a_release() {
    const MANY: usize = 60;
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let scripts = Scripts::learn(&server, &pool).await;
    let take = |key: String| {
        let request = pool.lock(key).ttl(Duration::from_secs(30));
        request.renew_every(Duration::from_millis(30)).acquire()
    };
    let control = take("control".to_owned()).await.unwrap();
    let keys: Vec<String> = (0..MANY).map(|it| format!("brief:{it}")).collect();
    let monitor = server.monitor();
    let guards = join_all(keys.iter().cloned().map(take)).await;
    end_at_random(guards.into_iter().map(Result::unwrap).collect()).await;
    until("all are given back", CAP, async || {
        server.keys().await == ["lock:@fence", "lock:control"]
    })
    .await;

    let ended = lines(&monitor).await.len();
    until("the watchdog goes on for ten periods", CAP, async || {
        pause(PACE).await;
        let since = &lines(&monitor).await[ended..];
        renewals(&scripts, since).contains_key("lock:control")
            && renewals(&scripts, since)["lock:control"] >= 10
    })
    .await;
    let all = lines(&monitor).await;
    let mut renewed_before = 0;
    for key in &keys {
        let key = format!("lock:{key}");
        let gone = all.iter().position(|line| line.deletes(&key));
        let gone = gone.expect("it was given back");
        let (before, after) = all.split_at(gone);
        renewed_before += renewals(&scripts, before).get(&*key).unwrap_or(&0);
        let late = renewals(&scripts, after).get(&*key).copied();
        assert_eq!(late, None, "{key} was renewed after its release");
    }
    assert!(renewed_before > MANY, "{renewed_before} renewals in all");
    assert!(control.is_held());
}

/// The renewal was sent before the release, on another connection, and arrives late: the release
/// waits for its answer.
#[tokio::test]
async fn a_release_does_not_overtake_a_renewal() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = connect(proxy.url()).await;
    let scripts = Scripts::learn(&server, &pool).await;
    let late = proxy.on(Matcher::script().containing(&scripts.renew), Action::Hold);
    let monitor = server.monitor();
    let request = pool.lock("key").ttl(Duration::from_secs(30));
    let request = request.renew_every(Duration::from_millis(50));
    let guard = request.acquire().await.unwrap();
    late.seen().await;
    let release = tokio::spawn(guard.release());
    // Nothing happens in this time, unless the release is wrongly sent.
    let gone = until("the key is gone", CAP, async || {
        server.pttl("lock:key").await == -2
    });
    assert!(within(Duration::from_millis(300), gone).await.is_none());
    proxy.release_held();
    assert_eq!(release.await.unwrap().unwrap(), Released::Freed);
    let all = lines(&monitor).await;
    let renewed = |line: &Line| Scripts::keys(&scripts.renew, line).is_some();
    let given_back = all.iter().position(|line| line.deletes("lock:key"));
    let renewed = all.iter().rposition(renewed).expect("a renewal");
    let given_back = given_back.expect("a release");
    assert!(renewed < given_back, "{all:#?}");
}
