//! `dlock run` while nothing is lost: statuses, input and output, signals, what a command leaves
//! behind.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dlock_harness::until_blocking;

use crate::lab::{CAP, Lab, Running, signal, text};

#[test]
fn the_status_is_the_commands() {
    let lab = Lab::start();
    for (script, status) in [
        ("true", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let ended = lab.run("job", &[], script).end();
        assert_eq!(
            (ended.status, ended.stderr.as_str()),
            (status, ""),
            "{script}"
        );
        assert!(lab.left("job") < 0, "released");
    }
    let missing = lab.output(&["run", "--key", "job", "--", "no-such-command"]);
    assert_eq!(missing.status.code(), Some(127));
    let said = text(&missing.stderr);
    assert!(
        said.contains("no command \"no-such-command\": check its name"),
        "{said}"
    );
    let data = lab.output(&["run", "--key", "job", "--", "/etc/passwd"]);
    assert_eq!(data.status.code(), Some(126));
    assert!(text(&data.stderr).contains("check that it is a program, and its permissions"));
}

#[test]
fn wrong_usage_is_64_and_no_server_69() {
    let lab = Lab::start();
    for (args, why) in [
        (&["run", "--", "true"][..], "--key <KEY>"),
        (&["run", "--key", "k"], "<COMMAND>"),
        (
            &["run", "--key", "k", "--ttl", "30", "--", "true"],
            "write \"30s\"",
        ),
        (
            &["run", "--key", "k", "--ttl", "500ms", "--", "true"],
            "at least 1s",
        ),
        (
            &[
                "run", "--key", "k", "--ttl", "8s", "--grace", "4s", "--", "true",
            ],
            "give `--ttl 10s`",
        ),
        (
            &["run", "--key", "k", "--skip", "--wait", "1s", "--", "true"],
            "cannot be used with",
        ),
        (&["run", "--key", "", "--", "true"], "key"),
        (&["--url", "http://x", "ls"], "redis://host:6379"),
        (
            &["--url", "memory://", "ls"],
            "give the address of a server",
        ),
        (&["top", "--every", "1ms", "--once"], "100ms"),
        (&["nonsense"], "unrecognized subcommand"),
    ] {
        let output = lab.output(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {said}");
        assert!(
            said.starts_with("dlock: ") && said.contains(why),
            "{args:?}: {said}"
        );
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    let enough = [
        "run", "--key", "k", "--ttl", "10s", "--grace", "4s", "--", "true",
    ];
    assert_eq!(lab.output(&enough).status.code(), Some(0));

    let nowhere = lab.dlock_at(
        "redis://127.0.0.1:1",
        &["run", "--key", "k", "--json", "--", "true"],
    );
    let output = { nowhere }.output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(
        (&error["error"], &error["status"]),
        (&"unavailable".into(), &69.into())
    );

    let without = lab.dlock(&["ls"]).env_remove("DLOCK_URL").output().unwrap();
    assert_eq!(without.status.code(), Some(64));
    assert!(text(&without.stderr).contains("DLOCK_URL is not set"));
}

#[test]
fn a_busy_lock_has_a_status_that_can_be_chosen() {
    let lab = Lab::start();
    let _holder = held(&lab, "job", &[], "sleep 1000");
    for (options, status) in [
        (&["--skip"][..], 75),
        (&["--wait", "100ms"], 75),
        (&["--skip", "--busy-status", "0"], 0),
    ] {
        let ended = lab.run("job", options, "touch ran").end();
        assert_eq!(ended.status, status, "{options:?}");
        assert!(
            ended
                .stderr
                .contains("dlock: job is busy: held by dlock run sh of"),
            "{ended:?}"
        );
    }
    assert!(!lab.path("ran").exists());
}

#[test]
fn input_output_and_environment_are_the_commands_own() {
    let lab = Lab::start();
    let script = "cat; echo error >&2; echo $DLOCK_KEY $DLOCK_FENCE $DLOCK_URL $ZEBRA; ls /proc/$$/fd > fds; true";
    let mut command = lab.dlock(&["run", "--key", "job:7", "--", "sh", "-c", script]);
    command.env("ZEBRA", "stripes").stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"in\0put\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), "error\n".to_owned())
    );
    let said = text(&output.stdout);
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("in\0put"));
    let words: Vec<_> = lines.next().unwrap().split(' ').collect();
    assert_eq!(
        (words[0], words[2], words[3]),
        ("job:7", lab.url.as_str(), "stripes")
    );
    let first: u64 = words[1].parse().unwrap();
    let plain = Command::new("sh")
        .args(["-c", "ls /proc/$$/fd > plain; true"])
        .current_dir(lab.path("."))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .output();
    assert!(plain.unwrap().status.success());
    assert_eq!(lab.written("fds"), lab.written("plain"), "open files");

    let again = lab.run("job:7", &[], "echo $DLOCK_FENCE").end();
    assert!(again.stdout.trim().parse::<u64>().unwrap() > first);

    // The program inside may be one that uses dlock itself.
    let nested = format!(
        "{} run --key other -- echo inside",
        env!("CARGO_BIN_EXE_dlock")
    );
    let nested = lab.run("job:7", &[], &nested).end();
    assert_eq!(
        (nested.status, nested.stdout.as_str()),
        (0, "inside\n"),
        "{nested:?}"
    );
}

#[test]
fn signals_reach_the_command_and_its_group() {
    let lab = Lab::start();
    for name in ["INT", "TERM", "HUP", "QUIT", "USR1"] {
        let key = format!("job-{name}");
        let script = format!(
            "trap 'echo outer; exit 5' {name}; sh -c \"trap 'echo inner; exit' {name}; echo > ready-{key}; while :; do sleep 0.01; done\""
        );
        let running = lab.run(&key, &[], &script);
        lab.written(&format!("ready-{key}"));
        signal(name, running.pid());
        let ended = running.end();
        assert_eq!(ended.status, 5, "{name}: {ended:?}");
        assert_eq!(ended.stdout, "inner\nouter\n", "{name}");
    }
    let running = held(&lab, "job", &[], "sleep 1000");
    signal("TERM", running.pid());
    let ended = running.end();
    assert_eq!((ended.status, ended.stderr.as_str()), (143, ""));
}

#[test]
fn who_waits_for_a_lock_waits_for_its_server() {
    let lab = Lab::start();
    lab.server.kill9();
    let began = Instant::now();
    let once = lab.run("job", &["--skip"], "true").end();
    assert_eq!(once.status, 69, "{once:?}");
    assert!(began.elapsed() < dlock_harness::wait::scaled(Duration::from_secs(10)));
    let waiting = lab.run("job", &["--wait", "1m"], "echo done");
    std::thread::sleep(Duration::from_millis(200)); // it may have tried
    lab.server.restart_empty();
    let ended = waiting.end();
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "done\n"),
        "{ended:?}"
    );

    let wrong = format!("redis://nobody:wrong@{}", lab.server.addr());
    let refused = lab.run_at(&wrong, "job", &["--wait", "1m"], "true").end();
    assert_eq!(
        refused.status, 69,
        "a wrong password is not waited for: {refused:?}"
    );
}

