//! What a node would need if the locks of its slots shared a script, each under a `pcall` of its own
//! (`across.lua`), beside dlock's own scripts, alone and combined where a tag makes it one slot, and
//! beside the bare commands.
//!
//! dlock does not do this: docs/inside/design/why-no-batch-across-slots.md says why. Its scripts are sent by hand here, so that
//! each way gets batches of the same size, and each batch is one write.

use std::sync::LazyLock;
use std::time::Duration;

use dlock_harness::Cluster;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};

use crate::Failure;
use crate::chapter::{Chapter, spread};
use crate::lab::{Lab, connect_far};
use crate::progress::Progress;
use crate::rounds::{order, ratios};
use crate::statistics::{Quartiles, real};

#[path = "../../../dlock-runtime/src/rules/lua/mod.rs"]
#[allow(dead_code, reason = "it has the texts of all scripts")]
mod lua;

static ACQUIRE: LazyLock<String> = LazyLock::new(|| lua::text(lua::ACQUIRE));
static RELEASE: LazyLock<String> = LazyLock::new(|| lua::text(lua::RELEASE));
static COMBINED: LazyLock<String> = LazyLock::new(|| lua::text(lua::COMBINED));
const ACROSS: &str = include_str!("across.lua");
const DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Half of a batch releases, the other half acquires.
const ITEMS: [usize; 3] = [64, 16, 8];

const LEASE: u64 = 10_000;
/// µs since 1970: the year 2255.
const FOR_EVER: u64 = 9_000_000_000_000_000;
/// Of the fleet; no message is signed here.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Single,
    Across,
    Combined,
    Bare,
}

const WAYS: [(Way, &str); 4] = [
    (Way::Single, "single scripts"),
    (Way::Across, "one script over slots, a `pcall` each"),
    (Way::Combined, "combined, keys that share a tag"),
    (Way::Bare, "bare commands"),
];

/// The names and the value of a lock.
struct Item {
    lock: String,
    queue: String,
    heartbeats: String,
    counter: String,
    value: String,
}

impl Item {
    fn new(number: usize, has_tag: bool) -> Self {
        let [process, pool, channel] = [(); 3].map(|()| fastrand::u64(..));
        let (lock, queue, heartbeats, slot) = if has_tag {
            let name = |letter| format!("lock:@{letter}#{{own}}:{number}");
            let lock = format!("lock:{{own}}:{number}");
            (lock, name('w'), name('a'), "own".to_owned())
        } else {
            let lock = format!("lock:own:{number}");
            let name = |letter| format!("lock:@{letter}:{{{lock}}}");
            let (queue, heartbeats) = (name('w'), name('a'));
            (lock.clone(), queue, heartbeats, lock)
        };
        Self {
            lock,
            queue,
            heartbeats,
            counter: format!("lock:@fence:{{{slot}}}"),
            value: format!(
                "1|x|{process:016x}-{pool:016x}-1|;lock:@grant:{channel:016x}|10000|0|0||host|12345|benches::own|1790000000000000"
            ),
        }
    }
}

pub(super) async fn chapter(lab: &Lab, node: &Cluster) -> Result<Chapter, Failure> {
    let servers = super::urls(node);
    let url = servers.first().ok_or("a cluster has nodes")?;
    let mut redis = connect_far(url).await?;
    let mut control = lab.control_of(&servers).await?;
    for script in [&**ACQUIRE, &**RELEASE, &**COMBINED, ACROSS, DELETE] {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script).exec_async(&mut redis).await?;
    }
    let (rounds, cycles) = (lab.scale.pick(15, 5), lab.scale.pick(24_000, 6_000));
    let mut progress = Progress::new("cluster, a script over slots");
    let mut rows = Vec::new();
    for items in ITEMS {
        let mut cpus = vec![Vec::new(); WAYS.len()];
        for round in 0..rounds {
            progress.tell(&format!("{items} items, round {} of {rounds}", round + 1));
            for place in order(WAYS.len(), round) {
                let (Some((way, _)), Some(cpus)) = (WAYS.get(place), cpus.get_mut(place)) else {
                    continue;
                };
                let [there, back] = batches(*way, items);
                check(&redis, [&back, &there]).await?;
                let before = control.reading().await?;
                let pairs = cycles / items;
                for _ in 0..pairs {
                    back.exec_async(&mut redis).await?;
                    there.exec_async(&mut redis).await?;
                }
                let cpu = control.reading().await?.since(&before).cpu;
                cpus.push(micros(cpu) / real(pairs * items));
                check(&redis, [&back, &there]).await?;
                control.clear().await?;
            }
        }
        let to_single = ratios(&cpus, 0);
        for (((_, name), cpus), ratio) in WAYS.iter().zip(cpus).zip(to_single) {
            rows.push(vec![
                items.to_string(),
                (*name).to_owned(),
                spread(Quartiles::of(cpus), 2),
                spread(ratio, 2),
            ]);
        }
    }
    Ok(Chapter {
        title: "A cluster: the locks of one node in a script".to_owned(),
        notes: vec![format!(
            "{cycles} cycles in each of {rounds} rounds, at a cluster of one; each batch is one write, half of it releases."
        )],
        head: vec!["items", "way", "server CPU, µs", "/ single scripts"],
        rows,
        panels: Vec::new(),
    })
}

