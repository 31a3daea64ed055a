//! A cluster of several masters, with or without replicas: for keys that are on several servers, and
//! move.

use std::time::Duration;

use crate::server::{Builder, RedisServer};
use crate::wait::until;

const CAP: Duration = Duration::from_secs(60);

const SLOTS: usize = 16_384;

/// Running nodes that know each other.
#[derive(Debug)]
#[must_use = "dropping it kills the servers"]
pub struct Cluster {
    /// The masters at first, each with as many slots, in order; then the replicas.
    pub nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Masters without replicas, which stay masters. Returns once each node sees all slots served.
    pub async fn start(masters: usize) -> Self {
        Self::start_as(masters, |_| RedisServer::builder()).await
    }

    /// The same, each started in this way; the arguments override those of a cluster. With TLS they
    /// speak nothing else: the tests ask them over their sockets.
    pub async fn start_as(masters: usize, node: impl Fn(usize) -> Builder) -> Self {
        Self::with(masters, 0, 0, Duration::from_secs(60), node).await
    }

    /// The same, but a node that has not seen most of the others for `down_after` serves nothing.
    pub async fn start_nervous(masters: usize, down_after: Duration) -> Self {
        let node = |_| RedisServer::builder();
        Self::with(masters, 0, 0, down_after, node).await
    }

    /// The same, and one node more that serves no slot.
    pub async fn start_with_an_empty_node(masters: usize) -> Self {
        let node = |_| RedisServer::builder();
        Self::with(masters, 0, 1, Duration::from_secs(60), node).await
    }

    /// Each master has a replica, which takes its place when it has been away for `down_after`.
    pub async fn start_with_replicas(masters: usize, down_after: Duration) -> Self {
        let node = |_| RedisServer::builder();
        Self::start_with_replicas_as(masters, down_after, node).await
    }

    /// The same, each started in this way.
    pub async fn start_with_replicas_as(
        masters: usize,
        down_after: Duration,
        node: impl Fn(usize) -> Builder,
    ) -> Self {
        Self::with(masters, masters, 0, down_after, node).await
    }

