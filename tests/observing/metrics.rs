//! The metrics, as an exporter for Prometheus shows them.

use std::sync::OnceLock;

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

/// All pools of the process add to the same gauges, and other tests have pools too.
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
        value("dlock_held", &[]) >= Some(1000.0) && value("dlock_waiting", &[]) >= Some(1.0)
    })
    .await;
    until("they are renewed", CAP, async || {
        value("dlock_renewals_total", &["result=\"renewed\""]) >= Some(1000.0)
    })
    .await;
    assert!(count("dlock_renewal_seconds", &[]) >= 1);
    assert!(count("dlock_renewal_margin_ratio", &["gauged"]) >= 1000);
    waits.abort();
    drop(held);
    pool.shutdown().await;
    drop(pool);
    until("they are gone", CAP, async || {
        value("dlock_held", &[]) < Some(1000.0)
    })
    .await;
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
