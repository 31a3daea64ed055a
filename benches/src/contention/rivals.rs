//! The contenders for one key, named by words on a player's command line: how each waits, and where
//! a turn begins and ends.

use std::time::Duration;

use dlock_runtime::{Config, LockError, LockPool, distributed_lock};
use tokio::time::sleep;

use crate::Failure;
use crate::contenders::TTL;
use crate::contenders::ours;
use crate::contenders::peer::{self, Peer};
use crate::contenders::raw::{self, Raw};
use crate::part::now;

const KEY: &str = "turn";

/// One contender, which has a row of the table.
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The commands that its client sends, named as in INFO.
    pub(crate) sends: &'static [&'static str],
    /// `DLOCK_…` variables for its processes, which change dlock's defaults.
    pub(crate) settings: &'static [(&'static str, &'static str)],
}

/// The first is the divisor of the others' ratios.
pub(crate) const ALL: [Rival; 5] = [
    Rival {
        name: "raw, polling each 1–5 ms",
        kind: Kind::Polling,
        sends: raw::SENDS,
        settings: &[],
    },
    Rival {
        name: "rslock, default delay (0–200 ms)",
        kind: Kind::Peer,
        sends: peer::SENDS,
        settings: &[],
    },
    Rival {
        name: "rslock, delay 0–5 ms",
        kind: Kind::TunedPeer,
        sends: peer::SENDS,
        settings: &[],
    },
    Rival {
        name: "dlock, each turn by the server",
        kind: Kind::Ours,
        sends: ours::SENDS,
        settings: &[("DLOCK_LOCAL_HANDOFF", "0")],
    },
    Rival {
        name: "dlock",
        kind: Kind::Ours,
        sends: ours::SENDS,
        settings: &[],
    },
];

/// Each waiter has its own entry in the server's queue; without `fair` each process has one.
const FAIR: Rival = Rival {
    name: "dlock, fair",
    kind: Kind::Fair,
    sends: ours::SENDS,
    settings: &[],
};

/// The one that is measured at other servers.
pub(crate) const OURS: &Rival = &ALL[4];

/// The rivals that are measured with more waiters.
pub(crate) fn of_growth() -> impl Iterator<Item = &'static Rival> {
    let ours = ALL.iter().filter(|rival| rival.kind == Kind::Ours);
    ours.chain([&FAIR])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Polling,
    Peer,
    TunedPeer,
    Ours,
    Fair,
}

impl Kind {
    pub(crate) const WORDS: [(&'static str, Self); 5] = [
        ("polling", Self::Polling),
        ("peer", Self::Peer),
        ("tuned-peer", Self::TunedPeer),
        ("ours", Self::Ours),
        ("fair", Self::Fair),
    ];

    pub(crate) async fn connect(self, url: &str) -> Result<Hand, Failure> {
        Ok(match self {
            Self::Polling => Hand::Polling(Raw::connect(url, TTL).await?),
            Self::Peer => Hand::Peer(Peer::new(url)),
            Self::TunedPeer => {
                let mut peer = Peer::new(url);
                peer.0.set_retry(3, Duration::from_millis(5));
                Hand::Peer(peer)
            }
            Self::Ours => Hand::Ours(pool().await?),
            Self::Fair => Hand::Fair(pool().await?),
        })
    }
}

async fn pool() -> Result<LockPool, Failure> {
    Ok(LockPool::connect(ours::patient(Config::from_env()?)).await?)
}

/// A process's client; its tasks share the connection.
#[derive(Clone)]
pub(crate) enum Hand {
    Polling(Raw),
    Peer(Peer),
    Ours(LockPool),
    Fair(LockPool),
}

/// When the lock was held.
pub(crate) struct Held {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) fence: u64,
}

impl Hand {
    /// Waits for the lock, holds it for this long and releases it.
    pub(crate) async fn turn(&mut self, hold: Duration) -> Result<Held, Failure> {
        match self {
            Self::Polling(raw) => {
                let token = loop {
                    match raw.try_acquire(KEY).await? {
                        Some(token) => break token,
                        None => sleep(Duration::from_millis(fastrand::u64(1..=5))).await,
                    }
                };
                let had = Held::during(hold, 0).await;
                raw.release(KEY, &token).await?;
                Ok(had)
            }
            Self::Peer(peer) => {
                let guard = peer.0.acquire(KEY, TTL).await?;
                let had = Held::during(hold, 0).await;
                guard.release().await;
                Ok(had)
            }
            Self::Ours(pool) => Ok(turn(pool, hold).await?),
            Self::Fair(pool) => Ok(fair_turn(pool, hold).await?),
        }
    }
}

#[distributed_lock(key = "turn", ttl = "10s", renew, wait = "forever", guard = lock, pool = pool)]
async fn turn(pool: &LockPool, hold: Duration) -> Result<Held, LockError> {
    Ok(Held::during(hold, lock.fence().get()).await)
}

#[distributed_lock(key = "turn", ttl = "10s", renew, wait = "forever", fair, guard = lock, pool = pool)]
async fn fair_turn(pool: &LockPool, hold: Duration) -> Result<Held, LockError> {
    Ok(Held::during(hold, lock.fence().get()).await)
}

impl Held {
    async fn during(hold: Duration, fence: u64) -> Self {
        let begin = now();
        if !hold.is_zero() {
            sleep(hold).await;
        }
        Self {
            begin,
            end: now(),
            fence,
        }
    }
}
