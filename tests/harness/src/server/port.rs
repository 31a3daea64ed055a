//! A free TCP port, claimed until its server or proxy is dropped and a while longer, below the range
//! from which the kernel takes the ports of outgoing connections.
//!
//! Pools that outlive their server a little, to clean up, would otherwise connect to the next test's.
//! No port comes twice in one process: tests know what was logged about their server by its address.
//!
//! `bind(0)` would pick from that range, with two surprises while a server is down for a restart:
//! any outgoing connection may take its port, and a client that retries on loopback can be
//! connected *to itself* (TCP's simultaneous open), and then reads its own requests.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Linux hands out 32768..=60999 by default.
const PORTS: Range<u16> = 20_000..32_000;

/// How long a port stays claimed afterwards. The watchdog of a pool that was closed cleans up for five
/// seconds.
const STAYS_CLAIMED: Duration = Duration::from_secs(10);

/// The claims of servers that have gone, the oldest first.
static GONE: Mutex<VecDeque<(Instant, UdpSocket)>> = Mutex::new(VecDeque::new());

static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that other tests, of this process or of another, leave alone while this lives.
///
/// The claim is a bind of the UDP port with the same number: it can be held while nothing listens
/// on the TCP port, as in an outage, and ends with the process.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) port: u16,
    /// `None` only while it is being dropped.
    namesake: Option<UdpSocket>,
}

impl Claim {
    /// `None`: another server has claimed it, though that may be down.
    pub(super) fn on(port: u16) -> Option<Self> {
        let namesake = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
        Some(Self {
            port,
            namesake: Some(namesake),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut gone = GONE.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        gone.extend(self.namesake.take().map(|it| (now, it)));
        let is_over = |it: &(Instant, UdpSocket)| now.duration_since(it.0) >= STAYS_CLAIMED;
        while gone.front().is_some_and(is_over) {
            gone.pop_front();
        }
    }
}

/// A listener at a claimed port.
pub(crate) fn listener() -> (TcpListener, Claim) {
    loop {
        let claim = free();
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, claim.port)) {
            return (listener, claim);
        }
    }
}

/// A port on which nothing listened a moment ago.
pub(super) fn free() -> Claim {
    for _ in 0..1000 {
        let port = random_port();
        let mut handed_out = HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner);
        if handed_out.insert(port)
            && let Some(claim) = Claim::on(port)
            && TcpListener::bind((Ipv4Addr::LOCALHOST, claim.port)).is_ok()
        {
            return claim;
        }
    }
    panic!("no free port in {PORTS:?}")
}

fn random_port() -> u16 {
    // Each `RandomState` has fresh keys: the hash of nothing is a random number.
    let random = RandomState::new().build_hasher().finish();
    let span = u64::from(PORTS.end - PORTS.start);
    PORTS.start + u16::try_from(random % span).expect("the span is a u16")
}
