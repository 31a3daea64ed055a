//! A small web shop with locked handlers, ready for production: start-up here, routes in `app`,
//! statuses in `error`.
//!
//! `cargo run -p dlock-examples --example web_handler -- --listen 127.0.0.1:3000`, then
//! `curl -d '{"id":"a1","buyer":"ann"}' -H content-type:application/json localhost:3000/items/7/purchases`,
//! twice at once. `DLOCK_URL=redis://…` lets several instances take turns (then give them one
//! database instead of `store`). `SHOP_BANK_URL` names a bank that is called by HTTP.
//! `curl localhost:3000/health/ready` says whether locks can be taken.

mod app;
mod bank;
mod error;
mod extract;
mod store;

use std::error::Error;
use std::future::IntoFuture as _;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use dlock_runtime::Config;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use app::Shop;
use bank::Bank;
use store::Store;

type Failure = Box<dyn Error + Send + Sync>;

/// How long a request may take: more than the longest `wait` and a slow bank together.
const DEADLINE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    // Without a subscriber dlock's events are lost. `RUST_LOG` filters them.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(filter.from_env_lossy())
        .init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = &*error as &dyn Error, "stopped");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let told_to_stop = signals()?; // before the first request, so that no early signal cuts one off
    let shop = Shop {
        store: Arc::new(stocked()),
        bank: Arc::new(Bank::new(std::env::var("SHOP_BANK_URL").ok())),
        locks: dlock_runtime::init(config()?).await?,
        deadline: DEADLINE,
    };
    let listener = TcpListener::bind(address()?).await?;
    println!("listening on {}", listener.local_addr()?);

    let (gate, closed) = oneshot::channel::<()>();
    let serving = axum::serve(listener, app::app(shop)).with_graceful_shutdown(async move {
        let _ = closed.await; // an error means that the sender was dropped, which is the signal
    });
    let serving = tokio::spawn(serving.into_future());

    let signal = told_to_stop.await;
    let told_again = signals()?;
    println!(
        "{signal}: taking no more requests, and ending those that run; once more ends it at once"
    );
    drop(gate);
    tokio::spawn(async {
        let signal = told_again.await;
        tracing::warn!("{signal} again: requests are cut off, and their locks end with their ttl");
        std::process::exit(1);
    });
    // Requests end by their deadline, but a client that does not read its answer, or never sends
    // its request, has none.
    if tokio::time::timeout(DEADLINE + Duration::from_secs(1), serving)
        .await
        .is_err()
    {
        tracing::warn!("some connections did not end");
    }
    // Last, so that running requests could take their locks: from here on acquires are refused.
    let drained = dlock_runtime::shutdown().await;
    if drained.is_complete() {
        println!("stopped; no lock is left held");
        Ok(())
    } else {
        let (held, unconfirmed) = (drained.held(), drained.unconfirmed());
        Err(format!(
            "{held} locks left held and {unconfirmed} unconfirmed; they end with their ttl"
        )
        .into())
    }
}

/// Reads `DLOCK_URL` and the other `DLOCK_` variables. Without `DLOCK_URL` the shop runs on
/// `memory://` and says so.
fn config() -> Result<Config, Failure> {
    if std::env::var_os("DLOCK_URL").is_some() {
        return Ok(Config::from_env()?);
    }
    eprintln!(
        "\n*** DLOCK_URL is not set: locks are in memory://, so two instances of this shop would sell one item twice. ***\n"
    );
    Ok(Config::new("memory://"))
}

/// `--listen`, else `SHOP_LISTEN`, else port 3000 of this machine. Port 0 takes any free one.
fn address() -> Result<String, Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => Ok(std::env::var("SHOP_LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned())),
        [flag, address] if flag == "--listen" => Ok(address.clone()),
        _ => Err("arguments: none, or --listen ADDRESS:PORT".into()),
    }
}

fn stocked() -> Store {
    let store = Store::default();
    store.stock(7, 1999, 3);
    store.stock(8, 499, 100);
    store
}

/// Ends with the name of the signal that asks this process to stop.
#[cfg(unix)]
fn signals() -> io::Result<impl Future<Output = &'static str>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

#[cfg(not(unix))]
fn signals() -> io::Result<impl Future<Output = &'static str>> {
    Ok(async {
        match tokio::signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            Err(_) => std::future::pending().await,
        }
    })
}
