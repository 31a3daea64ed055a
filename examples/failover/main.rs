//! Two failovers, and what dlock does meanwhile: a task holds a lock, another waits for it, and
//! both write to a resource that checks fences.
//!
//! In the first the master is killed, and its replicas have the lock. In the second it is cut off
//! from its replicas and sentinels together with the holder, so two believe in the lock for a
//! moment, and the resource decides. `cargo run -p dlock-examples --example failover [-- --svg FILE]` starts its own
//! servers and sentinels, prints each event when it happens, and draws both into FILE.
//!
//! Read `stories` first, then `stage` (what holder and waiter do) and `resource`; `servers` starts
//! and ends the servers, `record` keeps the events, and `picture` draws them.

mod picture;
mod record;
mod resource;
mod servers;
#[path = "../sheet.rs"]
mod sheet;
mod stage;
mod stories;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use record::{Log, Record};
use servers::Servers;

type Failure = Box<dyn Error + Send + Sync>;

/// How long to wait for what takes seconds at most, also on a busy machine.
const CAP: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failover: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let picture = arguments()?;
    let record = Arc::new(Record::default());
    tracing_subscriber::registry()
        .with(Log(record.clone()))
        .init();
    println!("starting two masters, each with two replicas and three sentinels …");
    let (first, second) = tokio::try_join!(Servers::start(), Servers::start())?;
    stories::killed(&record, first).await?;
    stories::cut_off(&record, second).await?;
    if let Some(path) = picture {
        let written = std::fs::write(&path, picture::svg(&record.stories()));
        written.map_err(|why| format!("can't write {}: {why}", path.display()))?;
        println!("\nthe picture is in {}", path.display());
    }
    Ok(())
}

fn arguments() -> Result<Option<PathBuf>, Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => Ok(None),
        [flag, file] if flag == "--svg" => Ok(Some(file.into())),
        _ => Err("arguments: none, or --svg FILE, which draws what happened into FILE".into()),
    }
}

/// Asks again and again until there is an answer; names what did not come within [`CAP`].
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> Result<T, Failure> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let answer = timeout(CAP, asking).await;
    answer.map_err(|_| format!("waited {CAP:?} in vain until {what}").into())
}
