//! Tasks with a key each, as in W2, on servers that have 1, 1,000, … other locks.

use std::time::{Duration, Instant};

use dlock_runtime::{Config, LockPool, lock_key};

use super::lane::{Lanes, Sample};
use crate::Failure;
use crate::contenders::ours::{self, Confirmed};
use crate::contenders::raw::{self, Raw};
use crate::contenders::{Block, Contender, TTL};
use crate::lab::{self, Control, Lab};
use crate::progress::Progress;
use crate::rounds::{Rounds, order};
use crate::statistics::real;

pub(super) const TASKS: usize = 64;

/// Other locks in one message to the server.
const AT_ONCE: usize = 1_000;

/// Longer than any run.
const LEASE: Duration = Duration::from_secs(24 * 3600);

pub(super) async fn measure(lab: &Lab) -> Result<Lanes, Failure> {
    let numbers = lab.scale.pick([1, 1_000, 1_000_000], [1, 1_000, 100_000]);
    let block = Block {
        tasks: TASKS,
        cycles: lab.scale.pick(100, 40),
    };
    let rounds = Rounds {
        most: lab.scale.pick(30, 12),
        within: Duration::from_secs(lab.scale.pick(60, 3)),
    };
    let mut progress = Progress::new("growth, locks");
    let mut places = Vec::new();
    for others in numbers {
        progress.tell(&format!("{others} other locks are put there"));
        places.push(Place::new(lab.another()?, others).await?);
    }
    for place in &places {
        // Warms up connections, scripts and memory before the first round.
        for contender in &place.contenders {
            contender.run(block).await?;
        }
    }
    let with = numbers.map(|others| match others {
        1 => "1 other lock".to_owned(),
        others => format!("{others} other locks"),
    });
    let mut lanes = Lanes::new(&with, &NAMES);
    let (begun, mut round) = (Instant::now(), 0);
    while rounds.another(round, begun) {
        progress.tell(&format!("round {} of {}", round + 1, rounds.most));
        for lane in order(with.len() * NAMES.len(), round) {
            if let Some(place) = places.get_mut(lane / NAMES.len()) {
                lanes.add(lane, place.sample(lane % NAMES.len(), block).await?);
            }
        }
        round += 1;
    }
    for mut place in places {
        place.check().await?;
    }
    Ok(lanes)
}

const NAMES: [&str; 2] = ["raw", "dlock"];

/// A server with other locks, and the contenders on it.
struct Place {
    control: Control,
    others: usize,
    contenders: [Contender; 2],
    /// The last field, because all others are connected to its server.
    _lab: Lab,
}

impl Place {
    async fn new(lab: Lab, others: usize) -> Result<Self, Failure> {
        let url = lab.url();
        let pool = LockPool::connect(ours::patient(Config::new(&url))).await?;
        fill(&url, &pool, others).await?;
        let raw = Raw::connect(&url, TTL).await?;
        let mut place = Self {
            control: lab.control().await?,
            others,
            contenders: [
                Contender::new(NAMES[0], raw::SENDS, raw),
                Contender::new(NAMES[1], ours::SENDS, Confirmed(pool)),
            ],
            _lab: lab,
        };
        place.check().await?;
        Ok(place)
    }

    /// Checks that the server has exactly the other locks.
    async fn check(&mut self) -> Result<(), Failure> {
        let (there, others) = (self.control.keys().await?, self.others);
        if there == others {
            Ok(())
        } else {
            Err(format!("{there} locks are at a server that should have {others}").into())
        }
    }

    async fn sample(&mut self, contender: usize, block: Block) -> Result<Sample, Failure> {
        let contender = self
            .contenders
            .get(contender)
            .ok_or("nobody has this place")?;
        let (took, work) = contender.run_at(block, &mut self.control).await?;
        let cycles = real(block.count());
        let calls = usize::try_from(work.calls(contender.sends))?;
        Ok(Sample {
            time: took.wall.as_secs_f64() * 1e6 / cycles,
            server: work.cpu.as_secs_f64() * 1e6 / cycles,
            commands: real(calls) / cycles,
            count: block.count(),
        })
    }
}

/// Writes other locks with values like dlock's. Acquiring them one by one would take minutes.
async fn fill(url: &str, pool: &LockPool, locks: usize) -> Result<(), Failure> {
    let mut redis = lab::connect(url).await?;
    let model = pool.lock(lock_key!("model")).ttl(TTL).acquire().await?;
    let value: String = redis::cmd("GET")
        .arg("lock:model")
        .query_async(&mut redis)
        .await?;
    model.release().await?;
    for first in (0..locks).step_by(AT_ONCE) {
        let mut some = redis::pipe();
        for lock in first..locks.min(first + AT_ONCE) {
            let value = another(&value, lock).ok_or("dlock's value has another form by now")?;
            let set = some.cmd("SET").arg(format!("lock:other:{lock}"));
            set.arg(value)
                .arg("PX")
                .arg(LEASE.as_secs() * 1000)
                .ignore();
        }
        some.exec_async(&mut redis).await?;
    }
    Ok(())
}

/// The same value with another token: `1|x|<random>-<number>|…`.
fn another(value: &str, number: usize) -> Option<String> {
    let (random, rest) = value.split_once('-')?;
    let (_, rest) = rest.split_once('|')?;
    Some(format!("{random}-{number}|{rest}"))
}

#[cfg(test)]
mod tests;
