//! The settings of a server; they are kept for its restarts.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::RedisServer;
use super::launch::Process;
use super::port::{self, Claim};
use crate::certificates::{Authority, Identity};

/// How a server is started. Every method is optional.
#[derive(Debug, Clone, Default)]
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    pub(super) password: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) envs: Vec<(String, String)>,
    pub(super) tls: Option<Tls>,
    pub(super) sentinel: Option<String>,
    port: Option<u16>,
    unix_socket: bool,
}

/// The files of a port with TLS.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub(super) authority: PathBuf,
    server: Identity,
    clients: bool,
}

impl Tls {
    pub(super) fn args(&self, port: u16) -> Vec<String> {
        let clients = if self.clients { "yes" } else { "no" };
        [
            ("--tls-port", port.to_string()),
            (
                "--tls-cert-file",
                self.server.certificate.display().to_string(),
            ),
            ("--tls-key-file", self.server.key.display().to_string()),
            ("--tls-ca-cert-file", self.authority.display().to_string()),
            ("--tls-auth-clients", clients.to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }
}

impl Builder {
    /// `--requirepass`; the server's URLs carry it. It must not need escaping in a URL.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Further arguments for `redis-server`, such as `["--maxmemory", "2mb"]`. They override the
    /// harness's own, but `--port`, `--dir`, `--logfile` and `--requirepass` must not be among
    /// them.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// As [`args`](Self::args), overridden by those that were given already.
    pub(crate) fn args_before<S: Into<String>>(
        mut self,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        self.args.splice(..0, args.into_iter().map(Into::into));
        self
    }

    /// A variable of the server's environment.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.envs.push((name.to_owned(), value.into()));
        self
    }

    /// Also listens on a unix socket in the server's directory, over which the harness asks it: see
    /// [`RedisServer::unix_url`].
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Also listens with TLS: see [`RedisServer::tls_url`]. `clients`: each client has to identify
    /// itself with a certificate of the same authority.
    pub fn tls(mut self, authority: &Authority, server: &Identity, clients: bool) -> Self {
        self.tls = Some(Tls {
            authority: authority.file(),
            server: server.clone(),
            clients,
        });
        self
    }

    /// Runs as a sentinel with this configuration file instead.
    pub fn sentinel(mut self, configuration: String) -> Self {
        self.sentinel = Some(configuration);
        self
    }

    /// Uses exactly this port. Without it, a free one is searched.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server and returns once it answers. Panics if `redis-server` is missing or not
    /// ready within 10 s.
    pub fn start(mut self) -> RedisServer {
        let directory = tempfile::Builder::new()
            .prefix("dlock-redis-")
            .tempdir()
            .expect("a temporary directory");
        let (port, claim, tls, process) = if let Some(port) = self.port {
            let tls = self.claim_tls();
            let process = Process::on_fixed_port(&self, port, directory.path());
            (port, None, tls, process)
        } else {
            let (claim, tls, process) = self.on_free_ports(directory.path());
            (claim.port, Some(claim), tls, process)
        };
        RedisServer {
            settings: self,
            port,
            _claim: claim,
            tls,
            directory,
            process: Mutex::new(Some(process)),
        }
    }

    /// Adds the port with TLS, if there is to be one.
    fn claim_tls(&mut self) -> Option<Claim> {
        let claim = self.tls.as_ref().map(|_| port::free());
        if let (Some(tls), Some(claim)) = (&self.tls, &claim) {
            self.args.extend(tls.args(claim.port));
        }
        claim
    }

    pub(super) fn socket_in(&self, directory: &Path) -> Option<PathBuf> {
        self.unix_socket.then(|| directory.join("redis.sock"))
    }

    /// Between the check and the server's own bind, another program may take a port, or have that of
    /// a cluster's bus already; then others are tried.
    fn on_free_ports(&mut self, directory: &Path) -> (Claim, Option<Claim>, Process) {
        let args = self.args.clone();
        for _ in 0..50 {
            self.args.clone_from(&args);
            let (claim, tls) = (port::free(), self.claim_tls());
            if let Ok(process) = Process::start(self, claim.port, directory) {
                return (claim, tls, process);
            }
        }
        panic!("redis-server found 50 ports taken")
    }
}
