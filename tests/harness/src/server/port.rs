//! A free TCP port, below the range from which the kernel takes the ports of outgoing connections.
//!
//! `bind(0)` would pick from that range, with two surprises while a server is down for a restart: any outgoing connection may take its
//! port, and a client that retries on loopback can be connected *to itself* (TCP's simultaneous open), and then hears its own requests.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Linux hands out 32768..=60999 by default.
const PORTS: Range<u16> = 20_000..32_000;

/// A port that nobody listened on a moment ago.
pub(super) fn free() -> u16 {
    for _ in 0..1000 {
        let port = random_port();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
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