/// A batch that releases some locks and acquires others, and one that does the reverse.
fn batches(way: Way, items: usize) -> [Pipeline; 2] {
    let all = (0..items).map(|number| Item::new(number, way == Way::Combined));
    let all: Vec<Item> = all.collect();
    let (one, other) = all.split_at(items / 2);
    [batch(way, one, other), batch(way, other, one)]
}

fn batch(way: Way, releases: &[Item], acquires: &[Item]) -> Pipeline {
    let mut pipe = redis::pipe();
    match way {
        Way::Single => {
            for it in releases {
                let release = call(&mut pipe, &RELEASE).arg(4).arg(&it.lock);
                let release = release.arg(&it.counter).arg(&it.queue).arg(&it.heartbeats);
                release.arg(&it.value).arg(0).arg(SECRET);
            }
            for it in acquires {
                let acquire = call(&mut pipe, &ACQUIRE).arg(4).arg(&it.lock);
                let acquire = acquire.arg(&it.counter).arg(&it.queue).arg(&it.heartbeats);
                let acquire = acquire.arg(&it.value).arg(LEASE).arg(FOR_EVER);
                acquire.arg(0).arg(1).arg(SECRET);
            }
        }
        Way::Bare => {
            for it in releases {
                let delete = call(&mut pipe, DELETE).arg(1);
                delete.arg(&it.lock).arg(&it.value);
            }
            for it in acquires {
                let set = pipe.cmd("SET").arg(&it.lock).arg(&it.value);
                set.arg("NX").arg("PX").arg(LEASE);
            }
        }
        Way::Combined => {
            let all = || releases.iter().chain(acquires);
            let command = call(&mut pipe, &COMBINED).arg(1 + 2 * all().count());
            command.arg(all().next().map(|it| &it.counter));
            for it in all() {
                command.arg(&it.lock).arg(&it.queue);
            }
            command.arg(1).arg(1).arg(releases.len()).arg(0);
            command.arg(acquires.len()).arg(LEASE).arg(FOR_EVER);
            command.arg(0).arg(1);
            for it in all() {
                command.arg(&it.value);
            }
            command.arg(SECRET);
        }
        Way::Across => {
            let command = call(&mut pipe, ACROSS).arg(0);
            command.arg(releases.len()).arg(acquires.len()).arg(LEASE);
            for it in releases {
                command.arg(&it.lock).arg(&it.queue).arg(&it.value);
            }
            for it in acquires {
                command.arg(&it.lock).arg(&it.queue);
                command.arg(&it.counter).arg(&it.value);
            }
        }
    }
    pipe
}

fn call<'a>(pipe: &'a mut Pipeline, script: &str) -> &'a mut Pipeline {
    pipe.cmd("EVALSHA")
        .arg(redis::Script::new(script).get_hash())
}

/// Sends a batch behind the one that takes what it releases; each of its items has to succeed.
async fn check(
    redis: &MultiplexedConnection,
    [before, batch]: [&Pipeline; 2],
) -> Result<(), Failure> {
    let mut redis = redis.clone();
    before.exec_async(&mut redis).await?;
    let replies: Vec<Value> = batch.query_async(&mut redis).await?;
    let items = replies.iter().flat_map(|reply| match reply {
        Value::Array(items) => items.as_slice(),
        item => std::slice::from_ref(item),
    });
    let is_good = |item: &Value| matches!(item, Value::Int(1..) | Value::Okay);
    match items.into_iter().find(|item| !is_good(item)) {
        Some(bad) => Err(format!("a script answered {bad:?}").into()),
        None => Ok(()),
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
