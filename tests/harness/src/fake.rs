//! A server that answers what a test wants. It keeps no data, and grants nothing.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::resp::{Splitter, words};

/// The answer to a request; an empty one is none.
#[derive(Debug)]
pub enum Says {
    /// This, and no more.
    This(String),
    /// This, and then the same again and again, until the client has enough.
    Endless(String, &'static str),
    /// The connection ends.
    Bye,
}

type Answers = dyn Fn(&str) -> Says + Send + Sync;

/// Its port is closed with it, and so are its connections.
pub struct Fake {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// Without any, each connection is closed at once.
    answers: Option<Box<Answers>>,
    ended: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
    accepted: AtomicU64,
    #[cfg(not(target_os = "linux"))]
    open: AtomicU64,
    asked: AtomicU64,
    most: AtomicU64,
}

impl Fake {
    /// `answers`: to a request, which is its words, separated by spaces.
    pub fn start(answers: impl Fn(&str) -> Says + Send + Sync + 'static) -> Self {
        Self::at(listener(), answers)
    }

    /// As [`start`](Self::start), for a test that has to know the port before.
    pub fn at(
        listener: TcpListener,
        answers: impl Fn(&str) -> Says + Send + Sync + 'static,
    ) -> Self {
        Self::serving(listener, Some(Box::new(answers)))
    }

    /// Closes each connection at once.
    #[must_use]
    pub fn closing() -> Self {
        Self::serving(listener(), None)
    }

    fn serving(listener: TcpListener, answers: Option<Box<Answers>>) -> Self {
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answers,
            ended: AtomicBool::new(false),
            streams: Mutex::default(),
            accepted: AtomicU64::new(0),
            #[cfg(not(target_os = "linux"))]
            open: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            most: AtomicU64::new(0),
        });
        let serving = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.ended.load(Ordering::SeqCst) {
                    return;
                }
                serving.accepted.fetch_add(1, Ordering::SeqCst);
                if serving.answers.is_none() {
                    continue;
                }
                let clone = stream.try_clone().unwrap();
                serving.streams.lock().unwrap().push(clone);
                let serving = serving.clone();
                thread::spawn(move || serving.serve(stream));
            }
        });
        Self { addr, shared }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of a plain server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// How many connections it has accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The connections that the clients have not closed: as the system sees them, because on a busy
    /// machine the fake's own threads notice an end late.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn open(&self) -> u64 {
        let port = format!(":{:04X}", self.addr.port());
        let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let is_open = |line: &&str| {
            let mut words = line.split_whitespace().skip(2); // behind the number and the own address
            let is_here = words.next().is_some_and(|it| it.ends_with(&port));
            is_here && words.next() == Some("01") // established
        };
        sockets.lines().filter(is_open).count() as u64
    }

    /// The connections that the clients have not closed.
    #[cfg(not(target_os = "linux"))]
    #[must_use]
    pub fn open(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many scripts it was sent.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// What one connection took at most of an endless answer, in bytes; less than [`with_buffers`] of
    /// what the client may read.
    #[must_use]
    pub fn most_taken(&self) -> u64 {
        self.shared.most.load(Ordering::SeqCst)
    }
}

/// These bytes, and what the system's buffers on both sides of a connection hold: they grow with what
/// is read, up to the last numbers of `tcp_rmem` and `tcp_wmem`.
#[must_use]
pub fn with_buffers(bytes: u64) -> u64 {
    let largest = |name| {
        let sizes = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
        sizes.split_whitespace().last()?.parse::<u64>().ok()
    };
    let both = ["tcp_rmem", "tcp_wmem"].map(|it| largest(it).unwrap_or(6 << 20));
    bytes + both.iter().sum::<u64>()
}

/// For [`Fake::at`].
#[must_use]
pub fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr); // wakes the listener
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both); // the client may have closed it
        }
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        #[cfg(not(target_os = "linux"))]
        self.open.fetch_add(1, Ordering::SeqCst);
        let _ = self.talk(&mut stream); // until the client ends it
        let _ = stream.shutdown(Shutdown::Both);
        #[cfg(not(target_os = "linux"))]
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn talk(&self, stream: &mut TcpStream) -> io::Result<()> {
        let Some(answers) = &self.answers else {
            return Ok(());
        };
        let (mut room, mut requests) = ([0; 4096], Splitter::requests());
        loop {
            let read = stream.read(&mut room)?;
            if read == 0 {
                return Ok(());
            }
            requests.push(&room[..read]);
            while let Some(request) = requests.next_frame() {
                let words = words(&request).into_iter().map(String::from_utf8_lossy);
                let asked = words.collect::<Vec<_>>().join(" ");
                let is_script = u64::from(asked.starts_with("EVAL"));
                self.asked.fetch_add(is_script, Ordering::SeqCst);
                self.say(stream, answers(&asked))?;
            }
        }
    }

    fn say(&self, stream: &mut TcpStream, says: Says) -> io::Result<()> {
        let (first, endless) = match says {
            Says::This(this) => return stream.write_all(this.as_bytes()),
            Says::Bye => return Err(io::ErrorKind::ConnectionAborted.into()),
            Says::Endless(first, endless) => (first, endless),
        };
        stream.write_all(first.as_bytes())?;
        let chunk = endless.repeat(8192 / endless.len());
        let mut taken = 0;
        while !self.ended.load(Ordering::SeqCst) {
            stream.write_all(chunk.as_bytes())?;
            taken += chunk.len() as u64;
            self.most.fetch_max(taken, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// What a redis says that takes subscriptions; `+OK` to whatever else.
#[must_use]
pub fn honest(asked: &str) -> String {
    let mut words = asked.split(' ');
    match words.next().unwrap_or_default().to_uppercase().as_str() {
        "HELLO" => "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n".to_owned(),
        "TIME" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let (seconds, micros) = (bulk(&now.as_secs()), bulk(&now.subsec_micros()));
            format!("*2\r\n{seconds}{micros}")
        }
        "SUBSCRIBE" => {
            let channel = bulk(words.next().unwrap_or_default());
            format!(">3\r\n$9\r\nsubscribe\r\n{channel}:1\r\n")
        }
        "PING" => "+PONG\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}

/// A text, as an answer.
#[must_use]
pub fn bulk<T: ToString + ?Sized>(text: &T) -> String {
    let text = text.to_string();
    format!("${}\r\n{text}\r\n", text.len())
}
