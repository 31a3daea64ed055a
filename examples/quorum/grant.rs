//! Records one grant: a pool talks to three nodes through proxies, of which the third is slow.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dlock_runtime::LockPool;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::{Failure, config};

/// How long the way to the slow node takes, and the way back.
const SLOW: Duration = Duration::from_millis(2);

/// The lock is held until the late vote is there, but no longer than this.
const HELD_AT_MOST: Duration = Duration::from_millis(500);

const TRIES: usize = 20;

/// One grant; all times since the pool was asked.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) nodes: Vec<Node>,
    pub(crate) granted: Duration,
    pub(crate) until: Duration,
}

/// What passed between the pool and a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Node {
    /// The ballot left the pool.
    pub(crate) sent: Option<Duration>,
    /// It reached the node.
    pub(crate) reached: Option<Duration>,
    /// The node answered, with this epoch.
    pub(crate) voted: Option<(Duration, u64)>,
    /// The vote reached the pool.
    pub(crate) arrived: Option<Duration>,
}

/// Takes a lock at these nodes some times, and returns the grant that took the shortest: others may
/// show what else the machine did.
pub(crate) async fn record(addresses: &[String]) -> Result<Grant, Failure> {
    let mut proxies = Vec::new();
    for (at, address) in addresses.iter().enumerate() {
        let is_last = at + 1 == addresses.len();
        let delay = if is_last { SLOW } else { Duration::ZERO };
        proxies.push(Proxy::start(address.clone(), delay).await?);
    }
    let hosts: Vec<_> = proxies.iter().map(|it| it.address.clone()).collect();
    let url = format!("redlock://{}", hosts.join(","));
    let pool = LockPool::connect(config(&url).namespace("picture:")).await?;
    let mut grants = Vec::new();
    for _ in 0..TRIES {
        grants.extend(one(&pool, &proxies).await?);
        sleep(10 * SLOW).await; // the release at the slow node
    }
    let shortest = grants.into_iter().min_by_key(|it| it.until);
    shortest.ok_or_else(|| "not all nodes voted".into())
}

/// `None`: not all nodes voted in time.
async fn one(pool: &LockPool, proxies: &[Proxy]) -> Result<Option<Grant>, Failure> {
    let asked = Instant::now();
    for proxy in proxies {
        proxy.begin(asked);
    }
    let lock = pool.lock("item").acquire().await?;
    let granted = asked.elapsed();
    while asked.elapsed() < HELD_AT_MOST && !proxies.iter().all(Proxy::is_complete) {
        sleep(Duration::from_millis(1)).await;
    }
    let until = asked.elapsed();
    let is_complete = proxies.iter().all(Proxy::is_complete);
    let nodes = proxies.iter().map(Proxy::end).collect();
    lock.release().await?;
    Ok(is_complete.then_some(Grant {
        nodes,
        granted,
        until,
    }))
}

/// Passes on what a pool and its node say, and notes when the first ballot passed.
struct Proxy {
    address: String,
    seen: Arc<Mutex<Option<Seen>>>,
}

#[derive(Clone, Copy)]
struct Seen {
    began: Instant,
    node: Node,
}

impl Proxy {
    async fn start(server: String, delay: Duration) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let seen = Arc::new(Mutex::new(None));
        let notes = seen.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else {
                    return;
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let there = pass(from_client, to_server, delay, notes.clone(), ballot);
                tokio::spawn(there);
                let back = pass(from_server, to_client, delay, notes.clone(), vote);
                tokio::spawn(back);
            }
        });
        Ok(Self { address, seen })
    }

    fn begin(&self, began: Instant) {
        let node = Node::default();
        *lock(&self.seen) = Some(Seen { began, node });
    }

    fn is_complete(&self) -> bool {
        lock(&self.seen).is_some_and(|it| it.node.arrived.is_some())
    }

    fn end(&self) -> Node {
        lock(&self.seen)
            .take()
            .map(|it| it.node)
            .unwrap_or_default()
    }
}

type Notes = Arc<Mutex<Option<Seen>>>;

fn lock(notes: &Notes) -> std::sync::MutexGuard<'_, Option<Seen>> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes bytes on, each `delay` later. `note` is told when they came, and when they left.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
    notes: Notes,
    note: fn(&mut Node, &str, When, Duration),
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let passed = bytes.get(..length).unwrap_or_default();
        let text = String::from_utf8_lossy(passed).into_owned();
        let tell = |when| {
            if let Some(seen) = lock(&notes).as_mut() {
                note(&mut seen.node, &text, when, seen.began.elapsed());
            }
        };
        tell(When::Came);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        tell(When::Left);
        if to.write_all(passed).await.is_err() {
            return;
        }
    }
}

#[derive(Clone, Copy)]
enum When {
    Came,
    Left,
}

/// A script's operation `v` asks for a vote.
fn ballot(node: &mut Node, text: &str, when: When, at: Duration) {
    if text.contains("\r\nv\r\n") {
        match when {
            When::Came => node.sent.get_or_insert(at),
            When::Left => node.reached.get_or_insert(at),
        };
    }
}

/// The reply is an array of the node's time and the epoch that it drew.
fn vote(node: &mut Node, text: &str, when: When, at: Duration) {
    let epoch = text.lines().nth(2).and_then(|it| it.strip_prefix(':'));
    let epoch = epoch.and_then(|it| it.parse().ok());
    // A release is answered by 0 or 1. That of the lock before may still be on its way.
    let Some(epoch) = epoch.filter(|it| *it > 1) else {
        return;
    };
    if node.reached.is_some() {
        match when {
            When::Came => drop(node.voted.get_or_insert((at, epoch))),
            When::Left if node.voted.is_some_and(|(_, it)| it == epoch) => {
                node.arrived.get_or_insert(at);
            }
            When::Left => {}
        }
    }
}
