//! A minimal server that answers HELLO with whatever a test wants. It keeps no data.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Dropping it closes the port; its connections end with their clients.
pub(crate) struct Fake {
    addr: SocketAddr,
    ended: Arc<AtomicBool>,
}

impl Fake {
    /// Answers HELLO and INFO with these fields, and everything else with `+OK`; a sentinel has no
    /// TIME.
    pub(crate) fn redis(version: &str, mode: &str, role: &str) -> Self {
        let has_time = mode != "sentinel";
        let fields = [
            ("server", "redis"),
            ("version", version),
            ("mode", mode),
            ("role", role),
        ];
        let mut hello = format!("%{}\r\n", fields.len());
        for text in fields.into_iter().flat_map(|(name, value)| [name, value]) {
            hello.extend(["$", &text.len().to_string(), "\r\n", text, "\r\n"]);
        }
        let info = format!("redis_version:{version}\r\nredis_mode:{mode}\r\nrole:{role}\r\n");
        let info = format!("${}\r\n{info}\r\n", info.len());
        Self::start(move |request| {
            if request.starts_with(b"HELLO") {
                hello.clone()
            } else if request.starts_with(b"INFO") {
                info.clone()
            } else if has_time || !request.starts_with(b"TIME") {
                "+OK\r\n".to_owned()
            } else {
                "-ERR unknown command 'TIME'\r\n".to_owned()
            }
        })
    }

    /// A redis before 6.2: HELLO is unknown to Redis 5, and needs an argument from 6.0 on.
    pub(crate) fn old_redis(version: &str) -> Self {
        let knows_hello = !version.starts_with('5');
        let info = format!("redis_version:{version}\r\nredis_mode:standalone\r\n");
        let info = format!("${}\r\n{info}\r\n", info.len());
        Self::start(move |request| {
            let answer = match request {
                b"HELLO" if knows_hello => "-ERR wrong number of arguments for 'hello' command\r\n",
                _ if request.starts_with(b"HELLO 3") && knows_hello => "%0\r\n",
                _ if request.starts_with(b"HELLO") => {
                    "-ERR unknown command `HELLO`, with args beginning with: \r\n"
                }
                _ if request.starts_with(b"INFO") => &info,
                _ if request.starts_with(b"TIME") => "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n",
                _ => "+OK\r\n",
            };
            answer.to_owned()
        })
    }

    /// A redis that answers one command with this.
    pub(crate) fn answering(command: &'static str, answer: &'static str) -> Self {
        Self::start(move |request| {
            let answer = match request {
                _ if request.starts_with(command.as_bytes()) => answer,
                _ if request.starts_with(b"HELLO") => "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n",
                _ if request.starts_with(b"TIME") => "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n",
                _ => "+OK\r\n",
            };
            answer.to_owned()
        })
    }

    /// A redis that takes subscriptions and answers `INFO` and `EVAL` with these.
    pub(crate) fn checked(info: &str, eval: &str) -> Self {
        let (info, eval) = (info.to_owned(), eval.to_owned());
        Self::start(move |request| match request {
            _ if request.starts_with(b"INFO") => info.clone(),
            _ if request.starts_with(b"EVAL") => eval.clone(),
            _ => honest(request),
        })
    }

    /// A redis whose clock is set forward by an hour between two questions.
    pub(crate) fn setting_its_clock() -> Self {
        let (began, hours) = (Instant::now(), AtomicU64::new(0));
        Self::start(move |request| match request {
            _ if request.starts_with(b"HELLO") => {
                "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n".to_owned()
            }
            _ if request.starts_with(b"TIME") => {
                let hours = hours.fetch_add(1, Ordering::SeqCst);
                let now = Duration::from_secs(1_700_000_000 + hours * 3_600) + began.elapsed();
                let (seconds, micros) = (now.as_secs(), now.subsec_micros().to_string());
                format!(
                    "*2\r\n$10\r\n{seconds}\r\n${}\r\n{micros}\r\n",
                    micros.len()
                )
            }
            _ => "+OK\r\n".to_owned(),
        })
    }

    /// A redis behind a proxy that ends a connection at a command that it does not know.
    pub(crate) fn ending_at(command: &'static str, role: &'static str) -> Self {
        Self::serving(move |stream, request| {
            let info = format!("redis_version:7.0.0\r\nredis_mode:standalone\r\nrole:{role}\r\n");
            match request {
                _ if request.starts_with(command.as_bytes()) => Err(io::ErrorKind::Other.into()),
                _ if request.starts_with(b"INFO") => {
                    write!(stream, "${}\r\n{info}\r\n", info.len())
                }
                _ => stream.write_all(honest(request).as_bytes()),
            }
        })
    }

    /// Answers every request with this.
    pub(crate) fn saying(answer: &'static str) -> Self {
        Self::start(move |_| answer.to_owned())
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// A redis whose answer to one command begins like this and has no end. Also, how many bytes of
    /// it a client has taken at most.
    pub(crate) fn endless(
        command: &'static str,
        first: &'static str,
        again: &'static str,
    ) -> (Self, Arc<AtomicU64>) {
        let (most, taken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (again, told) = (again.repeat((64 << 10) / again.len()), most.clone());
        let fake = Self::serving(move |stream, request| {
            if !request.starts_with(command.as_bytes()) {
                return stream.write_all(honest(request).as_bytes());
            }
            stream.write_all(first.as_bytes())?;
            taken.store(0, Ordering::SeqCst);
            loop {
                stream.write_all(again.as_bytes())?;
                let now = taken.fetch_add(again.len() as u64, Ordering::SeqCst);
                told.fetch_max(now, Ordering::SeqCst);
            }
        });
        (fake, most)
    }

    fn start(answer: impl Fn(&[u8]) -> String + Send + Sync + 'static) -> Self {
        Self::serving(move |stream, request| stream.write_all(answer(request).as_bytes()))
    }

    fn serving(
        answer: impl Fn(&mut TcpStream, &[u8]) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, ended) = (
            listener.local_addr().unwrap(),
            Arc::new(AtomicBool::new(false)),
        );
        let (answer, ending) = (Arc::new(answer), ended.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ending.load(Ordering::SeqCst) {
                    break;
                }
                let answer = answer.clone();
                thread::spawn(move || serve(stream, &*answer));
            }
        });
        Self { addr, ended }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr); // wakes the listener
    }
}

/// As a redis that takes subscriptions; `OK` to whatever else.
fn honest(request: &[u8]) -> String {
    match request {
        _ if request.starts_with(b"HELLO") => "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n".to_owned(),
        _ if request.starts_with(b"TIME") => "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n".to_owned(),
        _ if request.starts_with(b"SUBSCRIBE ") => {
            let channel = String::from_utf8_lossy(&request[10..]);
            let length = channel.len();
            format!(">3\r\n$9\r\nsubscribe\r\n${length}\r\n{channel}\r\n:1\r\n")
        }
        _ => "+OK\r\n".to_owned(),
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&mut TcpStream, &[u8]) -> io::Result<()>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = request(&mut reader) {
        if answer(reader.get_mut(), &request).is_err() {
            break;
        }
    }
    let _ = reader.get_ref().shutdown(Shutdown::Both);
}

/// The words of a request, separated by spaces; `None` at the end.
fn request(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut words = Vec::new();
    for _ in 0..number(reader)? {
        let mut word = vec![0; number(reader)? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Some(words.join(&b' '))
}

/// The number after `*` or `$`.
fn number(reader: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.get(1..)?.trim().parse().ok()
}
