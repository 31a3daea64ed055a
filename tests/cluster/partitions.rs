//! Partitions that split clients and nodes differently.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_harness::{Cluster, Proxy, Wires, until, wait};
use dlock_runtime::{LockError, LockGuard, LockPool, Wait};
use dlock_tests::resource::Resource;
use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::{CAP, config, tag_at};

const TIMEOUT: Duration = Duration::from_millis(500);
const TTL: Duration = Duration::from_secs(2);

/// What a loaded machine adds.
const SLACK: Duration = Duration::from_secs(2);

type Cut = fn(&Proxy);

const CUTS: [(&str, Cut); 4] = [
    ("refused", |wire| {
        wire.refuse();
        wire.cut_all();
    }),
    ("lost", Proxy::blackhole),
    ("late", Proxy::stall),
    ("one way", Proxy::drop_replies),
];

/// Tasks that count under a lock; each call of theirs ends in time.
struct Counting {
    resource: Arc<Resource>,
    tasks: Vec<JoinHandle<()>>,
}

impl Counting {
    fn start(key: &str, pools: &[&LockPool]) -> Self {
        let resource = Arc::<Resource>::default();
        let task = |pool: &&LockPool| {
            let counting = resource.clone();
            tokio::spawn(counting.count_under((*pool).clone(), key.to_owned()))
        };
        let tasks = pools.iter().map(task).collect();
        Self { resource, tasks }
    }

    async fn goes_on(&self, what: &str) {
        let before = self.resource.accepted();
        let goes_on = async || self.resource.accepted() > before + 3;
        until(what, CAP, goes_on).await;
    }

    async fn end(self) {
        assert_eq!(self.counts().await, 0, "two at once");
    }

    /// No count was lost. How many the resource has refused.
    async fn counts(self) -> u64 {
        self.resource.stop();
        for task in self.tasks {
            task.await.unwrap();
        }
        self.resource.check()
    }
}

/// A key of each node's.
async fn keys(cluster: &Cluster, name: &str) -> [String; 3] {
    let key = async |node| format!("{{{}}}:{name}", tag_at(cluster, node).await);
    [key(0).await, key(1).await, key(2).await]
}

async fn connect(cluster: &Cluster) -> LockPool {
    let config = config(cluster).command_timeout(TIMEOUT);
    LockPool::connect(config).await.unwrap()
}

async fn in_time(pool: &LockPool, key: &str, wait: Duration) -> Result<LockGuard, LockError> {
    let begun = Instant::now();
    let ended = pool.lock(key).wait(wait).acquire().await;
    let most = wait + TIMEOUT + wait::scaled(SLACK);
    assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
    ended
}

/// The errors of a single try, and of a wait.
async fn unavailable(pool: &LockPool, key: &str) -> [LockError; 2] {
    let [once, waited] = [Duration::ZERO, TIMEOUT].map(|wait| in_time(pool, key, wait));
    [once.await, waited.await].map(|ended| {
        let error = ended.map(drop).unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        error
    })
}

/// The nodes hear each other, and another client hears all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_reach_one_node() {
    let cluster = Cluster::start(3).await;
    let checks = CUTS.map(|(name, cut)| {
        let cluster = &cluster;
        async move { client_without(cluster, name, cut).await }
    });
    join_all(checks).await;
}

async fn client_without(cluster: &Cluster, name: &str, cut: Cut) {
    let wire = Proxy::start(cluster.nodes[2].addr());
    let (there, by) = (cluster.nodes[2].port(), wire.addr().port());
    let through = move |host: String, port| async move {
        let port = if port == there { by } else { port };
        TcpStream::connect((host, port)).await
    };
    let config = config(cluster).command_timeout(TIMEOUT);
    let cut_off = LockPool::connect(config.connector(through)).await.unwrap();
    let whole = connect(cluster).await;
    let [first, second, third] = keys(cluster, name).await;
    let held_key = format!("{third}:held");
    let held = cut_off.lock(&*held_key).ttl(TTL).renew().wait(CAP);
    let held = held.acquire().await.unwrap();
    let waiter = whole.lock(held_key).ttl(TTL).wait(Wait::Forever);
    let waiter = tokio::spawn(waiter.acquire());
    let counting = [
        Counting::start(&first, &[&cut_off]),
        Counting::start(&second, &[&cut_off, &whole]),
        Counting::start(&third, &[&cut_off, &whole]),
    ];
    for it in &counting {
        it.goes_on("all count").await;
    }
    assert!(!waiter.is_finished());
    cut(&wire);
    until("its lease ends", CAP, async || {
        let is_taken = waiter.is_finished();
        assert!(!is_taken || !held.is_held(), "{name}: two hold it");
        !held.is_held()
    })
    .await;
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fence() > held.fence(), "{name}");
    drop(next);
    for it in &counting {
        it.goes_on("others count").await;
    }
    // The pool's own address is that of all nodes.
    let silent = cluster.nodes[2].addr().to_string();
    for error in unavailable(&cut_off, &format!("{third}:other")).await {
        let source = error.source().unwrap().to_string();
        assert!(source.starts_with(&silent), "{name}: {source}");
    }
    drop(held);
    wire.pass();
    until("it reaches the node again", CAP, async || {
        let other = cut_off.lock(format!("{third}:other")).wait(TIMEOUT);
        other.acquire().await.is_ok()
    })
    .await;
    for it in counting {
        it.goes_on("all count again").await;
        it.end().await;
    }
}

