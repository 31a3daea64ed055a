//! A server as a proxy that shards behind one address shows it: it says that it is a single server,
//! and refuses commands with keys of several hash slots.
//!
//! It is a cluster of one node, behind a relay that changes one word of `HELLO`'s answer.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::server::RedisServer;
use crate::server::port::{self, Claim};
use crate::wait::until;

const CAP: Duration = Duration::from_secs(30);

const CLUSTER: &[u8] = b"$4\r\nmode\r\n$7\r\ncluster\r\n";
const SINGLE: &[u8] = b"$4\r\nmode\r\n$10\r\nstandalone\r\n";

/// A running server and its relay.
#[derive(Debug)]
#[must_use = "dropping it kills the server"]
pub struct Sharded {
    /// Without the relay.
    pub server: RedisServer,
    addr: SocketAddr,
    ended: Arc<AtomicBool>,
    _claim: Claim,
}

impl Sharded {
    /// Returns once the server has all slots.
    pub async fn start() -> Self {
        let server = RedisServer::builder().args(["--cluster-enabled", "yes"]);
        let server = server.start();
        let slots: Vec<String> = (0..16_384).map(|slot: u16| slot.to_string()).collect();
        let slots = slots.iter().map(String::as_str);
        let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots).collect();
        server.cmd(&words).await;
        until("the cluster accepts commands", CAP, async || {
            let info: String = server.ask(&["CLUSTER", "INFO"]).await;
            info.contains("cluster_state:ok")
        })
        .await;
        let (listener, claim) = port::listener();
        let addr = listener.local_addr().expect("the address just bound");
        let (upstream, ended) = (server.addr(), Arc::<AtomicBool>::default());
        let stop = ended.clone();
        thread::spawn(move || serve(&listener, upstream, &stop));
        Self {
            server,
            addr,
            ended,
            _claim: claim,
        }
    }

    /// The address of the relay.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `redis://127.0.0.1:port` of the relay.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }
}

impl Drop for Sharded {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.addr)); // wakes the listener
    }
}

fn serve(listener: &TcpListener, upstream: SocketAddr, ended: &AtomicBool) {
    for client in listener.incoming().flatten() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let Ok(server) = TcpStream::connect(upstream) else {
            continue; // dropping `client` closes it
        };
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("a TCP stream");
        }
        let (from, to) = (clone(&client), clone(&server));
        thread::spawn(move || forward(from, to, |bytes| Some(std::mem::take(bytes))));
        thread::spawn(move || forward(server, client, say_single));
    }
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a second handle")
}

/// Forwards until one side ends, then closes both. `pass`: what may be sent on of the bytes so far.
fn forward(mut from: TcpStream, mut to: TcpStream, pass: impl Fn(&mut Vec<u8>) -> Option<Vec<u8>>) {
    let (mut room, mut held) = ([0; 16 * 1024], Vec::new());
    while let Ok(read @ 1..) = from.read(&mut room) {
        held.extend_from_slice(&room[..read]);
        if let Some(passed) = pass(&mut held)
            && to.write_all(&passed).is_err()
        {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both); // fails if it is closed
    }
}

/// Holds back what may be the beginning of the words to change.
fn say_single(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let is_partial = (1..CLUSTER.len()).any(|most| bytes.ends_with(&CLUSTER[..most]));
    if is_partial && !bytes.ends_with(b"\r\n") {
        return None;
    }
    let mut bytes = std::mem::take(bytes);
    let found = bytes.windows(CLUSTER.len()).position(|it| it == CLUSTER);
    if let Some(at) = found {
        bytes.splice(at..at + CLUSTER.len(), SINGLE.iter().copied());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::Sharded;

    #[tokio::test]
    async fn it_says_that_it_is_single_and_refuses_several_slots() {
        let sharded = Sharded::start().await;
        let client = redis::Client::open(sharded.url()).expect("a URL");
        let mut connection = client.get_multiplexed_async_connection().await.expect("up");
        let hello: Vec<redis::Value> = redis::cmd("HELLO")
            .query_async(&mut connection)
            .await
            .expect("an answer");
        assert!(format!("{hello:?}").contains("standalone"), "{hello:?}");
        let both: Result<(), _> = redis::cmd("MSET")
            .arg(&["a", "1", "b", "2"])
            .query_async(&mut connection)
            .await;
        let refused = both.expect_err("two slots").to_string();
        assert!(refused.contains("same slot"), "{refused}");
    }
}
