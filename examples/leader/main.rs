//! Three processes of which one leads. The first one resigns, the second is killed, the third is stopped
//! for longer than its lease; then each is replaced, as a rolling deploy does.
//!
//! `cargo run -p dlock-examples --example leader` takes some twenty seconds; `-- --svg FILE` draws who led
//! when into FILE. `-- --rollouts N` replaces the leader of two processes N times, over a wire with a
//! round trip of 50 ms, and measures for how long nobody led. It starts a `redis-server` of its own.
//!
//! Read `candidate` first (one of the processes), then `story` and `rollouts`. `troupe` starts the
//! processes and keeps what they tell; `picture` draws it.

mod candidate;
mod picture;
mod rollouts;
#[path = "../sheet.rs"]
mod sheet;
mod story;
mod troupe;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

type Failure = Box<dyn Error + Send + Sync>;

/// The longest that anything here may take.
const CAP: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leader: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    const USAGE: &str = "arguments: none, --svg FILE, or --rollouts N";
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => story::tell(None).await,
        [flag, file] if flag == "--svg" => story::tell(Some(Path::new(file))).await,
        [flag, number] if flag == "--rollouts" => {
            rollouts::measure(number.parse().map_err(|_| USAGE)?).await
        }
        [flag, name, url, ttl] if flag == candidate::FLAG => {
            let ttl = Duration::from_millis(ttl.parse()?);
            candidate::stand(name.clone(), url, ttl).await
        }
        _ => Err(USAGE.into()),
    }
}