    async fn with(
        masters: usize,
        replicas: usize,
        empty: usize,
        down_after: Duration,
        node: impl Fn(usize) -> Builder,
    ) -> Self {
        let down_after = down_after.as_millis().to_string();
        let node = |nth| {
            let args = [
                "--cluster-enabled",
                "yes",
                "--cluster-node-timeout",
                &down_after,
                "--cluster-replica-validity-factor",
                "0",
                "--repl-diskless-sync-delay",
                "0",
            ];
            node(nth).args_before(args).start()
        };
        let cluster = Self {
            nodes: (0..masters + replicas + empty).map(node).collect(),
        };
        for node in &cluster.nodes {
            if node.tls_addr().is_some() {
                node.cmd(&["CONFIG", "SET", "port", "0"]).await;
            }
        }
        for (at, node) in cluster.nodes.iter().take(masters).enumerate() {
            let own = SLOTS * at / masters..SLOTS * (at + 1) / masters;
            let own: Vec<String> = own.map(|slot| slot.to_string()).collect();
            let own = own.iter().map(String::as_str);
            let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(own).collect();
            node.cmd(&words).await;
            // Equal epochs are told apart one after the other, which takes seconds.
            let epoch = (at + 1).to_string();
            node.cmd(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        for node in &cluster.nodes {
            let port = port(node).to_string();
            cluster.nodes[0]
                .cmd(&["CLUSTER", "MEET", "127.0.0.1", &port])
                .await;
        }
        cluster.agrees(masters).await;
        for at in 0..replicas {
            let master = cluster.id(at).await;
            let replica = &cluster.nodes[masters + at];
            replica.cmd(&["CLUSTER", "REPLICATE", &master]).await;
        }
        for at in 0..replicas {
            cluster.replicated(at, masters + at).await;
        }
        cluster
    }

    /// Waits until a replica has all that its master has now.
    pub async fn replicated(&self, master: usize, replica: usize) {
        self.nodes[replica].caught_up(&self.nodes[master]).await;
    }

    /// Waits until each node sees as many masters with slots, and all slots served.
    pub async fn agrees(&self, masters: usize) {
        until("the nodes agree", CAP, async || {
            for node in &self.nodes {
                let info: String = node.ask(&["CLUSTER", "INFO"]).await;
                let size = format!("cluster_size:{masters}\r\n");
                let known = format!("cluster_known_nodes:{}\r\n", self.nodes.len());
                if !["cluster_state:ok\r\n", &size, &known]
                    .iter()
                    .all(|it| info.contains(it))
                {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// The node's id in the cluster.
    pub async fn id(&self, node: usize) -> String {
        self.nodes[node].ask(&["CLUSTER", "MYID"]).await
    }

    /// `redis+cluster://…` of all nodes; with TLS `rediss+cluster://…?tls_ca=…`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts = self.nodes.iter();
        let hosts: Vec<_> = hosts.map(|it| format!("127.0.0.1:{}", port(it))).collect();
        let first = self.nodes[0].tls_url().unwrap_or(self.nodes[0].url());
        let (scheme, rest) = first.split_once("://").expect("a URL");
        let login = rest.split_once('@').map_or("", |(login, _)| login);
        let at = if login.is_empty() { "" } else { "@" };
        let query = rest.find('?').map_or("", |at| &rest[at..]);
        format!("{scheme}+cluster://{login}{at}{}{query}", hosts.join(","))
    }

    /// The hash slot of a key.
    pub async fn slot(&self, key: &str) -> u16 {
        self.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// The node that says that it serves a slot. Panics if none does, or if one does not run.
    pub async fn owner(&self, slot: u16) -> usize {
        for (at, node) in self.nodes.iter().enumerate() {
            let nodes: String = node.ask(&["CLUSTER", "NODES"]).await;
            let mine = nodes.lines().find(|it| it.contains("myself"));
            if mine.is_some_and(|it| serves(it, slot)) {
                return at;
            }
        }
        panic!("nobody serves slot {slot}")
    }

    /// Moves a slot with all its keys to another node, key by key; `between` runs before each key,
    /// and once at the end, while the slot is still being moved.
    pub async fn migrate(&self, slot: u16, to: usize, between: impl AsyncFnMut()) {
        let from = self.owner(slot).await;
        self.move_slot(slot, (from, to), between).await;
        // Two moves in a row would have the same epoch, and the nodes would disagree for a while.
        self.all_know(&[slot], to).await;
    }

    /// Moves many slots to another node, one after the other.
    pub async fn reshard(&self, slots: &[u16], to: usize) {
        for slot in slots {
            let from = self.owner(*slot).await;
            if from != to {
                self.move_slot(*slot, (from, to), async || {}).await;
            }
        }
        self.all_know(slots, to).await;
    }

    async fn move_slot(
        &self,
        slot: u16,
        (from, to): (usize, usize),
        mut between: impl AsyncFnMut(),
    ) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let (source_id, target_id) = (self.id(from).await, self.id(to).await);
        let name = slot.to_string();
        target
            .cmd(&["CLUSTER", "SETSLOT", &name, "IMPORTING", &source_id])
            .await;
        source
            .cmd(&["CLUSTER", "SETSLOT", &name, "MIGRATING", &target_id])
            .await;
        loop {
            between().await;
            let get = ["CLUSTER", "GETKEYSINSLOT", &name, "1"];
            let keys: Vec<String> = source.ask(&get).await;
            let [key] = &keys[..] else { break };
            self.move_key(key, (from, to)).await;
        }
        let words = ["CLUSTER", "SETSLOT", &name, "NODE", &target_id];
        target.cmd(&words).await;
        // One that has heard of it and has no other slot has become a replica, and refuses.
        let _ = source.try_cmd(&words).await;
    }

    /// Moves one key, if it is there, whose slot is being moved.
    pub async fn move_key(&self, key: &str, (from, to): (usize, usize)) {
        let port = port(&self.nodes[to]).to_string();
        let migrate = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
        let _ = self.nodes[from].try_cmd(&migrate).await; // it may have gone
    }

    /// Waits until each node says that this one serves the slots.
    async fn all_know(&self, slots: &[u16], node: usize) {
        let id = self.id(node).await;
        until("all nodes know", CAP, async || {
            for node in &self.nodes {
                let nodes: String = node.ask(&["CLUSTER", "NODES"]).await;
                let owner = nodes.lines().find(|it| it.starts_with(&id));
                if !owner.is_some_and(|it| slots.iter().all(|slot| serves(it, *slot))) {
                    return false;
                }
            }
            true
        })
        .await;
    }
}

/// The port with TLS, if there is one.
fn port(node: &RedisServer) -> u16 {
    node.tls_addr().map_or(node.port(), |addr| addr.port())
}

/// Whether a line of `CLUSTER NODES` lists this slot.
fn serves(line: &str, slot: u16) -> bool {
    line.split(' ').skip(8).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&slot),
            _ => false,
        }
    })
}
