//! How fast a contended lock goes from one process to the next, and what waiting costs the server:
//! the figures of `docs/inside/protocol.md`.
//!
//! Two processes of this program wait for one key and pass it back and forth, each turn through the
//! server (no local hand-off). It measures the time from just before a holder's `release()` to the
//! first line of the next body, on `CLOCK_MONOTONIC`, which all processes of a machine share. For
//! comparison it measures one message through this server, from the PUBLISH of one process until
//! another one receives it. `cargo run --release -p dlock-examples --example handover [-- --rounds N]` starts a
//! private `redis-server`; `DLOCK_URL` names another, which should be idle, because its commands
//! are counted.

mod lab;
mod parts;
#[path = "../first/server.rs"]
mod server;

use std::error::Error;
use std::time::Duration;

use lab::Lab;
use server::Server;

type Failure = Box<dyn Error + Send + Sync>;

const ROUNDS: usize = 600;

/// How long a body lasts while times are taken: by its end the other process is in the queue again.
const BODY: Duration = Duration::from_millis(2);

/// How long an idle queue is watched, and how many tasks wait in it.
const IDLE: Duration = Duration::from_secs(6);
const IDLERS: usize = 50;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => measure(ROUNDS).await,
        ["--rounds", rounds] => measure(rounds.parse::<usize>()?.max(20)).await,
        ["player", tasks, turns, body] => {
            let body = Duration::from_millis(body.parse()?);
            parts::player(tasks.parse()?, turns.parse()?, body).await
        }
        ["listener", messages] => parts::listener(messages.parse()?).await,
        _ => Err("arguments: none, or --rounds N".into()),
    }
}

async fn measure(rounds: usize) -> Result<(), Failure> {
    let (url, _server) = if let Ok(url) = std::env::var("DLOCK_URL") {
        (url, None)
    } else {
        let (url, server) = Server::start(false).await?;
        (url, Some(server))
    };
    if url.starts_with("memory:") {
        return Err("several processes need a server: DLOCK_URL=redis://…".into());
    }
    let lab = Lab::new(url).await?;
    println!("load before: {}", load());
    let message = lab.messages(rounds).await?;
    let passed = lab.pass(1, rounds, BODY).await?;
    let mut costs = Vec::new();
    for tasks in [2, 10, 100] {
        costs.push((tasks, lab.pass(tasks, rounds, Duration::ZERO).await?));
    }
    let idle = lab.idle(IDLERS).await?;
    lab.clear().await?;

    println!("load after: {}\n", load());
    println!("two OS processes; CLOCK_MONOTONIC        p50        p99        max");
    row("PUBLISH to its subscriber, one hop", message);
    row("release() to the next body, by push", passed.times);
    println!("\nwaiting in each process      commands a hand-over   between processes   a second");
    for (tasks, passed) in costs {
        let (commands, pace) = (hundredths(passed.commands, passed.turns), passed.pace());
        let between = format!("{} of {}", passed.crossings, passed.turns);
        println!("{tasks:<25} {commands:>23} {between:>19} {pace:>10}");
    }
    println!("\n{IDLERS} waiting tasks of one process, idle: {idle} commands in {IDLE:?}");
    Ok(())
}

fn row(what: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        let time = Duration::from_nanos(times.get(index).copied().unwrap_or(0));
        format!("{} µs", time.as_micros())
    };
    println!("{what:<36} {:>10} {:>10} {:>10}", at(50), at(99), at(100));
}

/// `count / by` with two digits.
fn hundredths(count: usize, by: usize) -> String {
    let all = (count * 100 + by / 2) / by.max(1);
    format!("{}.{:02}", all / 100, all % 100)
}

/// The system's load, if it reports one.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let (load, _) = load.split_once(' ').unwrap_or(("unknown", ""));
    load.to_owned()
}
