//! A node of a cluster that says what a test wants. It keeps no data, and grants nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use dlock_harness::resp::{Splitter, words};

/// The answer to a command; an empty one is none.
pub(crate) enum Says {
    This(String),
    /// This, and then the same again and again, until the client has enough.
    Endless(&'static str, &'static str),
}

type Answers = dyn Fn(&str) -> Option<Says> + Send + Sync;

/// Its port is closed with it, and so are its connections.
pub(crate) struct Liar {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    answers: Box<Answers>,
    ended: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
    accepted: AtomicU64,
    open: AtomicU64,
    /// How many scripts it was sent.
    asked: AtomicU64,
    /// What one connection took at most, in bytes.
    most: AtomicU64,
}

impl Liar {
    /// Answers as a master of a cluster does, but what `answers` answers. A command is its words in
    /// upper case.
    pub(crate) fn start(
        listener: TcpListener,
        answers: impl Fn(&str) -> Option<Says> + Send + Sync + 'static,
    ) -> Self {
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            answers: Box::new(answers),
            ended: AtomicBool::new(false),
            streams: Mutex::default(),
            accepted: AtomicU64::new(0),
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
                let clone = stream.try_clone().unwrap();
                serving.streams.lock().unwrap().push(clone);
                let serving = serving.clone();
                thread::spawn(move || {
                    serving.open.fetch_add(1, Ordering::SeqCst);
                    serving.serve(stream);
                    serving.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, shared }
    }

    /// Accepts and never says anything.
    pub(crate) fn silent() -> Self {
        Self::start(listener(), |_| Some(Says::This(String::new())))
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The connections that the clients have not closed: as the system sees them, because on a busy
    /// machine the liar's own threads notice an end late.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(&self) -> u64 {
        let port = format!(":{:04X}", self.port);
        let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let is_open = |line: &&str| {
            let mut words = line.split_whitespace().skip(2); // behind the number and the own address
            let is_here = words.next().is_some_and(|it| it.ends_with(&port));
            is_here && words.next() == Some("01") // established
        };
        u64::try_from(sockets.lines().filter(is_open).count()).unwrap()
    }

    /// The connections that the clients have not closed.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    pub(crate) fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn most_taken(&self) -> u64 {
        self.shared.most.load(Ordering::SeqCst)
    }
}

pub(crate) fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)); // wakes the listener
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both); // the client may have closed it
        }
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let (mut room, mut requests) = ([0; 4096], Splitter::requests());
        while let Ok(read @ 1..) = stream.read(&mut room) {
            requests.push(&room[..read]);
            while let Some(request) = requests.next_frame() {
                let asked: Vec<_> = words(&request)
                    .into_iter()
                    .map(String::from_utf8_lossy)
                    .collect();
                let asked = asked.join(" ");
                let is_script = u64::from(asked.starts_with("EVAL"));
                self.asked.fetch_add(is_script, Ordering::SeqCst);
                let says = (self.answers)(&asked.to_uppercase());
                let says = says.unwrap_or_else(|| Says::This(of_a_master(&asked)));
                if self.say(&mut stream, says).is_err() {
                    return;
                }
            }
        }
    }

    fn say(&self, stream: &mut TcpStream, says: Says) -> std::io::Result<()> {
        let (first, endless) = match says {
            Says::This(this) => return stream.write_all(this.as_bytes()),
            Says::Endless(first, endless) => (first, endless),
        };
        stream.write_all(first.as_bytes())?;
        let chunk = endless.repeat(8192 / endless.len());
        let mut taken = 0;
        while !self.ended.load(Ordering::SeqCst) {
            stream.write_all(chunk.as_bytes())?;
            taken += u64::try_from(chunk.len()).unwrap();
            self.most.fetch_max(taken, Ordering::SeqCst);
        }
        Ok(())
    }
}

fn of_a_master(asked: &str) -> String {
    let command = asked.to_uppercase();
    match command.split(' ').next().unwrap_or_default() {
        "HELLO" => {
            "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
                .to_owned()
        }
        "TIME" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            format!("*2\r\n{}{}", bulk(&now.as_secs()), bulk(&now.subsec_micros()))
        }
        "SUBSCRIBE" => {
            let channel = asked.split(' ').nth(1).unwrap_or_default();
            format!(">3\r\n$9\r\nsubscribe\r\n{}:1\r\n", bulk(&channel))
        }
        // An epoch that is later than that of all others.
        "CLUSTER" => bulk(&"cluster_state:ok\r\ncluster_current_epoch:999"),
        "PING" => "+PONG\r\n".to_owned(),
        "INFO" => bulk(&"redis_version:7.0.15"),
        "COMMAND" => "*0\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}

fn bulk(text: &impl ToString) -> String {
    let text = text.to_string();
    format!("${}\r\n{text}\r\n", text.len())
}

/// The answer to `CLUSTER SLOTS`: for each range its first and last slot, and its master.
pub(crate) fn slots<'a>(ranges: impl IntoIterator<Item = (i64, i64, &'a str, i64)>) -> String {
    let range = |(first, last, name, port): (_, _, &str, _)| {
        let node = format!("*3\r\n{}:{port}\r\n$2\r\nid\r\n", bulk(&name));
        format!("*3\r\n:{first}\r\n:{last}\r\n{node}")
    };
    let ranges: Vec<_> = ranges.into_iter().map(range).collect();
    format!("*{}\r\n{}", ranges.len(), ranges.concat())
}
