//! A private cluster of PostgreSQL: own directory, a unix socket in it, gone with its handle or with the
//! process of the test; and `PgBouncer` before it.
//!
//! The server refuses to run as root, so as root it runs as `postgres` or `nobody`. Without a flush to the
//! disk: no test here cuts the power.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::certificates::Authority;
use crate::server::port::{self, Claim};
use crate::wait::until_blocking;

const READY_CAP: Duration = Duration::from_secs(30);

/// Ends the server and removes its directory when the pipe that only the test's process holds open ends.
const WATCH: &str = r#"read -r _; pid=$(head -n 1 "$0/data/postmaster.pid"); kill -QUIT "$pid"
for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done; rm -rf "$0""#;

/// Starts `PgBouncer`, and ends it when that pipe ends.
const BOUNCE: &str = r#""$0" "$1" & read -r _; kill -KILL $!"#;

/// Mounts a disk for the program behind, which then has the same user as without a namespace.
const MOUNT: &str = r#"mount -t tmpfs -o "size=$1,mode=777" dlock "$TMPDIR"; uid=$2 gid=$3; shift 3
[ "$uid" = 0 ] || set -- unshare --user "--map-user=$uid" "--map-group=$gid" "$@"
exec "$@""#;

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
    settings: Vec<String>,
    /// If it listens at more than its socket.
    claim: Option<Claim>,
    server: Mutex<Child>,
    watcher: Child,
}

impl PostgresServer {
    /// Makes a cluster and returns once it answers.
    ///
    /// # Panics
    /// If the programs of PostgreSQL are not installed, with what to install.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with other settings, `name=value`: what is measured flushes to the disk.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_with(settings: &[&str]) -> Self {
        Self::over(initialized(), settings, None)
    }

    /// A cluster at a TCP port, which can have standbys.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_on_port() -> Self {
        Self::over(initialized(), &[], Some(port()))
    }

    /// The same, which takes encrypted connections only there, from clients with a certificate of this authority
    /// and for `localhost`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_encrypted(authority: &Authority) -> Self {
        let directory = initialized();
        let identity = authority.issue("postgres", &["localhost"]);
        let mut settings = vec!["ssl=on".to_owned()];
        for (name, from) in [
            ("ssl_ca_file", &authority.file()),
            ("ssl_cert_file", &identity.certificate),
            ("ssl_key_file", &identity.key),
        ] {
            let file = directory.join(name);
            std::fs::copy(from, &file).expect("copy a file");
            let only_ours = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&file, only_ours).expect("hide the key");
            if let Some((uid, gid)) = unprivileged() {
                chown(&file, Some(uid), Some(gid)).expect("give the file away");
            }
            settings.push(format!("{name}={}", file.display()));
        }
        let rules = "local all all trust\nhostssl all all all trust clientcert=verify-ca\n";
        std::fs::write(directory.join("data/pg_hba.conf"), rules).expect("write who may connect");
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        Self::over(directory, &settings, Some(port()))
    }

    /// An asynchronous standby of this cluster, at a port of its own.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn standby(&self) -> Self {
        let directory = directory();
        let mut copy = program("pg_basebackup", &directory);
        copy.arg("-h").arg(&self.directory);
        copy.args(["-p", &self.port().to_string(), "-U", "postgres"]);
        copy.args(["-D", "data", "-R", "-c", "fast", "--no-sync"]);
        executed(&mut copy);
        Self::over(directory, &[], Some(port()))
    }

    fn over(directory: PathBuf, settings: &[&str], claim: Option<Claim>) -> Self {
        let mut settings: Vec<_> = settings.iter().map(|it| (*it).to_owned()).collect();
        if let Some(Claim { port, .. }) = &claim {
            settings.extend([
                "listen_addresses=127.0.0.1".to_owned(),
                format!("port={port}"),
                "full_page_writes=on".to_owned(), // for a standby of a standby
            ]);
        }
        let server = spawn(&directory, &settings);
        let watcher = Command::new("sh")
            .args(["-c", WATCH])
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a watching shell");
        let server = Self {
            directory,
            settings,
            claim,
            server: Mutex::new(server),
            watcher,
        };
        server.is_ready();
        server
    }

    fn is_ready(&self) {
        let ready = || self.try_sql("SELECT 1").is_some();
        until_blocking("PostgreSQL is ready", READY_CAP, ready);
    }

    /// The number in its socket's name, and its TCP port if it has one.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.claim.as_ref().map_or(5432, |it| it.port)
    }

    /// Ends it as a crash does: nothing is written that was not.
    ///
    /// # Panics
    /// If it can't be signalled.
    pub fn crash(&self) {
        let mut server = self.server.lock().expect("no panic");
        let pid = server.id().to_string();
        let sent = Command::new("kill").args(["-QUIT", &pid]).status();
        assert!(sent.expect("run kill").success(), "it was not running");
        server.wait().expect("it ends");
    }

    /// Starts it again, and returns once it answers.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&self) {
        *self.server.lock().expect("no panic") = spawn(&self.directory, &self.settings);
        self.is_ready();
    }

    /// Makes a standby take writes.
    ///
    /// # Panics
    /// If it is none.
    pub fn promote(&self) {
        assert_eq!(self.sql("SELECT pg_catalog.pg_promote()"), "t");
    }

    /// Executes a text by `psql`, and returns its rows, without a header.
    ///
    /// # Panics
    /// With what the server says, if it refuses.
    pub fn sql(&self, text: &str) -> String {
        self.try_sql(text)
            .unwrap_or_else(|| panic!("refused: {text}"))
    }

    /// The same. `None`: it is refused, or the server is not there.
    ///
    /// # Panics
    /// If `psql` is not installed.
    pub fn try_sql(&self, text: &str) -> Option<String> {
        let mut psql = Command::new(binary("psql"));
        psql.arg("-h").arg(&self.directory);
        psql.args(["-p", &self.port().to_string(), "-U", "postgres"]);
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text]);
        let said = psql.stdin(Stdio::null()).output().expect("run psql");
        let rows = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        said.status.success().then_some(rows)
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

    /// Its processes are children of this one.
    ///
    /// # Panics
    /// After a panic of another thread.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.lock().expect("no panic").id()
    }

    /// `127.0.0.1:…`, if it has a port.
    #[must_use]
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port())
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
        let _ = self.server.lock().map(|mut it| it.wait());
        let _ = self.watcher.wait();
    }
}

