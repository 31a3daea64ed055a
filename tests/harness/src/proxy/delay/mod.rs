//! A wire that is only long: it delays every chunk of bytes by a constant time, and does nothing
//! else.
//!
//! Each direction has a thread that reads and one that sleeps and writes, so several chunks are
//! under way at a time: bytes that arrive while others are delayed are not delayed for longer (with
//! [`Proxy::delay`](super::Proxy::delay) they are). Bytes keep their order, and neither direction
//! waits for the other. There is no bandwidth limit and no loss; connecting takes no time.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::server::port::{self, Claim};

/// A running delay proxy. Dropping it closes every connection.
#[must_use = "dropping it closes every connection"]
#[derive(Debug)]
pub struct DelayProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    _claim: Claim,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    each_way: Duration,
    ended: AtomicBool,
    /// Both sides of every connection, to be closed at the end.
    sockets: Mutex<Vec<TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl DelayProxy {
    /// Starts a proxy to `upstream` that delays each way by `each_way`: a round trip takes twice as
    /// long.
    pub fn start(upstream: SocketAddr, each_way: Duration) -> Self {
        let (listener, claim) = port::listener();
        let addr = listener.local_addr().expect("the address just bound");
        let shared = Arc::new(Shared {
            upstream,
            each_way,
            ended: AtomicBool::new(false),
            sockets: Mutex::default(),
            threads: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accepting.accept(&listener));
        Self {
            addr,
            shared,
            acceptor: Some(acceptor),
            _claim: claim,
        }
    }

    /// `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// The address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Shared {
    fn accept(&self, listener: &TcpListener) {
        for client in listener.incoming() {
            let client = client.expect("accept");
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            // Nothing listens at the upstream address: the client sees its connection close.
            if let Ok(upstream) = TcpStream::connect(self.upstream) {
                self.serve(&client, &upstream);
            }
        }
    }

    fn serve(&self, client: &TcpStream, upstream: &TcpStream) {
        for (from, to) in [(client, upstream), (upstream, client)] {
            to.set_nodelay(true).expect("an own socket");
            let (from, to) = (clone(from), clone(to));
            self.sockets.lock().unwrap().push(clone(&from));
            let (sender, receiver) = mpsc::channel();
            let each_way = self.each_way;
            let mut threads = self.threads.lock().unwrap();
            threads.push(thread::spawn(move || read(from, each_way, &sender)));
            threads.push(thread::spawn(move || write(to, &receiver)));
        }
    }
}

impl Drop for DelayProxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.addr);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for socket in self.shared.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both); // the other side may have closed it
        }
        for thread in self.shared.threads.lock().unwrap().drain(..) {
            let _ = thread.join(); // its panic is on stderr
        }
    }
}

/// Bytes, and when to write them.
type Chunk = (Instant, Vec<u8>);

/// Reads until one side ends.
fn read(mut from: TcpStream, each_way: Duration, chunks: &Sender<Chunk>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let chunk = (Instant::now() + each_way, buffer[..length].to_vec());
        if chunks.send(chunk).is_err() {
            return;
        }
    }
}

/// Writes until the reader has ended and everything is written.
fn write(mut to: TcpStream, chunks: &Receiver<Chunk>) {
    // Without this the kernel may let a sleep last 50 µs longer.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    for (due, bytes) in chunks {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn clone(socket: &TcpStream) -> TcpStream {
    socket.try_clone().expect("a file descriptor")
}

#[cfg(test)]
mod tests;
