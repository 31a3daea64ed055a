//! `dlock run` when its lock is lost or one of its processes is: the command, and all that it
//! started, ends before another can have the lock.

use std::time::{Duration, Instant};

use dlock_harness::wait::scaled;
use dlock_harness::{Proxy, RedisServer, until_blocking};

use crate::lab::{CAP, Lab, Running, signal};
use crate::run::{held, now};

/// A command that does not obey SIGTERM and writes the time again and again, itself and by a
/// grandchild in a session of its own.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'while :; do date +%s%N >> stamps; sleep 0.005; done' & while :; do date +%s%N >> stamps; sleep 0.005; done";
const LEASE: [&str; 4] = ["--ttl", "3s", "--grace", "500ms"];

/// Another run that waits for the lock, and writes the time when it has it.
fn rival(lab: &Lab) -> Running {
    lab.run("job", &["--wait", "1m"], "date +%s%N > rival")
}

/// The rival began after the last sign of life of the first.
fn in_order(lab: &Lab) {
    let rival = lab.stamps("rival")[0];
    let stamps = lab.stamps("stamps");
    let last = *stamps.iter().max().unwrap();
    assert!(last < rival, "{} ms too late", (last - rival) / 1_000_000);
}

fn stubborn(lab: &Lab, url: &str) -> Running {
    let running = lab.run_at(url, "job", &LEASE, STUBBORN);
    until_blocking("both write", CAP, || lab.processes("job").len() >= 3);
    lab.stamps("stamps");
    running
}

#[test]
fn stopped_it_ends_its_command_before_another_has_the_lock() {
    let lab = Lab::start();
    let first = stubborn(&lab, &lab.url);
    let second = rival(&lab);
    signal("STOP", first.pid());
    assert_eq!(second.end().status, 0);
    assert!(lab.processes("job").is_empty());
    in_order(&lab);
    signal("CONT", first.pid());
    let ended = first.end();
    assert_eq!(ended.status, 76, "{ended:?}");
    assert!(ended.stderr.contains("dlock: job was lost: "), "{ended:?}");
}

#[test]
fn killed_its_command_ends_long_before_the_lease() {
    let lab = Lab::start();
    let options = ["--ttl", "30s", "--grace", "500ms"];
    let first = held(&lab, "job", &options, STUBBORN);
    lab.stamps("stamps");
    signal("KILL", first.pid());
    lab.until_gone("job");
    let left = lab.left("job");
    assert!(left > 0, "the lock is still out of reach: {left}");
}

#[test]
fn a_killed_watcher_ends_the_command_and_the_lock_is_given_back() {
    let lab = Lab::start();
    let first = stubborn(&lab, &lab.url);
    signal("KILL", lab.watcher("job"));
    let ended = first.end();
    assert_eq!(ended.status, 70, "{ended:?}");
    assert!(lab.processes("job").is_empty());
    let at = now();
    assert!(*lab.stamps("stamps").iter().max().unwrap() < at);
    until_blocking("given back", CAP, || lab.left("job") < 0);
}

#[test]
fn what_a_shell_had_started_before_is_not_the_commands() {
    let lab = Lab::start();
    let dlock = env!("CARGO_BIN_EXE_dlock");
    let line = format!(
        "sleep 1000 & echo $! > helper; exec {dlock} run --key job -- sh -c 'echo > up; exec sleep 1000'"
    );
    let outer = lab.run("outer", &[], &line);
    let helper = u32::try_from(lab.stamps("helper")[0]).unwrap();
    lab.written("up");
    signal("KILL", lab.watcher("job"));
    until_blocking("the command is gone", CAP, || {
        lab.processes("job").is_empty()
    });
    until_blocking("the lock is free", CAP, || lab.left("job") < 0);
    signal("CONT", helper); // it is there
    signal("TERM", outer.pid());
    drop(outer);
}

#[test]
fn a_stopped_watcher_is_no_way_around() {
    let lab = Lab::start();
    let options = ["--ttl", "4s", "--grace", "200ms"];
    let first = held(&lab, "job", &options, STUBBORN);
    signal("STOP", lab.watcher("job"));
    lab.cmd(&["DEL", "lock:job"]);
    let ended = first.end();
    assert_eq!(ended.status, 76, "{ended:?}");
    assert!(lab.processes("job").is_empty());
}

#[test]
fn a_killed_command_takes_what_it_started_along() {
    let lab = Lab::start();
    let options = ["--ttl", "4s", "--grace", "200ms"];
    let first = held(
        &lab,
        "job",
        &options,
        "echo $$ > pid; setsid sleep 1000 & sleep 1000",
    );
    let pid = lab.stamps("pid")[0];
    signal("KILL", u32::try_from(pid).unwrap());
    let ended = first.end();
    assert_eq!(ended.status, 137, "{ended:?}");
    assert!(lab.processes("job").is_empty());
}

