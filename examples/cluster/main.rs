//! Locks over the slots of a cluster, under load: 48 tasks take a lock each, first by keys in slots
//! of their own, then by keys that share a hash tag, then by their own again while the first master
//! gives its locks' slots away.
//!
//! `cargo run -p dlock-examples --example cluster` starts three masters, and takes about 15 seconds; `-- --svg FILE`
//! draws the run into FILE. Read `load` (what the tasks do) and `moves` (which slot went when);
//! `picture` draws both.

mod load;
mod moves;
mod picture;
#[path = "../sheet.rs"]
mod sheet;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dlock_harness::Cluster;
use dlock_runtime::{Config, LockPool};

use load::{Hold, Keys};
use moves::Moves;

type Failure = Box<dyn Error + Send + Sync>;

const MASTERS: usize = 3;

/// Of a part in which no slot moves.
const PART: Duration = Duration::from_secs(3);

/// What the run was like.
struct Record {
    holds: Vec<Hold>,
    moves: Moves,
    /// When the parts began and, at last, when the run ended.
    parts: [Duration; 4],
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let svg = match words.as_slice() {
        [] => None,
        [flag, file] if flag == "--svg" => Some(PathBuf::from(file)),
        _ => return Err("arguments: none, or --svg FILE, which draws the run into FILE".into()),
    };
    let record = tell().await?;
    if let Some(path) = svg {
        let written = std::fs::write(&path, picture::svg(&record));
        written.map_err(|why| format!("can't write {}: {why}", path.display()))?;
        println!("the picture is in {}", path.display());
    }
    Ok(())
}

async fn tell() -> Result<Record, Failure> {
    let cluster = Cluster::start(MASTERS).await;
    let pool = LockPool::connect(Config::new(cluster.url())).await?;
    let own = Keys::own(&cluster).await;
    let tagged = Keys::tagged(&cluster).await;
    let mut moves = Moves::new(MASTERS);
    let (begun, mut holds) = (Instant::now(), Vec::new());

    println!("keys in slots of their own …");
    holds.extend(load::during(&pool, &own, begun, tokio::time::sleep(PART)).await?);
    let second = begun.elapsed();
    println!("keys that share a tag …");
    holds.extend(load::during(&pool, &tagged, begun, tokio::time::sleep(PART)).await?);
    let third = begun.elapsed();
    println!("their own again, and the first master gives its slots to the third …");
    let going = moves.drain(&cluster, own.slots(), begun);
    holds.extend(load::during(&pool, &own, begun, going).await?);
    let parts = [Duration::ZERO, second, third, begun.elapsed()];

    let record = Record {
        holds,
        moves,
        parts,
    };
    for (part, name) in ["own slots", "one tag", "slots that move"]
        .iter()
        .enumerate()
    {
        println!(
            "{name}: locks taken at the masters: {:?}",
            record.taken_in(part)
        );
    }
    Ok(record)
}

impl Record {
    /// How many locks were taken at each master in a part.
    fn taken_in(&self, part: usize) -> [usize; MASTERS] {
        let ends = self.parts.get(part).zip(self.parts.get(part + 1));
        let (from, to) = ends.map_or_else(Default::default, |(from, to)| (*from, *to));
        self.taken_between(from, to)
    }

    fn taken_between(&self, from: Duration, to: Duration) -> [usize; MASTERS] {
        let mut taken = [0; MASTERS];
        for hold in &self.holds {
            let master = self.moves.owner(hold.slot, hold.from);
            if (from..to).contains(&hold.from)
                && let Some(number) = taken.get_mut(master)
            {
                *number += 1;
            }
        }
        taken
    }
}
