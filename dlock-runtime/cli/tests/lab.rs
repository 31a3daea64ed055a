//! A server, a folder for what commands write, and ways to start `dlock` and to see what is left of
//! it.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use dlock_harness::{RedisServer, until_blocking};

/// How long anything may take.
pub(crate) const CAP: Duration = Duration::from_secs(20);

pub(crate) struct Lab {
    pub(crate) server: RedisServer,
    pub(crate) url: String,
    directory: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn start() -> Self {
        Self::on(RedisServer::start())
    }

    pub(crate) fn on(server: RedisServer) -> Self {
        let url = server.url();
        Self {
            server,
            url,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// `dlock` with these arguments, without a controlling terminal and, but for the server, with an
    /// environment as small as cron's.
    pub(crate) fn dlock(&self, args: &[&str]) -> Command {
        self.dlock_at(&self.url, args)
    }

    pub(crate) fn dlock_at(&self, url: &str, args: &[&str]) -> Command {
        // In the background of a script these tests would inherit ignored signals.
        let mut command = Command::new("/usr/bin/env");
        command.args(["--default-signal", "/usr/bin/setsid"]);
        command.arg(env!("CARGO_BIN_EXE_dlock")).args(args);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command
            .env("DLOCK_URL", url)
            .current_dir(self.directory.path());
        command.stdin(Stdio::null());
        command
    }

    /// The result of `dlock` with these arguments.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.dlock(args).output().unwrap()
    }

    /// `dlock run --key <key> <options> -- sh -c <script>`, which goes on.
    pub(crate) fn run(&self, key: &str, options: &[&str], script: &str) -> Running {
        self.run_at(&self.url, key, options, script)
    }

    /// `dlock lead --key <key> <options> -- sh -c <script>`, which goes on.
    pub(crate) fn lead(&self, key: &str, options: &[&str], script: &str) -> Running {
        self.goes_on(&self.url, &["lead", "--key", key], options, script)
    }

    pub(crate) fn run_at(&self, url: &str, key: &str, options: &[&str], script: &str) -> Running {
        self.goes_on(url, &["run", "--key", key], options, script)
    }

    fn goes_on(&self, url: &str, verb: &[&str], options: &[&str], script: &str) -> Running {
        let args = [verb, options, &["--", "sh", "-c", script]].concat();
        let mut command = self.dlock_at(url, &args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(&mut command)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What a command wrote into a file, once it is there.
    pub(crate) fn written(&self, name: &str) -> String {
        let path = self.path(name);
        let what = format!("{name} is written");
        until_blocking(&what, CAP, || {
            fs::read(&path).is_ok_and(|text| !text.is_empty())
        });
        fs::read_to_string(path).unwrap()
    }

    /// The numbers in a file, one a line; the last line may be cut off.
    pub(crate) fn stamps(&self, name: &str) -> Vec<u128> {
        let text = self.written(name);
        let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        whole
            .lines()
            .map(|line| line.trim().parse().unwrap())
            .collect()
    }

    /// The processes of the command under this lock, its watcher and what they started, wherever
    /// they have gone.
    pub(crate) fn processes(&self, key: &str) -> Vec<u32> {
        let port = self.server.port().to_string();
        let mark = format!("DLOCK_KEY={key}\0");
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let environment = String::from_utf8_lossy(&environment).into_owned();
            // Behind a colon: the fence of another test's lock may have the same digits.
            let mut rests = environment
                .split(':')
                .filter_map(|it| it.strip_prefix(&*port));
            let is_here = rests.any(|rest| !rest.starts_with(|it: char| it.is_ascii_digit()));
            (environment.contains(&mark) && is_here).then_some(pid)
        });
        pids.collect()
    }

    /// The process between `dlock run` and its command.
    pub(crate) fn watcher(&self, key: &str) -> u32 {
        let mut found = None;
        until_blocking("the watcher runs", CAP, || {
            found = self.processes(key).into_iter().find(|pid| {
                let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
                line.is_ok_and(|line| line.contains("__watch"))
            });
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until nothing of a command is left.
    pub(crate) fn until_gone(&self, key: &str) {
        let what = format!("no process under {key} is left");
        until_blocking(&what, CAP, || self.processes(key).is_empty());
    }

    /// Milliseconds that the lock's key has left; negative if it is free.
    pub(crate) fn left(&self, key: &str) -> i64 {
        let key = format!("lock:{key}");
        block(self.server.pttl(&key))
    }

    pub(crate) fn cmd(&self, words: &[&str]) {
        block(async { drop(self.server.cmd(words).await) });
    }
}

pub(crate) fn block<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

/// A `dlock` that runs. Dropped, it is killed, and its watcher ends the rest.
pub(crate) struct Running(Child);

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn of(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Its exit status, once it ends by itself.
    pub(crate) fn end(mut self) -> Ended {
        let mut status = None;
        until_blocking("dlock ends", CAP, || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.0
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .unwrap();
        self.0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        Ended {
            status: status.unwrap().code().unwrap_or(-1),
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have been reaped.
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// Sends a signal, by its name, to a process of this test.
pub(crate) fn signal(name: &str, pid: u32) {
    let status = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// Whether a program is installed; says loudly what is not tested without it.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status();
    let found = found.unwrap().success();
    if !found {
        eprintln!("NOT TESTED: {program} is not installed");
    }
    found
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