/// As on a disk that hangs. Its thread can't be ended, and nothing waits for it.
#[test]
fn a_certificate_file_that_blocks_is_waited_for_as_long_as_its_server() {
    let lab = Lab::start();
    let pipe = lab.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let url = format!("rediss://{}?tls_ca={}", lab.server.addr(), pipe.display());
    let start = |args: &[&str]| {
        let mut command = lab.dlock_at(&url, args);
        command.env("DLOCK_CONNECT_TIMEOUT", "600ms");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(&mut command)
    };
    for args in [
        &["ls"][..],
        &["check"],
        &["run", "--key", "job", "--skip", "--", "true"],
    ] {
        let ended = start(args).end();
        assert_eq!(ended.status, 69, "{args:?}: {ended:?}");
    }
    for (name, status) in [("TERM", 143), ("INT", 130)] {
        let waits = start(&["run", "--key", "job", "--wait", "forever", "--", "true"]);
        std::thread::sleep(Duration::from_millis(500)); // it may have tried
        signal(name, waits.pid());
        assert_eq!(waits.end().status, status, "{name}");
    }
}

#[test]
fn a_signal_ends_the_waiting_and_leaves_nothing() {
    let lab = Lab::start();
    let _holder = held(&lab, "job", &[], "sleep 1000");
    let waiter = lab.run("job", &["--wait", "forever"], "touch ran");
    let waiting = || text(&lab.output(&["show", "job"]).stdout).contains("WAITS");
    until_blocking("it waits", CAP, waiting);
    signal("INT", waiter.pid());
    assert_eq!(waiter.end().status, 130);
    until_blocking("its place is gone", CAP, || !waiting());
    assert!(!lab.path("ran").exists());
}

#[test]
fn what_was_ignored_stays_ignored() {
    let lab = Lab::start();
    let script = "echo $PPID > watcher; kill -HUP $$; touch ready; sleep 0.5; echo alive";
    let line = format!(
        "trap '' HUP; exec {} run --key job -- sh -c '{script}'",
        env!("CARGO_BIN_EXE_dlock")
    );
    let mut command = lab.dlock(&["run", "--key", "outer", "--", "sh", "-c", &line]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    lab.written("watcher");
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), "alive\n".to_owned())
    );
}

#[test]
fn what_the_command_leaves_behind_is_ended_before_the_release() {
    let lab = Lab::start();
    let script = "sleep 1000 & setsid sh -c 'trap \"\" TERM; while :; do date +%s%N >> late; sleep 0.01; done' & exit 3";
    let ended = lab
        .run("job", &["--ttl", "4s", "--grace", "300ms"], script)
        .end();
    let at = now();
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("left processes running, which were ended"),
        "{ended:?}"
    );
    assert!(lab.processes("job").is_empty());
    assert!(*lab.stamps("late").last().unwrap() < at);
    assert!(lab.left("job") < 0, "released");
}