#[test]
fn cut_off_from_the_server_it_ends_its_command_before_another_has_the_lock() {
    let lab = Lab::start();
    let proxy = Proxy::start(lab.server.addr());
    let first = lab.run_at(&proxy.url(), "job", &LEASE, STUBBORN);
    lab.stamps("stamps");
    let second = rival(&lab);
    proxy.blackhole();
    assert_eq!(second.end().status, 0);
    in_order(&lab);
    let ended = first.end();
    assert_eq!(ended.status, 76, "{ended:?}");
    assert!(
        ended.stderr.contains("check the server and the network"),
        "{ended:?}"
    );
}

#[test]
fn a_right_that_a_renewal_lacks_is_named() {
    let lab = Lab::start();
    let first = held(&lab, "job", &LEASE, "sleep 1000");
    lab.cmd(&["ACL", "SETUSER", "default", "-pexpire"]);
    let ended = first.end();
    assert_eq!(ended.status, 76, "{ended:?}");
    let named = "(asked now: this user may not call `PEXPIRE`";
    assert!(ended.stderr.contains(named), "{ended:?}");
}

#[test]
fn a_stopped_server_ends_the_command_before_its_key_ends() {
    let lab = Lab::start();
    let options = ["--ttl", "6s", "--grace", "1s", "--lost-status", "3"];
    let first = held(&lab, "job", &options, STUBBORN);
    lab.stamps("stamps");
    let end = now() + u128::try_from(lab.left("job")).unwrap() * 1_000_000;
    lab.server.stop_signal();
    until_blocking("the command ends", CAP, || {
        !lab.processes("job").iter().any(|pid| is_shell(*pid))
    });
    let last = *lab.stamps("stamps").iter().max().unwrap();
    assert!(
        last < end,
        "{} ms too late",
        last.saturating_sub(end) / 1_000_000
    );
    lab.server.cont();
    let ended = first.end();
    assert_eq!(ended.status, 3, "{ended:?}");
}

fn is_shell(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sh")
}

#[test]
fn a_killed_server_ends_the_command_in_time() {
    let server = RedisServer::start();
    let lab = Lab::on(server);
    let first = stubborn(&lab, &lab.url);
    let began = Instant::now();
    lab.server.kill9();
    let ended = first.end();
    assert_eq!(ended.status, 76, "{ended:?}");
    assert!(
        began.elapsed() < scaled(Duration::from_secs(6)),
        "the lease and the release"
    );
    let last = *lab.stamps("stamps").iter().max().unwrap();
    assert!(now() - last < began.elapsed().as_nanos());
    assert!(lab.processes("job").is_empty());
}

#[test]
fn a_lock_that_was_taken_away_ends_the_command_after_a_grace() {
    let lab = Lab::start();
    let options = ["--ttl", "6s", "--grace", "500ms"];
    let obedient = held(
        &lab,
        "obedient",
        &options,
        "trap 'echo told; exit 0' TERM; while :; do sleep 0.01; done",
    );
    lab.cmd(&["DEL", "lock:obedient"]);
    let ended = obedient.end();
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (76, "told\n"),
        "{ended:?}"
    );
    assert!(
        ended
            .stderr
            .contains("deleted, flushed, evicted, taken over, or lost by its restart"),
        "{ended:?}"
    );

    let stubborn = held(&lab, "job", &options, STUBBORN);
    lab.cmd(&["DEL", "lock:job"]);
    assert_eq!(stubborn.end().status, 76);
    assert!(lab.processes("job").is_empty());

    let stopped = held(
        &lab,
        "stopped",
        &options,
        "trap 'echo x > told; exit' TERM; kill -STOP $$",
    );
    lab.cmd(&["DEL", "lock:stopped"]);
    assert_eq!(stopped.end().status, 76);
    lab.written("told");
}

#[test]
fn a_command_that_ends_after_its_lock_was_taken_away_does_not_succeed() {
    let lab = Lab::start();
    let running = held(&lab, "job", &[], "while [ ! -e go ]; do sleep 0.01; done");
    lab.cmd(&["DEL", "lock:job"]);
    std::fs::write(lab.path("go"), "").unwrap();
    let ended = running.end();
    assert_eq!(ended.status, 76, "{ended:?}");
    assert!(
        ended.stderr.contains("when the command had ended"),
        "{ended:?}"
    );
}

#[test]
fn an_outage_within_the_lease_is_not_noticed() {
    let lab = Lab::start();
    let proxy = Proxy::start(lab.server.addr());
    let options = ["--ttl", "6s", "--grace", "500ms"];
    let mut running = lab.run_at(&proxy.url(), "job", &options, "echo > up; sleep 5");
    lab.written("up");
    proxy.blackhole();
    dlock_harness::until_blocking("the first renewals have failed", CAP, || {
        lab.left("job") < 3_500
    });
    assert!(running.is_running());
    proxy.pass();
    let ended = running.end();
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
}
