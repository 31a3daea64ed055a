//! The command reads each setting of the environment as a program does that uses the library: with
//! the same value both take the same lock, or say the same mistake.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dlock_harness::{RedisServer, until_blocking, wait};
use dlock_runtime::{Config, LockError, LockPool};

use crate::lab::{CAP, Lab, block, text};
use crate::run::held;

const PAGE: &str = include_str!("../../../docs/reference/configuration.md");

/// Each variable with values that count, or do not, and what the value changes in the lock on the
/// server, in its `Debug`.
const SETTINGS: &[(&str, &[&str], &str)] = &[
    (
        "DLOCK_URL",
        &["redis://127.0.0.1:1/x", "", "http://x", "env:NOWHERE"],
        "",
    ),
    ("DLOCK_TLS_CA", &["/nowhere.pem", ""], ""),
    ("DLOCK_TLS_CERT", &["/nowhere.pem", ""], ""),
    ("DLOCK_TLS_KEY", &["/nowhere.pem", ""], ""),
    ("DLOCK_TLS_SERVER_NAME", &["redis.internal", ""], ""),
    ("DLOCK_NAMESPACE", &["eu:", "{a}", "lock:"], "key: \"eu:k\""),
    (
        "DLOCK_DEFAULT_TTL",
        &["77s", "9ms", "25h", "30"],
        "lease: \"77000\"",
    ),
    ("DLOCK_MAX_TTL", &["20s", "x"], ""),
    ("DLOCK_DEFAULT_WAIT", &["10ms", "forever", "x"], ""),
    ("DLOCK_DEFAULT_MAX_HOLD", &["1m", "9ms"], ""),
    ("DLOCK_RELEASE", &["background", "strict", "x"], ""),
    ("DLOCK_CONNECT_TIMEOUT", &["2s", "2h"], ""),
    ("DLOCK_COMMAND_TIMEOUT", &["2s", "2h"], ""),
    ("DLOCK_LAZY", &["true", "false", "maybe"], ""),
    ("DLOCK_HOLDER_NAME", &["web-3", "a\nb"], "host: \"web-3\""),
    ("DLOCK_SLOW_ACQUIRE", &["1s", "0s"], ""),
    ("DLOCK_LONG_HOLD", &["1s", "0s"], ""),
    (
        "DLOCK_GRANT_SECRET",
        &["0123456789abcdef0123456789abcdef", "short"],
        "",
    ),
    ("DLOCK_LOCK_ORDER", &["refuse", "x"], ""),
    ("DLOCK_SPAN_LEVEL", &["info", "x"], ""),
    ("DLOCK_REPAIR_MISSING_TTL", &["1m", "1ms"], ""),
    ("DLOCK_CONNECTIONS", &["2", "65"], ""),
    ("DLOCK_MAX_IN_FLIGHT", &["9", "0"], ""),
    ("DLOCK_WITHOUT_SCRIPTS", &["true", "x"], ""),
    ("DLOCK_COUNTER_PER_SLOT", &["true", "x"], ""),
    ("DLOCK_MIN_REPLICAS", &["65", "x"], ""),
    ("DLOCK_MIN_AOF", &["65", "x"], ""),
    ("DLOCK_LOCAL_HANDOFF", &["0", "x"], ""),
    ("DLOCK_CLOCK_MARGIN", &["9", "21"], ""),
    ("DLOCK_SHUTDOWN_GRACE", &["20s", "6m"], ""),
    ("DLOCK_POLL_INTERVAL", &["50ms", "2s"], ""),
    ("DLOCK_HEALTH_CHECK_INTERVAL", &["1m", "2h"], ""),
    ("DLOCK_LOCKS", &["x"], ""), // none of dlock's
];

/// What there is of the lock `k` on the server while somebody has it, or why nobody could take it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Taken {
        key: String,
        lease: String,
        host: String,
    },
    Failed(String),
}

