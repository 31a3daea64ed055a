//! Four instances of a service are told to draw ten winners. One of them draws, and the winners are
//! recorded once.
//!
//! `on_busy = "skip"` alone is not enough. The draw takes some milliseconds, and instances never
//! start at the same moment: one that is 50 ms late would find the lock free again and draw another
//! ten. `min_hold` keeps the key until the last instance has tried. `cargo run --example lottery`
//! starts a private `redis-server` for its processes; `DLOCK_URL` names another.

mod server;

use std::collections::HashSet;
use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_runtime::{Config, distributed_lock};
use redis::aio::MultiplexedConnection;

use server::Server;

type Failure = Box<dyn Error + Send + Sync>;

const WINNERS: usize = 10;

/// How late each instance starts, in milliseconds.
const LATE: [u64; 4] = [0, 5, 50, 300];

/// Draws the winners of a round; `None` if another instance draws or drew them.
///
/// An instance that was paused in the middle for longer than its lease could still write late. If
/// that is damage and not just waste, check the fencing token (`cargo run --example fenced_write`).
#[distributed_lock(
    key = "lottery:<round>",
    ttl = "30s",
    on_busy = "skip",
    min_hold = "20s"
)]
async fn draw(
    round: &str,
    redis: &mut MultiplexedConnection,
) -> Result<Option<Vec<String>>, Failure> {
    let winners: Vec<String> = redis::cmd("SRANDMEMBER")
        .arg(eligible(round))
        .arg(WINNERS)
        .query_async(redis)
        .await?;
    let record = redis::cmd("RPUSH")
        .arg(recorded(round))
        .arg(&winners)
        .to_owned();
    record.exec_async(redis).await?;
    Ok(Some(winners))
}

fn eligible(round: &str) -> String {
    format!("lottery:eligible:{round}")
}

fn recorded(round: &str) -> String {
    format!("lottery:winners:{round}")
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => fleet().await,
        [round, at] => instance(round, at.parse()?).await,
        _ => Err("run it without arguments; those are for its own processes".into()),
    }
}

/// One process of the fleet: waits for its moment, and prints its result.
async fn instance(round: &str, at: u64) -> Result<(), Failure> {
    let mut redis = connect(&std::env::var("DLOCK_URL")?).await?;
    dlock_runtime::init(Config::from_env()?).await?;
    tokio::time::sleep(Duration::from_millis(at.saturating_sub(now()?))).await;
    match draw(round, &mut redis).await? {
        Some(winners) => println!("drew {}", winners.join(" ")),
        None => println!("skipped: another instance draws, or drew"),
    }
    dlock_runtime::shutdown().await;
    Ok(())
}

/// Starts a round with all instances, and checks the recorded winners.
async fn fleet() -> Result<(), Failure> {
    let (url, _server) = if let Ok(url) = std::env::var("DLOCK_URL") {
        (url, None)
    } else {
        let (url, server) = Server::start(false).await?;
        (url, Some(server))
    };
    if url.starts_with("memory:") {
        return Err("several processes need a server: DLOCK_URL=redis://…".into());
    }
    let mut redis = connect(&url).await?;
    let round = format!("{}-{}", now()?, std::process::id());
    let names: Vec<String> = (1..=1000)
        .map(|number| format!("customer-{number}"))
        .collect();
    redis::pipe()
        .sadd(eligible(&round), &names)
        .expire(eligible(&round), 3600)
        .exec_async(&mut redis)
        .await?;

    println!("round {round}: {WINNERS} winners out of {}", names.len());
    let begin = now()? + 1000; // by then all have started
    let start = |late| start_instance(&url, &round, begin + late).map(|child| (late, child));
    let instances = LATE.map(start).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut drew = 0;
    for (late, child) in instances {
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        println!("  instance {late:>3} ms late: {}", said.trim_end());
        if !output.status.success() {
            return Err(format!("that instance failed: {}", output.status).into());
        }
        drew += usize::from(said.starts_with("drew "));
    }

    let (recorded, distinct) = what_was_recorded(&mut redis, &round, &names).await?;
    println!(
        "{drew} of {} instances drew; recorded: {recorded} winners, of them {distinct} eligible and distinct",
        LATE.len()
    );
    if (drew, recorded, distinct) == (1, WINNERS, WINNERS) {
        Ok(())
    } else {
        Err("the winners were not recorded exactly once".into())
    }
}

/// How many winners are recorded, and how many of them are different eligible names. Then deletes
/// the round.
async fn what_was_recorded(
    redis: &mut MultiplexedConnection,
    round: &str,
    names: &[String],
) -> Result<(usize, usize), Failure> {
    let (winners,): (Vec<String>,) = redis::pipe()
        .lrange(recorded(round), 0, -1)
        .del(recorded(round))
        .ignore()
        .del(eligible(round))
        .ignore()
        .query_async(redis)
        .await?;
    let eligible = winners.iter().filter(|winner| names.contains(winner));
    Ok((winners.len(), eligible.collect::<HashSet<_>>().len()))
}

fn start_instance(url: &str, round: &str, at: u64) -> Result<Child, Failure> {
    let child = Command::new(std::env::current_exe()?)
        .args([round, &at.to_string()])
        .env("DLOCK_URL", url)
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(child)
}

async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    let client = redis::Client::open(url)?;
    Ok(client.get_multiplexed_async_connection().await?)
}

/// Milliseconds of the system clock, which all processes share.
fn now() -> Result<u64, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}