/// A directory that the server may use.
fn directory() -> PathBuf {
    let directory = tempfile::Builder::new().prefix("dlock-pg").tempdir();
    let directory = directory.expect("a directory").keep();
    if let Some((uid, gid)) = unprivileged() {
        chown(&directory, Some(uid), Some(gid)).expect("give the directory away");
    }
    directory
}

/// A port at which nothing listens.
fn port() -> Claim {
    let (_listener, claim) = port::listener();
    claim
}

/// A directory with an empty cluster.
fn initialized() -> PathBuf {
    let directory = directory();
    let mut initdb = program("initdb", &directory);
    initdb.args(["--no-sync", "--auth=trust", "--username=postgres"]);
    initdb.args(["--encoding=UTF8", "--locale=C", "-D", "data"]);
    executed(&mut initdb);
    directory
}

/// A program of the package, in a cluster's directory, as the server's user.
fn program(name: &str, directory: &Path) -> Command {
    let mut command = Command::new(binary(name));
    if let Some((uid, gid)) = unprivileged() {
        command.uid(uid).gid(gid);
    }
    command.current_dir(directory).stdin(Stdio::null());
    command
}

fn executed(command: &mut Command) {
    let made = command.output().expect("run it");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{command:?}: {said}");
}

fn spawn(directory: &Path, settings: &[String]) -> Child {
    let log = std::fs::File::options()
        .append(true)
        .create(true)
        .open(directory.join("log"));
    let mut postgres = program("postgres", directory);
    postgres.args(["-D", "data", "-k"]).arg(directory);
    let own = [
        "listen_addresses=",
        "fsync=off",
        "full_page_writes=off",
        "max_connections=400",
        "max_prepared_transactions=20",
        "shared_buffers=64MB",
    ];
    for setting in own.into_iter().chain(settings.iter().map(String::as_str)) {
        postgres.args(["-c", setting]);
    }
    let server = postgres.stdout(Stdio::null()).stderr(log.expect("a log"));
    server.spawn().expect("start postgres")
}

fn binary(name: &str) -> PathBuf {
    postgres_program(name).unwrap_or_else(|| {
        panic!("`{name}` of PostgreSQL 13 or newer, or PgBouncer, not found: apt-get install postgresql pgbouncer (first put `create_main_cluster = false` into /etc/postgresql-common/createcluster.conf), or brew install postgresql pgbouncer")
    })
}

/// A program of the package, which is not on `PATH` everywhere: that of the newest version.
#[must_use]
pub fn postgres_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|it| it.join(name));
    let on_path = on_path.chain([Path::new("/usr/sbin").join(name)]);
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let versions = versions.into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions
        .map(|it| it.path().join("bin").join(name))
        .collect();
    versions.sort_unstable();
    let mut found = on_path.chain(versions.into_iter().rev());
    found.find(|it| it.is_file())
}

/// Runs a test of this program again, in a process for which this is the size of the disk of all clusters. Nobody
/// else sees it, and it is gone with that process. Returns the disk there, and `None` here, when the test has
/// passed.
///
/// # Panics
/// If the test fails, or if no disk can be mounted, with what is missing.
#[must_use]
pub fn on_a_disk_of(size: &str, test: &str) -> Option<PathBuf> {
    const IS_THERE: &str = "DLOCK_TEST_DISK";
    if std::env::var_os(IS_THERE).is_some() {
        return Some(std::env::temp_dir());
    }
    let disk = tempfile::tempdir().expect("a directory");
    let mut own = Command::new("unshare");
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if !uid.is_root() {
        own.args(["--user", "--map-root-user"]);
    }
    let (uid, gid) = (uid.as_raw().to_string(), gid.as_raw().to_string());
    own.args(["--mount", "sh", "-ec", MOUNT, "sh", size, &uid, &gid]);
    own.arg(std::env::current_exe().expect("this program"));
    own.args(["--exact", "--include-ignored", "--nocapture", test]);
    own.env(IS_THERE, "").env("TMPDIR", disk.path());
    let run = own.stdin(Stdio::null()).output();
    let run = run.unwrap_or_else(|error| panic!("`unshare` of util-linux, on Linux: {error}"));
    let [out, err] = [&run.stdout, &run.stderr].map(|it| String::from_utf8_lossy(it));
    let begun = out.contains("running 1 test");
    assert!(
        begun,
        "no namespace with a disk of its own (containers need CAP_SYS_ADMIN): {err}"
    );
    let passed = run.status.success() && out.contains("1 passed");
    assert!(
        passed,
        "{test}, on a disk of {size}: {}\n{out}\n{err}",
        run.status
    );
    None
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
