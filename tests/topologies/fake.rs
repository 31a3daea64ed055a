//! Sentinels that are not what they should be.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fake {
    /// Accepts and never says anything.
    Silent,
    /// Closes each connection at once.
    Closing,
    /// One text that does not end.
    Endless,
    /// A list in a list in a list …
    Nested,
    /// A list that is said to have two thousand million items.
    Huge,
    /// Answers, and pushes the same message without a pause.
    Flooding,
    /// Names another port each time.
    Changing,
    /// Names a host that does not exist.
    Nowhere,
    /// Names a port that there can't be.
    Impossible,
    /// Names a port at which nobody can listen.
    Zero,
}

pub(crate) const ALL: [Fake; 10] = [
    Fake::Silent,
    Fake::Closing,
    Fake::Endless,
    Fake::Nested,
    Fake::Huge,
    Fake::Flooding,
    Fake::Changing,
    Fake::Nowhere,
    Fake::Impossible,
    Fake::Zero,
];

/// A running one; it ends with the last of its connections after this is dropped.
pub(crate) struct FakeSentinel {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    /// What one connection took at most, in bytes.
    most: AtomicU64,
}

impl FakeSentinel {
    pub(crate) fn start(fake: Fake) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let serving = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.ended.load(Ordering::Relaxed) {
                    return;
                }
                let serving = serving.clone();
                thread::spawn(move || serve(fake, stream, &serving));
            }
        });
        Self { addr, shared }
    }

    /// What one connection took at most, in bytes; the system's buffers take some MiB of it.
    pub(crate) fn most_taken(&self) -> u64 {
        self.shared.most.load(Ordering::Relaxed)
    }
}

impl Drop for FakeSentinel {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.addr)); // wakes the listener
    }
}

fn serve(fake: Fake, mut stream: TcpStream, shared: &Shared) {
    if fake == Fake::Closing {
        return;
    }
    let mut room = [0; 4096];
    let mut taken = 0;
    while let Ok(read @ 1..) = stream.read(&mut room) {
        let asked = String::from_utf8_lossy(&room[..read]).to_uppercase();
        let (first, endless) = answer(fake, &asked);
        let chunk = endless.repeat(8192 / endless.len().max(1));
        let mut said = stream.write_all(first.as_bytes());
        while said.is_ok() && !chunk.is_empty() && !shared.ended.load(Ordering::Relaxed) {
            taken += u64::try_from(chunk.len()).unwrap();
            shared.most.fetch_max(taken, Ordering::Relaxed);
            said = stream.write_all(chunk.as_bytes());
        }
        if said.is_err() {
            return;
        }
    }
}

/// The answer, and what is repeated behind it for ever.
fn answer(fake: Fake, asked: &str) -> (String, &'static str) {
    match fake {
        Fake::Silent | Fake::Closing => (String::new(), ""),
        Fake::Endless => ("$2000000000\r\n".to_owned(), "x"),
        Fake::Nested => (String::new(), "*1\r\n"),
        Fake::Huge => ("*2000000000\r\n".to_owned(), ":1\r\n"),
        Fake::Flooding if asked.contains("SUBSCRIBE") => (
            as_sentinel(asked, "127.0.0.1", "1"),
            ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$30\r\nlocks 127.0.0.1 1 127.0.0.1 22\r\n",
        ),
        Fake::Flooding => (as_sentinel(asked, "127.0.0.1", "1"), ""),
        Fake::Changing => {
            static PORT: AtomicU16 = AtomicU16::new(1);
            let port = PORT.fetch_add(1, Ordering::Relaxed).to_string();
            (as_sentinel(asked, "127.0.0.1", &port), "")
        }
        Fake::Nowhere => (as_sentinel(asked, "locks.invalid", "6379"), ""),
        Fake::Zero => (as_sentinel(asked, "127.0.0.1", "0"), ""),
        Fake::Impossible => (as_sentinel(asked, "127.0.0.1", "65536"), ""),
    }
}

fn as_sentinel(asked: &str, host: &str, port: &str) -> String {
    let mut said = String::new();
    if asked.contains("HELLO") {
        said += "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n";
    }
    if asked.contains("GET-MASTER-ADDR") {
        said += "*2\r\n";
        for word in [host, port] {
            let _ = write!(said, "${}\r\n{word}\r\n", word.len()); // a `String` takes everything
        }
    }
    if asked.contains("SUBSCRIBE") {
        said += ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
    }
    if asked.contains("PING") {
        said += "+PONG\r\n";
    }
    said
}
