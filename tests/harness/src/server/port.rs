//! A free TCP port, claimed until its server is dropped, below the range from which the kernel
//! takes the ports of outgoing connections.
//!
//! `bind(0)` would pick from that range, with two surprises while a server is down for a restart:
//! any outgoing connection may take its port, and a client that retries on loopback can be
//! connected *to itself* (TCP's simultaneous open), and then reads its own requests.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;

/// Linux hands out 32768..=60999 by default.
const PORTS: Range<u16> = 20_000..32_000;

/// A port that other tests, of this process or of another, leave alone while this lives.
///
/// The claim is a bind of the UDP port with the same number: it can be held while nothing listens
/// on the TCP port, as in an outage, and ends with the process.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) port: u16,
    _namesake: UdpSocket,
}

impl Claim {
    /// `None`: another server has claimed it, though that may be down.
    pub(super) fn on(port: u16) -> Option<Self> {
        let namesake = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
        Some(Self {
            port,
            _namesake: namesake,
        })
    }
}

/// A port on which nothing listened a moment ago.
pub(super) fn free() -> Claim {
    for _ in 0..1000 {
        let claim = Claim::on(random_port());
        if let Some(claim) = claim
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
