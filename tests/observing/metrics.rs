//! The metrics, as an exporter for Prometheus shows them.

use std::sync::OnceLock;
use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockPool, Wait, distributed_lock, lock_key};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::{CAP, OFTEN};

fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| PrometheusBuilder::new().install_recorder().unwrap())
}

/// The value of the one line that begins with this name and has these labels.
fn value(name: &str, labels: &[&str]) -> Option<f64> {
    let shown = recorder().render();
    let is_it = |line: &&str| {
        let named = line.strip_prefix(name);
        let is_whole = named.is_some_and(|rest| rest.starts_with(['{', ' ']));
        is_whole && labels.iter().all(|label| line.contains(label))
    };
    let line = shown.lines().find(is_it)?;
    line.rsplit(' ').next()?.parse().ok()
}

fn count(name: &str, labels: &[&str]) -> u64 {
    let value = value(&format!("{name}_count"), labels).unwrap_or_default();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count"
    )]
    let count = value as u64;
    count
}

#[distributed_lock(key = "measured:<id>", ttl = "300ms")]
async fn too_long(id: u64) -> Result<(), LockError> {
    let _ = id;
    std::future::pending().await
}

#[tokio::test]
async fn calls_and_holds_are_histograms_by_class_and_outcome() {
    recorder();
    let pool = LockPool::connect("memory://").await.unwrap();
    for id in 0..5 {
        let held = pool
            .lock(lock_key!("counted:<id>"))
            .acquire()
            .await
            .unwrap();
        let busy = pool.lock(lock_key!("counted:<id>")).try_acquire().await;
        assert!(busy.unwrap().is_none());
        held.release().await.unwrap();
    }
    let labels = |outcome| ["lock=\"counted:<id>\"", "kind=\"exclusive\"", outcome];
    assert_eq!(
        count("dlock_acquire_seconds", &labels("outcome=\"at_once\"")),
        5
    );
    assert_eq!(
        count("dlock_acquire_seconds", &labels("outcome=\"busy\"")),
        5
    );
    assert_eq!(
        count("dlock_hold_seconds", &labels("outcome=\"in_time\"")),
        5
    );
    let shown = recorder().render();
    assert!(
        shown.contains("# HELP dlock_hold_seconds How long"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_loss_is_counted_by_cause_and_function() {
    recorder();
    let server = RedisServer::start();
    let pool = LockPool::connect(server.url()).await.unwrap();
    assert!(pool.scope(too_long(7)).await.is_err());
    let labels = [
        "lock=\"measured:<id>\"",
        "cause=\"deadline\"",
        "function=\"observing::metrics::too_long\"",
    ];
    assert_eq!(value("dlock_lost_total", &labels), Some(1.0));
}

const SECOND: Duration = Duration::from_secs(1);

const GAUGED: [&str; 2] = ["lock=\"gauged:<id>\"", "kind=\"exclusive\""];

#[tokio::test]
async fn gauges_and_renewals_are_shown() {
    recorder();
    let server = RedisServer::start();
    let pool = LockPool::connect(server.url()).await.unwrap();
    let mut held = Vec::new();
    for id in 0..1000 {
        let lock = pool.lock(lock_key!("gauged:<id>"));
        let lock = lock.ttl(CAP).renew_every(OFTEN);
        held.push(lock.acquire().await.unwrap());
    }
    let id = 7;
    let waits = pool.lock(lock_key!("gauged:<id>")).wait(Wait::Forever);
    let waits = tokio::spawn(waits.acquire());
    until("they are shown", CAP, async || {
        value("dlock_held", &GAUGED) == Some(1000.0)
            && value("dlock_waiting", &GAUGED) == Some(1.0)
            && value("dlock_oldest_hold_seconds", &GAUGED) >= Some(1.0)
    })
    .await;
    until("they are renewed", CAP, async || {
        value("dlock_renewals_total", &["result=\"renewed\""]) >= Some(1000.0)
    })
    .await;
    assert!(count("dlock_renewal_seconds", &[]) >= 1);
    assert!(count("dlock_renewal_margin_ratio", &GAUGED) >= 1000);
    waits.abort();
    drop(held);
    pool.shutdown().await;
    drop(pool);
    until("they are gone", CAP, async || {
        ["dlock_held", "dlock_waiting", "dlock_oldest_hold_seconds"]
            .iter()
            .all(|gauge| value(gauge, &GAUGED) == Some(0.0))
    })
    .await;
}

/// Its watchdog is tasks of the caller's runtime, whose clock may stand.
#[tokio::test(start_paused = true)]
async fn a_hold_in_memory_is_shown_on_a_paused_clock() {
    const NAMES: [&str; 3] = ["dlock_held", "dlock_waiting", "dlock_oldest_hold_seconds"];
    recorder();
    let labels = ["lock=\"gauged-too:<id>\"", "kind=\"permits\""];
    let shown = || NAMES.map(|name| value(name, &labels));
    let pool = LockPool::connect("memory://").await.unwrap();
    let id = 7;
    let lock = || pool.lock(lock_key!("gauged-too:<id>")).permits(2).renew();
    let first = lock().acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let second = lock().acquire().await.unwrap();
    let waits = tokio::spawn(lock().wait(Wait::Forever).acquire());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let [held, waiting, oldest] = shown();
    assert_eq!((held, waiting), (Some(2.0), Some(1.0)));
    assert!(Some(28.0) <= oldest && oldest <= Some(30.0), "{oldest:?}");
    waits.abort();
    first.release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let [held, waiting, oldest] = shown();
    assert_eq!((held, waiting), (Some(1.0), Some(0.0)));
    assert!(Some(10.0) <= oldest && oldest <= Some(12.0), "{oldest:?}");
    second.release().await.unwrap();
    drop(pool);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shown(), [Some(0.0); 3]);
}

/// Nothing is held any more whose task would look: a caller that waits, or was granted the lock, goes.
#[tokio::test(start_paused = true)]
async fn in_memory_a_waiter_that_goes_last_is_not_shown_for_ever() {
    recorder();
    let labels = ["lock=\"gauged-last:<id>\"", "kind=\"exclusive\""];
    let shown = || ["dlock_held", "dlock_waiting"].map(|name| value(name, &labels));
    let pool = LockPool::connect("memory://").await.unwrap();
    let id = 7;
    let lock = || pool.lock(lock_key!("gauged-last:<id>")).wait(Wait::Forever);
    for is_lost in [false, true] {
        let first = lock().ttl(3 * SECOND).acquire().await.unwrap();
        let mut next = Box::pin(lock().acquire());
        assert!(futures_util::poll!(&mut next).is_pending());
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(shown(), [Some(1.0); 2]);
        if is_lost {
            tokio::time::sleep(5 * SECOND).await;
            assert!(!first.is_held());
        } else {
            first.release().await.unwrap();
        }
        tokio::time::sleep(5 * SECOND).await;
        assert_ne!(shown(), [Some(0.0); 2]);
        drop(next);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(shown(), [Some(0.0); 2], "{is_lost}");
    }
}

/// As many keys as there may be: the labels are the templates.
#[tokio::test]
async fn a_million_keys_have_the_labels_of_one() {
    recorder();
    let pool = LockPool::connect("memory://").await.unwrap();
    let series = || recorder().render().matches("bounded:").count();
    let lock = async |id: u64| {
        let template = pool.lock(lock_key!("bounded:<id>"));
        // One place in the program, however its keys are made.
        let text = pool.lock(format!("bounded-too:{id}"));
        for request in [template, text] {
            let held = request.acquire().await.unwrap();
            held.release().await.unwrap();
        }
    };
    lock(0).await;
    let before = series();
    assert!(before > 0);
    let keys = std::env::var("DLOCK_METRICS_KEYS").ok();
    for id in 1..keys.map_or(5_000, |it| it.parse().unwrap()) {
        lock(id).await;
    }
    assert_eq!(series(), before);
    assert!(!recorder().render().contains("bounded-too"), "a key");
}

#[tokio::test]
async fn no_label_has_a_value_of_a_key() {
    recorder();
    let pool = LockPool::connect("memory://").await.unwrap();
    let canary = "canary-17";
    let held = pool.lock(lock_key!("private:<canary>")).acquire().await;
    held.unwrap().release().await.unwrap();
    let owner = pool.lock("x").reentrant().owner(canary).acquire().await;
    owner.unwrap().release().await.unwrap();
    assert!(!recorder().render().contains(canary));
}
