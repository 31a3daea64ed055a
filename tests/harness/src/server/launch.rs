//! The process of a server, and how it is known to be ready: its own log says so, and it answers
//! PING.
//!
//! PING alone would not do: if the port was taken, another server answers.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use super::raw::RawClient;
use super::{Builder, RedisServer};
use crate::orphan::Orphan;
use crate::signal::kill_and_reap;
use crate::wait::scaled;

const READY_CAP: Duration = Duration::from_secs(10);
/// What the log says of a server that is ready, of a sentinel, and of `KeyDB`.
const READY: [&str; 3] = [
    "Ready to accept connections",
    "+monitor master",
    "Thread 0 alive",
];
const POLL: Duration = Duration::from_millis(5);

/// A ready server process. Dropping it kills and reaps it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Dropped first, see [`Orphan`].
    orphan: Option<Orphan>,
}

/// The port belongs to another program.
#[derive(Debug)]
pub(super) struct PortTaken;

impl Process {
    pub(super) fn start(
        settings: &Builder,
        port: u16,
        directory: &Path,
    ) -> Result<Self, PortTaken> {
        let log = directory.join("redis.log");
        remove_if_there(&log);
        let child = spawn(settings, port, directory, &log);
        let mut process = Self {
            orphan: None,
            child,
        };
        let orphan = Orphan::guard(process.pid()).expect("a watching shell");
        process.orphan = Some(orphan);
        process.wait_ready(port, &log)?;
        Ok(process)
    }

    /// For a restart on the server's own port: if another program has taken it, waits for it to go,
    /// and then names it.
    pub(super) fn on_fixed_port(settings: &Builder, port: u16, directory: &Path) -> Self {
        let deadline = Instant::now() + scaled(READY_CAP);
        loop {
            match Self::start(settings, port, directory) {
                Ok(process) => return process,
                Err(PortTaken) => assert!(Instant::now() < deadline, "port {port} is taken"),
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_ready(&mut self, port: u16, log: &Path) -> Result<(), PortTaken> {
        let deadline = Instant::now() + scaled(READY_CAP);
        loop {
            let said = fs::read_to_string(log).unwrap_or_default();
            if READY.iter().any(|words| said.contains(words)) && answers_ping(port) {
                return Ok(());
            }
            let ended = self.child.try_wait().expect("wait for redis-server");
            if let Some(status) = ended {
                // Read again: the reason was written after the check above.
                let said = fs::read_to_string(log).unwrap_or_default();
                if said.contains("Address already in use") {
                    return Err(PortTaken);
                }
                panic!("redis-server ended with {status}:\n{said}");
            }
            assert!(Instant::now() < deadline, "redis-server not ready:\n{said}");
            thread::sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.orphan.take());
        kill_and_reap(&mut self.child);
    }
}

fn spawn(settings: &Builder, port: u16, directory: &Path, log: &Path) -> Child {
    let mut command = Command::new("redis-server");
    if let Some(configuration) = &settings.sentinel {
        let file = directory.join("sentinel.conf");
        if !file.exists() {
            fs::write(&file, configuration).expect("write sentinel.conf"); // it is its memory too
        }
        command.arg(file).arg("--sentinel");
    }
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .args(debug_option())
        .arg("--dir")
        .arg(directory)
        .arg("--logfile")
        .arg(log);
    if let Some(socket) = settings.socket_in(directory) {
        command.arg("--unixsocket").arg(socket);
    }
    if let Some(password) = &settings.password {
        command.args(["--requirepass", password]);
    }
    command.args(&settings.args);
    command
        .envs(settings.envs.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            panic!("redis-server not found on PATH: apt-get install redis-server")
        }
        Err(error) => panic!("redis-server did not start: {error}"),
    }
}

/// Allows DEBUG. Before Redis 7 it always is, and a server does not start with an option that it
/// does not know.
fn debug_option() -> &'static [&'static str] {
    if RedisServer::is_redis_6() {
        return &[];
    }
    &["--enable-debug-command", "local"]
}

impl RedisServer {
    /// Whether the `redis-server` on `PATH` is Redis 6, or a fork of it such as `KeyDB`.
    #[must_use]
    pub fn is_redis_6() -> bool {
        static IS_REDIS_6: LazyLock<bool> = LazyLock::new(|| {
            let said = Command::new("redis-server").arg("--version").output();
            said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(" v=6."))
        });
        *IS_REDIS_6
    }
}

/// Whether a server answers. `-NOAUTH` and the like count: a server that refuses is ready.
fn answers_ping(port: u16) -> bool {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    RawClient::connect(addr)
        .and_then(|mut client| client.line(&["PING"]))
        .is_ok_and(|reply| reply == "+PONG" || reply.starts_with("-NOAUTH"))
}

/// So that "ready" is never read from the log of an earlier run.
fn remove_if_there(log: &Path) {
    if let Err(error) = fs::remove_file(log) {
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    }
}
