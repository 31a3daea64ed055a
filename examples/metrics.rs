//! A service whose locks Prometheus can watch: `cargo run -p dlock-examples --example metrics` serves `/metrics`, and
//! takes locks until Ctrl-C, or for `--seconds N`.
//!
//! Three classes: orders of many customers, which seldom meet; one report that all want, so that
//! they wait; and an import that is slower than its lease, and is lost now and then. It starts a
//! private `redis-server`; `DLOCK_URL` names another. docs/reference/metrics.md explains what is shown.

#[path = "first/server.rs"]
mod server;

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use dlock_runtime::{LockError, distributed_lock};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::time::sleep;

use server::Server;

type Failure = Box<dyn Error + Send + Sync>;

/// Buckets, not quantiles: only they can be added up over instances. From a command on loopback to
/// half a minute.
const SECONDS: [f64; 14] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];
const RATIOS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

#[distributed_lock(key = "order:<customer>", ttl = "10s")]
async fn order(customer: u64) -> Result<(), LockError> {
    let _ = customer;
    sleep(Duration::from_millis(2)).await;
    Ok(())
}

#[distributed_lock(key = "report", ttl = "3s", renew, wait = "500ms")]
async fn report(pages: u64) -> Result<(), LockError> {
    sleep(Duration::from_millis(10 * pages)).await;
    Ok(())
}

#[distributed_lock(key = "import:<file>", ttl = "200ms")]
async fn import(file: &str, takes: Duration) -> Result<(), LockError> {
    let _ = file;
    sleep(takes).await;
    Ok(())
}

/// Calls that fail are what the metrics are to show.
async fn work(customers: u64) {
    for number in 0_u64.. {
        let random = fastrand::u64(..);
        let _ = match number % 8 {
            0 if random.is_multiple_of(50) => report(150).await, // long enough to be renewed
            0 => report(1 + random % 10).await,
            1 => import("a.csv", Duration::from_millis(random % 220)).await,
            _ => order(random % customers).await,
        };
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // Before the first lock; one that comes later is found within ten seconds.
    let metrics = PrometheusBuilder::new()
        .set_buckets(&SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_ratio".to_owned()), &RATIOS)?
        .install_recorder()?;

    let (url, _server) = if let Ok(url) = std::env::var("DLOCK_URL") {
        (url, None)
    } else {
        let (url, server) = Server::start(true).await?;
        (url, Some(server))
    };
    dlock_runtime::init(url).await?;

    let shown = metrics.clone();
    let routes = Router::new().route("/metrics", get(async move || shown.render()));
    let port = std::env::var("PORT").unwrap_or_else(|_| "0".to_owned());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("http://{}/metrics, until Ctrl-C", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, routes).await });

    let workers: Vec<_> = (0..8).map(|_| tokio::spawn(work(1000))).collect();
    tokio::select! {
        () = sleep(seconds()?) => {}
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    for worker in &workers {
        worker.abort();
    }

    let shown = metrics.render();
    let counts = shown.lines().filter(|line| line.contains("_count{"));
    counts.for_each(|line| println!("{line}"));
    dlock_runtime::shutdown().await;
    Ok(())
}

fn seconds() -> Result<Duration, Failure> {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next()) {
        (None, _) => Ok(Duration::MAX),
        (Some("--seconds"), Some(number)) => Ok(Duration::from_secs(number.parse()?)),
        _ => Err("usage: metrics [--seconds N]; PORT is the port of /metrics".into()),
    }
}
