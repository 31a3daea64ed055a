//! A cluster of three masters: W2 there, beside a cluster of one, which serves all slots, three
//! servers that know nothing of each other, and one server. So the cost of cluster mode and that of
//! being three are told apart.
//!
//! The servers share a core, so the time says little: what counts is the CPU time of all servers of
//! a contender together, and how many commands a server finds in one read. `across` asks what a
//! script over the locks of several slots would cost a node.

mod across;

use dlock_harness::{Cluster, RedisServer};
use dlock_runtime::{Config, LockPool};

use crate::Failure;
use crate::chapter::Chapter;
use crate::contenders::ours::{self, Confirmed, Spread, Tagged};
use crate::contenders::raw::{self, Raw};
use crate::contenders::{Contender, TTL};
use crate::cycles::{self, Field};
use crate::lab::{Lab, connect_far};

const TASKS: [usize; 3] = [16, 64, 256];

/// Tags whose slots (15495, 3300, 7365) are on three masters.
const TAGS: &[&str] = &["a", "b", "c"];

/// Measures keys in slots of their own, and keys that share a tag.
pub(crate) async fn chapters(lab: &Lab) -> Result<Vec<Chapter>, Failure> {
    let [one, three] = [lab.cluster(1).await?, lab.cluster(3).await?];
    let places = [lab.url(), one.url(), three.url()];
    let servers = [Vec::new(), urls(&one), urls(&three)];
    let own_slots = own_slots(lab, &places, &servers).await?;
    let tags = tags(lab, &places, &servers).await?;
    let across = across::chapter(lab, &one).await?;
    Ok(vec![own_slots, tags, across])
}

fn urls(cluster: &Cluster) -> Vec<String> {
    cluster.nodes.iter().map(RedisServer::url).collect()
}

/// The names of dlock at the three places.
const NAMES: [&str; 3] = [
    "dlock, a counter per slot",
    "dlock, a cluster of one",
    "dlock, a cluster of three",
];

async fn own_slots(
    lab: &Lab,
    places: &[String; 3],
    servers: &[Vec<String>; 3],
) -> Result<Chapter, Failure> {
    let combined = Confirmed(ours::pool(&lab.url()).await?);
    let mut contenders = vec![
        raw(lab).await?,
        Contender::new("dlock, one server", ours::SENDS, combined),
    ];
    for ((name, place), servers) in NAMES.into_iter().zip(places).zip(servers) {
        let dlock = Contender::new(name, ours::SENDS, Confirmed(pool(place).await?));
        contenders.push(dlock.at(servers.clone()));
    }
    let others = [lab.another()?, lab.another()?];
    let servers = [lab.url(), others[0].url(), others[1].url()];
    let mut pools = Vec::new();
    for server in &servers {
        pools.push(pool(server).await?);
    }
    let spread = Contender::new(
        "dlock, three servers, a third each",
        ours::SENDS,
        Spread(pools),
    );
    contenders.push(spread.at(servers.to_vec()));
    let heads = [
        "time / dlock, a counter per slot",
        "server CPU / dlock, a counter per slot",
    ];
    let field = Field {
        contenders,
        beside: (heads, |_| 2),
    };
    let title = "A cluster: acquire and release, tasks with a key each, in slots of their own";
    cycles::sizes(lab, &field, ["cluster", title], &TASKS).await
}

async fn tags(
    lab: &Lab,
    places: &[String; 3],
    servers: &[Vec<String>; 3],
) -> Result<Chapter, Failure> {
    const NAMES: [[&str; 3]; 2] = [
        [
            "dlock, one server, one tag",
            "dlock, a cluster of one, one tag",
            "dlock, a cluster of three, one tag",
        ],
        [
            "dlock, one server, three tags",
            "dlock, a cluster of one, three tags",
            "dlock, a cluster of three, three tags",
        ],
    ];
    let mut contenders = vec![raw(lab).await?];
    for (names, tags) in NAMES.into_iter().zip([&TAGS[..1], TAGS]) {
        for ((name, place), servers) in names.into_iter().zip(places).zip(servers) {
            let dlock = Contender::new(name, ours::SENDS, Tagged(pool(place).await?, tags));
            contenders.push(dlock.at(servers.clone()));
        }
    }
    let heads = ["time / one server", "server CPU / one server"];
    let field = Field {
        contenders,
        beside: (heads, |place| if place < 4 { 1 } else { 4 }),
    };
    let title = "A cluster: the same, keys that share one tag, or three on three masters";
    cycles::sizes(lab, &field, ["tags", title], &TASKS).await
}

async fn raw(lab: &Lab) -> Result<Contender, Failure> {
    let raw = Raw::on(connect_far(&lab.url()).await?, TTL).await?;
    Ok(Contender::new("raw", raw::SENDS, raw))
}

/// With a counter per slot, as a cluster always has it.
async fn pool(url: &str) -> Result<LockPool, Failure> {
    let config = ours::patient(Config::new(url));
    let is_cluster = url.starts_with("redis+cluster:");
    let config = if is_cluster {
        config
    } else {
        config.counter_per_slot()
    };
    Ok(LockPool::connect(config).await?)
}
