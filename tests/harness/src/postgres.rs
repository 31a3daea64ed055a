//! A private cluster of PostgreSQL: own directory, a unix socket in it, gone with its handle or with the
//! process of the test; and `PgBouncer` before it.
//!
//! The server refuses to run as root, so as root it runs as `postgres` or `nobody`. Without a flush to the
//! disk: no test here cuts the power.

use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::wait::until_blocking;

const READY_CAP: Duration = Duration::from_secs(30);

/// Ends the server and removes its directory when the pipe that only the test's process holds open ends.
const WATCH: &str = r#"read -r _; kill -QUIT "$0"
for _ in $(seq 100); do kill -0 "$0" 2>/dev/null || break; sleep 0.1; done; rm -rf "$1""#;

/// Starts `PgBouncer`, and ends it when that pipe ends.
const BOUNCE: &str = r#""$0" "$1" & read -r _; kill -KILL $!"#;

/// A running `PgBouncer`. Dropping it ends it, and its cluster must outlive it.
#[derive(Debug)]
#[must_use = "dropping it ends the pooler"]
pub struct PgBouncer {
    directory: PathBuf,
    shell: Child,
}

/// A running cluster. Dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct PostgresServer {
    directory: PathBuf,
    server: Child,
    watcher: Child,
}

impl PostgresServer {
    /// Makes a cluster and returns once it answers.
    ///
    /// # Panics
    /// If the programs of PostgreSQL are not installed, with what to install.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("dlock-pg").tempdir();
        let directory = directory.expect("a directory").keep();
        let user = unprivileged();
        if let Some((uid, gid)) = user {
            chown(&directory, Some(uid), Some(gid)).expect("give the directory away");
        }
        let program = |name: &str| {
            let mut command = Command::new(binary(name));
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command.current_dir(&directory).stdin(Stdio::null());
            command
        };
        let data = directory.join("data");
        let mut initdb = program("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres"]);
        initdb
            .args(["--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data);
        let made = initdb.output().expect("run initdb");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "initdb: {said}");
        let log = std::fs::File::create(directory.join("log")).expect("a log");
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(&data).arg("-k").arg(&directory);
        for setting in [
            "listen_addresses=",
            "fsync=off",
            "full_page_writes=off",
            "max_connections=400",
            "shared_buffers=64MB",
        ] {
            postgres.args(["-c", setting]);
        }
        let server = postgres.stdout(Stdio::null()).stderr(log).spawn();
        let server = server.expect("start postgres");
        let watcher = Command::new("sh")
            .args(["-c", WATCH, &server.id().to_string()])
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a watching shell");
        let server = Self {
            directory,
            server,
            watcher,
        };
        let said = || std::fs::read_to_string(server.directory.join("log")).unwrap_or_default();
        until_blocking("PostgreSQL is ready", READY_CAP, || {
            said().contains("ready to accept connections")
        });
        server
    }

    /// Starts `PgBouncer` before it, which gives a client a session for a `transaction` or for its `session`.
    ///
    /// # Panics
    /// If it is not installed, with what to install.
    pub fn pooled_by(&self, mode: &str, name: &str) -> PgBouncer {
        let directory = self.directory.join(format!("{name}-{mode}"));
        std::fs::create_dir(&directory).expect("a directory");
        let (cluster, own) = (self.directory.display(), directory.display());
        let settings = format!(
            "[databases]\n\
             postgres = host={cluster} user=postgres\n\
             [pgbouncer]\n\
             auth_type = any\n\
             pool_mode = {mode}\n\
             listen_addr =\n\
             listen_port = 5432\n\
             unix_socket_dir = {own}\n\
             max_client_conn = 1000\n\
             default_pool_size = 100\n"
        );
        let file = directory.join("ini");
        std::fs::write(&file, settings).expect("write its settings");
        let log = std::fs::File::create(directory.join("log")).expect("a log");
        let mut shell = Command::new("sh");
        if let Some((uid, gid)) = unprivileged() {
            chown(&directory, Some(uid), Some(gid)).expect("give the directory away");
            shell.uid(uid).gid(gid);
        }
        shell
            .args(["-c", BOUNCE])
            .arg(binary("pgbouncer"))
            .arg(file);
        shell.current_dir(&directory).stdin(Stdio::piped());
        let shell = shell.stdout(Stdio::null()).stderr(log).spawn();
        let pooler = PgBouncer {
            shell: shell.expect("a shell"),
            directory,
        };
        until_blocking("PgBouncer listens", READY_CAP, || {
            UnixStream::connect(pooler.directory.join(".s.PGSQL.5432")).is_ok()
        });
        pooler
    }

    /// Where its socket is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// `postgres://…`, with the tables in this schema.
    #[must_use]
    pub fn url(&self, schema: &str) -> String {
        let directory = self.directory.display();
        format!("postgres://postgres@/postgres?host={directory}&schema={schema}")
    }
}

impl PgBouncer {
    /// Where its socket is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// `postgres://…`, with the tables in this schema.
    #[must_use]
    pub fn url(&self, schema: &str) -> String {
        let directory = self.directory.display();
        format!("postgres://postgres@/postgres?host={directory}&schema={schema}")
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take()); // it ends the server
        let _ = self.server.wait();
        let _ = self.watcher.wait();
    }
}

/// A program of the package, which is not on `PATH` everywhere: that of the newest version.
fn binary(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|it| it.join(name));
    let on_path = on_path.chain([Path::new("/usr/sbin").join(name)]);
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let versions = versions.into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions
        .map(|it| it.path().join("bin").join(name))
        .collect();
    versions.sort_unstable();
    let found = on_path.chain(versions.into_iter().rev());
    found.into_iter().find(|it| it.is_file()).unwrap_or_else(|| {
        panic!("`{name}` of PostgreSQL 13 or newer, or PgBouncer, not found: apt-get install postgresql pgbouncer (first put `create_main_cluster = false` into /etc/postgresql-common/createcluster.conf), or brew install postgresql pgbouncer")
    })
}

/// Whom root runs the server as.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = users
            .lines()
            .find(|it| it.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = ids("postgres").or_else(|| ids("nobody"));
    Some(found.expect("a user `postgres` or `nobody`"))
}
