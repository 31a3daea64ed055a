//! A private `redis-server`: own port, own directory, no persistence, gone with its handle.
//!
//! * [`builder`](RedisServer::builder): how one is started; `launch` is the process, and how it is
//!   known to be ready.
//! * [`RedisServer`]: its addresses and its signals; `query` sends it commands; [`Monitor`] records
//!   what reached it.
//!
//! Starting, signals and dropping are synchronous and need no runtime. Each query opens a
//! connection of its own, so a handle may be shared by tests, runtimes and threads. It is killed by
//! its own pid, never by name.

mod builder;
mod launch;
mod monitor;
pub(crate) mod port;
mod query;
mod raw;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard};

pub use builder::Builder;
pub use monitor::Monitor;

use crate::signal;
use launch::Process;
use port::Claim;

/// A running `redis-server`. Dropping it kills it.
#[derive(Debug)]
#[must_use = "dropping it kills the server"]
pub struct RedisServer {
    settings: Builder,
    port: u16,
    /// Claims a port that was searched, not given.
    _claim: Option<Claim>,
    /// Claims the port with TLS.
    tls: Option<Claim>,
    directory: tempfile::TempDir,
    /// `None` between [`kill9`](Self::kill9) and [`restart_empty`](Self::restart_empty).
    process: Mutex<Option<Process>>,
}

impl RedisServer {
    /// Starts a server with default settings and returns once it answers.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with a password, a unix socket, other options, or a given port.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `redis://[:password@]127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.settings.password {
            Some(password) => format!("redis://:{password}@{}", self.addr()),
            None => format!("redis://{}", self.addr()),
        }
    }

    /// `redis+unix://…`, if [`Builder::unix_socket`] asked for one.
    #[must_use]
    pub fn unix_url(&self) -> Option<String> {
        let socket = self.settings.socket_in(self.directory.path())?;
        let password = self.settings.password.as_deref();
        let query = password.map_or(String::new(), |password| format!("?pass={password}"));
        Some(format!("redis+unix://{}{query}", socket.display()))
    }

    /// `rediss://[:password@]127.0.0.1:port?tls_ca=…`, if [`Builder::tls`] asked for one.
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        let authority = self.settings.tls.as_ref()?.authority.display();
        let addr = self.tls_addr()?;
        Some(match &self.settings.password {
            Some(password) => format!("rediss://:{password}@{addr}?tls_ca={authority}"),
            None => format!("rediss://{addr}?tls_ca={authority}"),
        })
    }

    /// The address with TLS, if there is one; the same after a restart.
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        let port = self.tls.as_ref()?.port;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// The TCP port; the same after a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The TCP address; the same after a restart.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The process id. Panics while it is killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let process = self.process();
        process.as_ref().expect("the server was killed").pid()
    }

    /// SIGSTOP: connections stay open and nothing is answered. Returns once the process has
    /// stopped.
    pub fn stop_signal(&self) {
        signal::stop(self.pid());
    }

    /// SIGCONT: everything that was sent in the meantime is executed, also for clients that have
    /// gone. Returns once the process goes on.
    pub fn cont(&self) {
        signal::cont(self.pid());
    }

    /// SIGKILL, and waits for the end. All data is lost; the port is refused until
    /// [`restart_empty`](Self::restart_empty).
    pub fn kill9(&self) {
        *self.process() = None;
    }

    /// Kills the server if it runs, and starts it again on the same port without data. Returns once
    /// it answers.
    pub fn restart_empty(&self) {
        self.restart();
    }

    /// As [`restart_empty`](Self::restart_empty), for a server whose arguments ask for persistence:
    /// it comes back with what it has persisted.
    pub fn restart(&self) {
        self.restart_as(&self.settings);
    }

    /// As [`restart_empty`](Self::restart_empty), as a replica of this server: it is no master meanwhile.
    pub fn restart_following(&self, master: &Self) {
        let port = master.port.to_string();
        let follow = ["--replicaof", "127.0.0.1", &port];
        self.restart_as(&self.settings.clone().args(follow));
    }

    fn restart_as(&self, settings: &Builder) {
        let mut process = self.process();
        *process = None;
        let started = Process::on_fixed_port(settings, self.port, self.directory.path());
        *process = Some(started);
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // A test that panicked elsewhere must still be able to drop the server.
        match self.process.lock() {
            Ok(process) => process,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

#[cfg(test)]
mod tests;
