//! Tasks that take and release locks of all kinds in all ways, and a judge that checks their holds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlock_runtime::{LockGuard, LockPool, LockRequest, Wait};
use dlock_tests::{Seeded, of_kind};
use redis::aio::MultiplexedConnection;

use crate::forge::pick;
use crate::lab::{LONG, Lab, counter_at, ms};

/// The keys, and the kinds that are asked for at each.
pub(crate) const KEYS: [(&str, &[&str]); 5] = [
    ("x0", &["x"]),
    ("x1", &["x", "fair"]),
    ("rw", &["r", "w"]),
    ("p", &["p:1/2", "p:2/2"]),
    ("o", &["o:a", "o:b"]),
];

/// The current holds, as the holders themselves see them.
#[derive(Default)]
pub(crate) struct Judge {
    bodies: Mutex<[Vec<&'static str>; KEYS.len()]>,
    last_fence: [AtomicU64; KEYS.len()],
    pub(crate) held: AtomicU64,
}

impl Judge {
    fn begins(&self, key: usize, kind: &'static str, fence: u64) {
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let beside = &mut bodies[key];
        assert!(
            fits(beside, kind),
            "{}: {kind} beside {beside:?}",
            KEYS[key].0
        );
        beside.push(kind);
        if ["x", "fair", "w"].contains(&kind) {
            let before = self.last_fence[key].swap(fence, Ordering::SeqCst);
            assert!(before < fence, "{}: {fence} after {before}", KEYS[key].0);
        }
        self.held.fetch_add(1, Ordering::SeqCst);
    }

    fn ends(&self, key: usize, kind: &'static str) {
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let at = bodies[key].iter().position(|it| *it == kind).unwrap();
        bodies[key].swap_remove(at);
    }
}

fn fits(beside: &[&str], kind: &str) -> bool {
    let permits = |kind: &str| match kind.strip_prefix("p:") {
        Some(permits) => permits[..1].parse().unwrap(),
        None => 0_u32,
    };
    match kind.as_bytes()[0] {
        b'r' | b'o' => beside.iter().all(|it| *it == kind),
        b'p' => beside.iter().map(|it| permits(it)).sum::<u32>() + permits(kind) <= 2,
        _ => beside.is_empty(),
    }
}

/// One task that takes locks until it is told to end.
pub(crate) struct Life {
    pub(crate) judge: Arc<Judge>,
    pub(crate) ends: Arc<AtomicBool>,
    pub(crate) pool: LockPool,
    lab: Arc<Lab>,
    servers: Vec<MultiplexedConnection>,
    /// The keys and their kinds, as far as this lab offers them.
    keys: Vec<(usize, Vec<&'static str>)>,
    seeded: Seeded,
}

impl Life {
    pub(crate) async fn new(
        lab: &Arc<Lab>,
        pool: &LockPool,
        (judge, ends): (&Arc<Judge>, &Arc<AtomicBool>),
        seed: u64,
    ) -> Self {
        let mut servers = Vec::new();
        for server in &lab.servers {
            servers.push(server.connect().await);
        }
        let offered = |(key, (_, kinds)): (usize, &(_, &[&'static str]))| {
            let kinds = kinds.iter().copied().filter(|kind| lab.offers(kind));
            (key, kinds.collect::<Vec<_>>())
        };
        let keys = KEYS.iter().enumerate().map(offered);
        Self {
            judge: judge.clone(),
            ends: ends.clone(),
            pool: pool.clone(),
            lab: lab.clone(),
            servers,
            keys: keys.filter(|(_, kinds)| !kinds.is_empty()).collect(),
            seeded: Seeded(seed),
        }
    }

    pub(crate) async fn live(mut self) {
        while !self.ends.load(Ordering::SeqCst) {
            let (key, kinds) = pick(&mut self.seeded, &self.keys).clone();
            let kind = *pick(&mut self.seeded, &kinds);
            let request = self.lab.lock(&self.pool, KEYS[key].0, LONG);
            let request = of_kind(request.wait(LONG), kind);
            let hold = ms(self.seeded.between(0, 6));
            match self.seeded.between(0, 12) {
                0 => self.gives_up(request, hold, key, kind).await,
                1 => {
                    if let Ok(guard) = request.wait(Wait::Once).acquire().await {
                        self.body(&guard, hold, key, kind).await;
                        guard.release().await.unwrap();
                    }
                }
                2 => {
                    let guard = request.acquire().await.unwrap();
                    self.body(&guard, hold, key, kind).await;
                    drop(guard); // the watchdog cleans up
                }
                3 => {
                    let renewed = request.ttl(ms(3000)).renew_every(ms(20));
                    let guard = renewed.acquire().await.unwrap();
                    self.body(&guard, ms(60), key, kind).await;
                    guard.release().await.unwrap();
                }
                _ => {
                    let guard = request.acquire().await.unwrap();
                    self.body(&guard, hold, key, kind).await;
                    guard.release().await.unwrap();
                }
            }
        }
    }

    /// Gives up a request, perhaps when it has the lock already.
    async fn gives_up(
        &mut self,
        request: LockRequest,
        after: Duration,
        key: usize,
        kind: &'static str,
    ) {
        if let Ok(guard) = tokio::time::timeout(after, request.acquire()).await {
            let guard = guard.unwrap();
            self.body(&guard, Duration::ZERO, key, kind).await;
        }
    }

    async fn body(&mut self, guard: &LockGuard, hold: Duration, key: usize, kind: &'static str) {
        let fence = guard.fence().get();
        self.judge.begins(key, kind, fence);
        let mut counter = 0;
        for server in &mut self.servers {
            counter = counter.max(counter_at(server).await);
        }
        assert!(
            fence >> 10 <= counter,
            "{kind}: the fence {fence} is above the servers' own, {counter}"
        );
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        assert!(guard.is_held(), "{kind}: lost");
        guard.verify().await.unwrap();
        self.judge.ends(key, kind);
    }
}
