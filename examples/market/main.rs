//! A marketplace in three ways: a lock compared with WATCH/MULTI/EXEC, and a lock for each item
//! compared with one lock for everything.
//!
//! Sellers list and buyers buy concurrently, as in "Redis in Action" 6.1 and 6.2: watching what
//! they read, under one lock `market`, or under a lock for each item (`key = "item:<offer.id>"`).
//! Each run ends with an audit: an item that was sold twice, or money that appeared or vanished,
//! ends the program with an error.
//!
//! `cargo run --release -p dlock-examples --example market [-- --seconds N --way watch|market|item --svg FILE]`
//! starts a private `redis-server`; `DLOCK_URL` names another. Ctrl-C ends it early, with the
//! results so far. `--help` explains the options and the figures.
//!
//! Read `ways` first (the three, side by side), then `stall` (their two moves in Redis), `crew`
//! (who does what), `load` (a run), `audit`.

mod arguments;
mod audit;
mod chart;
mod crew;
mod error;
mod goods;
mod load;
mod report;
#[path = "../first/server.rs"]
mod server;
mod stall;
#[cfg(test)]
mod tests;
mod ways;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dlock_runtime::{Config, LockPool};

use arguments::{Kind, Plan};
use error::MarketError;
use load::{Place, Size};
use report::Report;
use server::Server;
use ways::{Coarse, Optimistic, PerItem};

const SIZES: [Size; 3] = [Size::new(1, 1), Size::new(5, 1), Size::new(5, 5)];

/// The status that a shell reports for a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    ExitCode::from(status(std::env::args().skip(1)).await)
}

/// Runs the program with these arguments, and returns its exit status.
async fn status(words: impl Iterator<Item = String>) -> u8 {
    match run(words).await {
        Ok(status) => status,
        Err(error) => {
            report::clear_line();
            eprintln!("market: {}", error.story());
            1
        }
    }
}

async fn run(words: impl Iterator<Item = String>) -> Result<u8, MarketError> {
    let words: Vec<String> = words.collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{}{}", arguments::HELP, report::LEGEND);
        return Ok(0);
    }
    let plan = Plan::parse(words)?;
    let told = Arc::new(AtomicBool::new(false));
    tokio::spawn(interrupt(told.clone()));
    let (url, locks, _server) = server().await?;
    let place = Place {
        url,
        locks,
        length: plan.length,
        told,
    };

    let (mut reports, mut failure) = (Vec::new(), None);
    let runs = plan
        .ways
        .iter()
        .flat_map(|way| SIZES.map(|size| (way, size)));
    for (way, size) in runs {
        let ran = match way {
            Kind::Watch => load::run::<Optimistic>(&place, size).await,
            Kind::Market => load::run::<Coarse>(&place, size).await,
            Kind::Item => load::run::<PerItem>(&place, size).await,
        };
        match ran {
            Ok(report) => reports.push(report),
            Err(error) => failure = Some(error),
        }
        if failure.is_some() || place.told.load(Ordering::Relaxed) {
            break;
        }
    }
    report::clear_line();
    tell(&reports);
    if let Some(error) = failure {
        return Err(error);
    }
    if let Some(path) = plan.svg {
        let written = std::fs::write(&path, chart::svg(&reports)?);
        written.map_err(|source| MarketError::Write {
            path: path.clone(),
            source,
        })?;
        eprintln!("market: the chart is in {}", path.display());
    }
    if place.told.load(Ordering::Relaxed) {
        eprintln!("market: interrupted; the last run was shorter than the others");
        return Ok(INTERRUPTED);
    }
    Ok(0)
}

fn tell(reports: &[Report]) {
    println!("{}", Report::HEAD);
    for report in reports {
        println!("{}", report.row());
    }
    print!("\n{}", report::LEGEND);
    let items: u64 = reports.iter().map(|report| report.items).sum();
    println!(
        "\nAudited after each run ({}): {items} items, each in one place and none sold twice; no cent appeared or vanished.",
        reports.len()
    );
}

/// Connects to the server, and returns it with the settings of its locks.
async fn server() -> Result<(String, Config, Option<Server>), MarketError> {
    let (url, locks, server) = if let Ok(url) = std::env::var("DLOCK_URL") {
        (url, Config::from_env()?, None)
    } else {
        // In a process group of its own: the last audit needs it, and a terminal sends Ctrl-C to
        // its whole foreground group.
        let (url, server) = Server::start(true).await.map_err(MarketError::Server)?;
        (url.clone(), Config::new(url), Some(server))
    };
    if url.starts_with("memory:") {
        return Err(MarketError::Memory);
    }
    LockPool::connect(locks.clone()).await?;
    Ok((url, locks, server))
}

/// On Ctrl-C or SIGTERM ends the current run, whose results are printed. If signals can't be
/// received, the program just ends.
async fn interrupt(told: Arc<AtomicBool>) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else {
            return;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            heard = tokio::signal::ctrl_c() => if heard.is_err() { return },
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    told.store(true, Ordering::Relaxed);
}
