//! Many failovers in a row, of each way in turn: killed, hung, handed over. `DLOCK_FAILOVERS` is how
//! many; memory is checked from 20 on, because this process has to be quiet for that.
//!
//! Tasks of several pools count under a lock. Two may believe to hold it for a moment, since a lock
//! may be lost with its master; the resource takes the newer one's word.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_harness::{RedisServer, Watched, until};
use dlock_runtime::{LockGuard, LockPool};
use dlock_tests::resource::Resource;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use dlock_tests::memory;

use crate::CAP;

const POOLS: usize = 3;
const TASKS_OF_A_POOL: usize = 3;

/// Each pool has a connection of this runtime and one of its watchdog's, and listens to three
/// sentinels.
const CONNECTIONS: usize = POOLS * (2 + 3);

/// From the sentinels' agreement until the next counts, and what a loaded machine adds.
const AGAIN: Duration = Duration::from_secs(2 + 3);

/// What the process may grow by from the first quarter of many rounds to their end.
const GROWTH: usize = 4 << 20;

#[derive(Debug)]
enum Way {
    Killed,
    Hung,
    HandedOver,
}

const WAYS: [Way; 3] = [Way::Killed, Way::Hung, Way::HandedOver];

struct Soak {
    watched: Watched,
    master: usize,
    resource: Arc<Resource>,
    tasks: Vec<JoinHandle<()>>,
    /// Held through all failovers.
    held: LockGuard,
}

impl Soak {
    async fn start() -> Self {
        let watched = Watched::start().await;
        for server in watched.servers.iter().chain(&watched.sentinels) {
            user(server).await;
        }
        let url = watched.url().replacen("://", "://dlock:x@", 1);
        let url = url + "?sentinel_user=dlock&sentinel_pass=x";
        let resource = Arc::new(Resource::default());
        let mut pools = Vec::new();
        for _ in 0..POOLS {
            pools.push(LockPool::connect(&*url).await.unwrap());
        }
        let tasks = pools.iter().cycle().take(POOLS * TASKS_OF_A_POOL);
        let tasks = tasks
            .map(|pool| tokio::spawn(resource.clone().count_under(pool.clone(), "count".into())));
        let tasks = tasks.collect();
        let held = pools[0]
            .lock("held")
            .ttl(2 * CAP)
            .renew_every(Duration::from_secs(1));
        let held = held.acquire().await.unwrap();
        Self {
            watched,
            master: 0,
            resource,
            tasks,
            held,
        }
    }

    /// How many counts come after this call, until there are more than `least`.
    async fn counts(&self, least: u64) {
        let counted = self.resource.accepted();
        until("it counts", CAP, async || {
            self.resource.accepted() > counted + least
        })
        .await;
    }

    async fn fail_over(&mut self, way: &Way) {
        self.counts(20).await;
        // A machine that stalls for half a second makes the sentinels move it by themselves.
        until("both replicas have what the master has", CAP, async || {
            self.master = self.watched.named_by(0).await;
            let master = &self.watched.servers[self.master];
            master.try_replicated(2, Duration::from_secs(1)).await == Ok(true)
        })
        .await;
        let old = &self.watched.servers[self.master];
        match way {
            Way::Killed => old.kill9(),
            Way::Hung => old.stop_signal(),
            Way::HandedOver => {
                let sentinel = &self.watched.sentinels[self.master];
                sentinel.cmd(&["SENTINEL", "FAILOVER", "locks"]).await;
            }
        }
        let new = self.watched.moved_from(self.master, &[0, 1, 2]).await;
        let moved = Instant::now();
        self.counts(5).await;
        let after = moved.elapsed();
        assert!(after < AGAIN, "{way:?}: {after:?}");
        match way {
            Way::Killed => {
                old.restart_empty();
                user(old).await;
            }
            Way::Hung => old.cont(),
            Way::HandedOver => {}
        }
        let port = self.watched.servers[new].port().to_string();
        old.cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
        self.master = new;
        self.watched.settled().await;
        until("what is held is held at the new master", CAP, async || {
            self.held.verify().await.is_ok()
        })
        .await;
        self.check_keys().await;
    }

    async fn check_keys(&self) {
        let master = &self.watched.servers[self.master];
        for key in master.keys().await {
            let ttl = master.pttl(&key).await;
            assert!(ttl != -1 || key.contains("@fence"), "{key} has no ttl");
        }
    }

    /// The connections of the pools, at all servers and sentinels.
    async fn connections(&self) -> usize {
        let mut connections = 0;
        for server in self.watched.servers.iter().chain(&self.watched.sentinels) {
            let clients: String = server.ask(&["CLIENT", "LIST"]).await;
            connections += clients.matches("user=dlock").count();
        }
        connections
    }

    async fn end(self) {
        self.resource.stop();
        // On a busy machine the sentinels may have moved the master once more by themselves.
        self.watched.settled().await;
        until("what is held is held at the master", CAP, async || {
            self.held.verify().await.is_ok()
        })
        .await;
        self.held.release().await.unwrap();
        for task in self.tasks {
            task.await.unwrap();
        }
        let refused = self.resource.check();
        eprintln!("{} counts, {refused} refused", self.resource.accepted());
        // The pools have ended with their tasks.
        for server in self.watched.servers.iter().chain(&self.watched.sentinels) {
            until("no connection of a pool is left", CAP, async || {
                let clients: String = server.ask(&["CLIENT", "LIST"]).await;
                !clients.contains("user=dlock")
            })
            .await;
        }
    }
}

/// A user of the pools alone, so that their connections can be counted.
async fn user(server: &RedisServer) {
    let user = ["ACL", "SETUSER", "dlock", "on", ">x", "~*", "&*", "+@all"];
    server.cmd(&user).await;
}

async fn rounds(rounds: usize) {
    let mut soak = Soak::start().await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let most_tasks = tasks() + POOLS; // one more of each that connects just now
    let mut memory_before = None;
    for round in 0..rounds {
        let way = &WAYS[round % WAYS.len()];
        soak.fail_over(way).await;
        until("there are no more connections and tasks", CAP, async || {
            soak.connections().await <= CONNECTIONS && tasks() <= most_tasks
        })
        .await;
        if round + 1 == rounds / 4 {
            memory_before = Some(memory());
        }
        eprintln!(
            "round {round}, {way:?}: {} tasks, {} KiB",
            tasks(),
            memory() / 1024
        );
    }
    if let Some(before) = memory_before.filter(|_| rounds >= 20) {
        let after = memory();
        assert!(after <= before + GROWTH, "{before} bytes, then {after}");
    }
    soak.end().await;
}

#[tokio::test]
async fn fences_keep_the_resource_right_through_failovers() {
    let wanted = std::env::var("DLOCK_FAILOVERS").ok();
    rounds(wanted.map_or(WAYS.len(), |it| it.parse().unwrap())).await;
}