/// What forks while the process table is read is in no listing of it, but holds the lock.
#[test]
fn a_chain_of_short_processes_holds_the_lock() {
    let lab = Lab::start();
    let script =
        "f() { date +%s%N >> chain; [ $1 -eq 0 ] || f $(($1 - 1)) & exit; }; f 150 & exit 0";
    for _ in 0..5 {
        let ended = lab.run("job", &["--grace", "7s"], script).end();
        let end = now();
        assert_eq!(ended.status, 0, "{ended:?}");
        assert!(lab.processes("job").is_empty());
        let last = lab.stamps("chain").into_iter().max().unwrap();
        assert!(last < end, "it went on for {} ms", (last - end) / 1_000_000);
    }
}

#[test]
fn what_ends_by_itself_within_the_grace_is_not_disturbed() {
    let lab = Lab::start();
    let script = "(trap 'exit 9' TERM; sleep 0.3; echo whole > log) & exit 0";
    let ended = lab.run("job", &[], script).end();
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    assert_eq!(lab.written("log"), "whole\n", "before `dlock run` ends");
}

#[test]
fn a_grant_that_was_waited_for_is_renewed_before_anything_ends() {
    // The server grants such a lock for 3 s, less than the grace and its margin.
    let lab = Lab::start();
    let holder = held(&lab, "job", &[], "sleep 0.5; date +%s%N > first");
    let second = lab.run("job", &["--wait", "1m"], "date +%s%N > second; sleep 3.5");
    assert_eq!(holder.end().status, 0);
    let ended = second.end();
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    assert!(lab.stamps("first")[0] < lab.stamps("second")[0]);
}

#[test]
fn a_lock_can_be_kept_after_a_short_command() {
    let lab = Lab::start();
    let options = ["--skip", "--min-hold", "1m"];
    let first = lab.run("nightly", &options, "echo done").end();
    assert_eq!((first.status, first.stdout.as_str()), (0, "done\n"));
    let late = lab.run("nightly", &options, "echo again").end();
    assert_eq!((late.status, late.stdout.as_str()), (75, ""));
    assert!(lab.left("nightly") > 30_000, "longer than the lease");
}

#[test]
fn orphans_do_not_pile_up_as_zombies() {
    let lab = Lab::start();
    let script = "i=0; while [ $i -lt 50 ]; do (true &); i=$((i+1)); done; touch made; sleep 1000";
    let _running = held(&lab, "job", &[], script);
    until_blocking("made", CAP, || lab.path("made").exists());
    let watcher = lab.watcher("job");
    until_blocking("only the command is a child of the watcher", CAP, || {
        let children = std::fs::read_to_string(format!("/proc/{watcher}/task/{watcher}/children"));
        children.unwrap().split_whitespace().count() == 1
    });
}

/// Rust's runtime hides both from `dlock` before its first line; the page says so.
#[test]
fn a_closed_stream_and_an_ignored_sigpipe_are_not_passed_on() {
    let lab = Lab::start();
    let dlock = env!("CARGO_BIN_EXE_dlock");
    let script = "readlink /proc/$$/fd/0; grep SigIgn /proc/$$/status";
    let line = format!("trap '' PIPE; exec {dlock} run --key k -- sh -c '{script}' <&-");
    let mut shell = Command::new("/usr/bin/env");
    shell.args(["--default-signal", "setsid", "sh", "-c", &line]);
    let output = shell.env("DLOCK_URL", &lab.url).output().unwrap();
    let said = text(&output.stdout);
    let (stdin, ignored) = said.split_once('\n').unwrap();
    assert_eq!(stdin, "/dev/null");
    let ignored = ignored.trim().trim_start_matches("SigIgn:").trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let pipe = 1 << (rustix::process::Signal::PIPE.as_raw() - 1);
    assert_eq!(ignored & pipe, 0, "{said}");
}

#[test]
fn as_cron_and_without_a_terminal_it_works_quickly() {
    let lab = Lab::start();
    let mut command = lab.dlock(&[
        "run",
        "--key",
        "nightly",
        "--skip",
        "--",
        "/bin/sh",
        "-c",
        "echo done",
    ]);
    command.env("PATH", "/nowhere").current_dir("/");
    let began = Instant::now();
    let output = command.output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), "done\n".to_owned())
    );
    assert!(began.elapsed() < dlock_harness::wait::scaled(Duration::from_secs(5)));
}

/// A run that holds its lock, with its command started.
pub(crate) fn held(lab: &Lab, key: &str, options: &[&str], script: &str) -> Running {
    let mark = format!("started-{key}");
    let running = lab.run(key, options, &format!("echo > {mark}; {script}"));
    lab.written(&mark);
    running
}

/// As `date +%s%N`.
pub(crate) fn now() -> u128 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}