/// Clients hear all. The node refuses its locks after a while, and serves them again when it hears
/// the others; nobody had them meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_the_others_do_not_hear() {
    join_all(["no", "yes"].map(async |full_coverage| {
        let cluster = Cluster::start_as(3, |nth| {
            let node = Wires::node(nth).args(["--cluster-node-timeout", "1000"]);
            node.args(["--cluster-require-full-coverage", full_coverage])
        });
        let cluster = cluster.await;
        let wires = Wires::between(&cluster).await;
        let pools = [connect(&cluster).await, connect(&cluster).await];
        let keys = keys(&cluster, full_coverage).await;
        let held_key = format!("{}:held", keys[2]);
        let held = pools[0].lock(&*held_key).ttl(2 * CAP).wait(CAP);
        let held = held.acquire().await.unwrap();
        let counting: Vec<_> = keys
            .iter()
            .map(|key| Counting::start(key, &[&pools[0], &pools[1]]))
            .collect();
        for it in &counting {
            it.goes_on("all count").await;
        }
        wires.isolate(2);
        let is_down = async |node: usize| {
            let info: String = cluster.nodes[node].ask(&["CLUSTER", "INFO"]).await;
            info.contains("cluster_state:fail")
        };
        until("it is alone", CAP, async || {
            drop(in_time(&pools[0], &keys[2], TIMEOUT).await);
            is_down(2).await
        })
        .await;
        unavailable(&pools[0], &keys[2]).await;
        unavailable(&pools[1], &held_key).await;
        if full_coverage == "yes" {
            until("the others refuse, too", CAP, async || is_down(0).await).await;
            unavailable(&pools[0], &keys[0]).await;
        } else {
            for it in &counting[..2] {
                it.goes_on("the others go on").await;
            }
            assert!(is_down(2).await && !is_down(0).await);
        }
        assert!(held.is_held(), "its lease goes on");
        wires.heal();
        for it in counting {
            it.goes_on("all count again").await;
            it.end().await;
        }
        until("it is still held", CAP, async || {
            let taken = pools[1].lock(&*held_key).wait(TIMEOUT).acquire().await;
            let error = taken.map(drop).expect_err("somebody has it");
            matches!(error, LockError::Busy { .. }) && held.verify().await.is_ok()
        })
        .await;
    }))
    .await;
}

/// Its replica takes its place while it still answers. The resource accepts no count of two holders
/// at once, and each lock goes on at the new master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_the_others_do_not_hear_and_replace() {
    let down_after = Duration::from_secs(1);
    let cluster = Cluster::start_with_replicas_as(3, down_after, Wires::node).await;
    let wires = Wires::between(&cluster).await;
    let pools = [connect(&cluster).await, connect(&cluster).await];
    let keys = keys(&cluster, "replaced").await;
    let counting = keys.map(|key| Counting::start(&key, &[&pools[0], &pools[1]]));
    let is = async |node: usize, role: &str| {
        let info: String = cluster.nodes[node].ask(&["INFO", "replication"]).await;
        info.contains(&format!("role:{role}"))
    };
    let (old, new) = (2, 5);
    for it in &counting {
        it.goes_on("all count").await;
    }
    wires.isolate(old);
    until("another is the master", CAP, async || {
        is(new, "master").await
    })
    .await;
    for it in &counting {
        it.goes_on("all count at the new master").await;
    }
    wires.heal();
    until("it follows", CAP, async || is(old, "slave").await).await;
    cluster.replicated(new, old).await;
    for it in counting {
        it.goes_on("all count again").await;
        let refused = it.counts().await;
        println!("{refused} refused");
    }
}