#[test]
fn each_is_read_as_the_library_does() {
    let lab = Lab::start();
    for (name, values, changes) in SETTINGS {
        for (at, value) in values.iter().enumerate() {
            let outcomes = [true, false].map(|by_command| {
                let mut program = if by_command {
                    lab.dlock(&["run", "--key", "k", "--", "cat"])
                } else {
                    as_a_program(&lab)
                };
                outcome(&lab, program.env(name, value))
            });
            let debug = format!("{:?}", outcomes[1]);
            assert!(at > 0 || debug.contains(changes), "{name}={value}: {debug}");
            assert_eq!(outcomes[0], outcomes[1], "{name}={value}");
        }
    }
    let rows = PAGE.lines().filter_map(|line| line.split('|').nth(2));
    let named = rows.flat_map(|cell| cell.split('`'));
    let named = named
        .filter(|it| it.starts_with("DLOCK_"))
        .map(|it| it.split('=').next());
    for name in named.flatten() {
        assert!(SETTINGS.iter().any(|it| it.0 == name), "{name} has no row");
    }
}

/// Without `--wait` the default counts, which is the one of these that shows only at a busy lock.
#[test]
fn the_default_wait_counts() {
    let lab = Lab::start();
    let _holder = held(&lab, "k", &[], "sleep 1000");
    let began = Instant::now();
    let mut waits = lab.dlock(&["run", "--key", "k", "--", "true"]);
    let output = waits.env("DLOCK_DEFAULT_WAIT", "0s").output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{output:?}");
    assert!(began.elapsed() < wait::scaled(Duration::from_millis(2_500)));
}

/// The longest lease of a fleet is the default of all that ask for no other.
#[test]
fn a_fleet_with_short_leases_is_run_and_measured() {
    let nodes = [0; 3].map(|_| RedisServer::start());
    let hosts = nodes.each_ref().map(|it| it.addr().to_string()).join(",");
    let lab = Lab::start();
    let url = format!("redlock://{hosts}");
    for args in [
        &["run", "--key", "k", "--wait", "1m", "--", "true"][..],
        &["bench", "--time", "300ms", "--tasks", "1"],
    ] {
        let mut command = lab.dlock_at(&url, args);
        let output = command.env("DLOCK_MAX_TTL", "2s").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    }
    let mut short = lab.dlock(&["run", "--key", "k", "--", "true"]);
    let output = short.env("DLOCK_DEFAULT_TTL", "500ms").output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(text(&output.stderr).contains("or a longer DLOCK_DEFAULT_TTL"));
}

/// This program as one that uses the library, in the environment that `dlock` has.
fn as_a_program(lab: &Lab) -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "settings::a_program", "--ignored", "--nocapture"]);
    program.env_clear().env("PATH", "/usr/bin:/bin");
    program.env("DLOCK_URL", &lab.url);
    program
}

/// Until the lock is there or the program has ended, whichever is first.
fn outcome(lab: &Lab, program: &mut Command) -> Outcome {
    program.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = program.stderr(Stdio::piped()).spawn().unwrap();
    let (mut found, mut has_ended) = (None, false);
    until_blocking("the lock is taken, or its program ends", CAP, || {
        found = taken(lab);
        has_ended = child.try_wait().unwrap().is_some();
        found.is_some() || has_ended
    });
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    until_blocking("it is free again", CAP, || taken(lab).is_none());
    found.unwrap_or_else(|| {
        let said = text(&output.stderr);
        let line = said.lines().find(|line| line.starts_with("dlock: "));
        Outcome::Failed(line.unwrap_or(&said).to_owned())
    })
}

fn taken(lab: &Lab) -> Option<Outcome> {
    block(async {
        let keys = lab.server.keys().await;
        let key = keys.into_iter().find(|key| key.ends_with(":k"))?;
        let value: Option<String> = lab.server.ask(&["GET", &key]).await;
        let value = value?;
        let fields: Vec<_> = value.split('|').collect();
        Some(Outcome::Taken {
            key,
            lease: fields[4].to_owned(),
            host: fields[8].to_owned(),
        })
    })
}

/// Asks for the lock as a program does, and keeps it until its input ends.
#[test]
#[ignore = "a program that `as_a_program` starts"]
fn a_program() {
    let hold = async || -> Result<(), LockError> {
        let pool = LockPool::connect(Config::from_env()?.lazy()).await?;
        let guard = pool.lock("k").renew().acquire().await?;
        let input = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = tokio::task::spawn_blocking(input).await;
        guard.release().await?;
        pool.shutdown().await;
        Ok(())
    };
    match block(hold()) {
        Ok(()) => {}
        Err(LockError::Config { why, .. }) => eprintln!("dlock: {why}"),
        Err(error) => eprintln!("dlock: {error}"),
    }
}
