//! A lock of five independent servers. Four processes increment a counter under it while two of the
//! servers are killed; then a third is killed, and no lock can be had.
//!
//! `cargo run -p dlock-examples --example quorum` starts its own servers and processes, and takes some ten seconds,
//! three of them because a server that was just started does not vote. `-- --svg FILE` draws one
//! grant, with one slow node, into FILE.
//!
//! Read `story` first, then `worker` (one of the processes) and `resource` (the counter, which checks
//! fences). `grant` records what passes between a pool and its nodes, and `picture` draws it.

mod grant;
mod picture;
mod resource;
#[allow(dead_code, reason = "several servers are not announced one by one")]
#[path = "../first/server.rs"]
mod server;
#[path = "../sheet.rs"]
mod sheet;
mod story;
mod worker;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use dlock_runtime::Config;

type Failure = Box<dyn Error + Send + Sync>;

/// The longest lease that any of the processes asks for. A server that was just started does
/// not vote for as long, so that it is short here.
const MAX_TTL: Duration = Duration::from_secs(2);

const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quorum: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => story::tell(None).await,
        [flag, file] if flag == "--svg" => story::tell(Some(PathBuf::from(file))).await,
        [flag, url, increments] if flag == worker::FLAG => {
            worker::work(url, increments.parse()?).await
        }
        _ => Err("arguments: none, or --svg FILE, which draws a grant into FILE".into()),
    }
}

/// The same in all processes. Without `default_ttl` a lease of 30 s would be refused: it is longer
/// than `max_ttl`.
fn config(url: &str) -> Config {
    Config::new(url)
        .max_ttl(MAX_TTL)
        .default_ttl(MAX_TTL)
        .command_timeout(COMMAND_TIMEOUT)
}
