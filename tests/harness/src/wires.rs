//! The wires between the nodes of a cluster, for a node that the others don't hear while clients
//! hear all.
//!
//! Each node has a relay before the port of its bus. A relay knows who connects by the address that
//! the nodes connect from: 127.0.0.10 is the first one's, and so on.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::server::port::{self, Claim};
use crate::server::{Builder, RedisServer};
use crate::wait::until;

const CAP: Duration = Duration::from_secs(60);

const FIRST: u8 = 10;

/// Running relays. Dropping them cuts all.
#[derive(Debug)]
#[must_use = "dropping it cuts all wires"]
pub struct Wires {
    relays: Vec<(SocketAddr, Claim)>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The nodes that neither hear the others nor are heard.
    alone: BTreeSet<usize>,
    /// The connections: the two nodes, and both streams.
    live: Vec<([usize; 2], [TcpStream; 2])>,
}

impl Wires {
    /// A node for [`between`](Self::between), to start a cluster of.
    pub fn node(nth: usize) -> Builder {
        let from = Ipv4Addr::new(127, 0, 0, FIRST + u8::try_from(nth).expect("a few nodes"));
        RedisServer::builder()
            .args(["--bind-source-addr", &from.to_string()])
            .args(["--cluster-announce-ip", "127.0.0.1"])
            // Which takes 127.0.0.11 for a stranger; a server listens on 127.0.0.1 only.
            .args(["--protected-mode", "no"])
    }

    /// Puts the relays before the nodes, and returns once all nodes use them.
    pub async fn between(cluster: &Cluster) -> Self {
        let shared = Arc::<Shared>::default();
        let mut relays = Vec::new();
        for (to, node) in cluster.nodes.iter().enumerate() {
            let (listener, claim) = port::listener();
            let addr = listener.local_addr().expect("the address just bound");
            let bus = SocketAddr::from((Ipv4Addr::LOCALHOST, node.port() + 10_000));
            let serving = shared.clone();
            thread::spawn(move || serving.serve(&listener, to, bus));
            relays.push((addr, claim));
            let port = addr.port().to_string();
            node.cmd(&["CONFIG", "SET", "cluster-announce-bus-port", &port])
                .await;
        }
        let ports: Vec<_> = relays.iter().map(|(addr, _)| addr.port()).collect();
        until("the nodes use their relays", CAP, async || {
            for node in &cluster.nodes {
                let nodes: String = node.ask(&["CLUSTER", "NODES"]).await;
                let is_there = |port: &u16| nodes.contains(&format!("@{port}"));
                if !ports.iter().all(is_there) || nodes.contains("disconnected") {
                    return false;
                }
            }
            true
        })
        .await;
        Self { relays, shared }
    }

    /// Cuts this node off from the others.
    pub fn isolate(&self, node: usize) {
        let mut state = self.shared.state.lock().unwrap();
        state.alone.insert(node);
        state.live.retain(|(nodes, streams)| {
            let stays = !nodes.contains(&node);
            if !stays {
                streams.iter().for_each(end);
            }
            stays
        });
    }

    /// All hear each other again.
    pub fn heal(&self) {
        self.shared.state.lock().unwrap().alone.clear();
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        for (addr, _) in &self.relays {
            drop(TcpStream::connect(addr)); // wakes the listener
        }
        let state = self.shared.state.lock().unwrap();
        let streams = state.live.iter().flat_map(|(_, streams)| streams);
        streams.for_each(end);
    }
}

impl Shared {
    fn serve(&self, listener: &TcpListener, to: usize, bus: SocketAddr) {
        while let Ok((from, peer)) = listener.accept() {
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            let IpAddr::V4(ip) = peer.ip() else { continue };
            let nodes = [usize::from(ip.octets()[3].saturating_sub(FIRST)), to];
            let mut state = self.state.lock().unwrap();
            if nodes.iter().any(|node| state.alone.contains(node)) {
                continue; // dropping `from` closes it
            }
            let Ok(node) = TcpStream::connect(bus) else {
                continue;
            };
            let clone = |stream: &TcpStream| stream.try_clone().expect("a handle");
            for (from, to) in [(clone(&from), clone(&node)), (clone(&node), clone(&from))] {
                thread::spawn(move || {
                    let _ = io::copy(&mut &from, &mut &to); // until one of them ends
                    [from, to].iter().for_each(end);
                });
            }
            state.live.push((nodes, [from, node]));
        }
    }
}

fn end(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both); // the other side may have done it
}
