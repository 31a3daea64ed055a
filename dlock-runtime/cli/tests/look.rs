//! The commands that look, and `evict`; what they print, and what happens when that can't be
//! written.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use dlock_harness::{Cluster, RedisServer, until_blocking};
use serde_json::Value;

use crate::lab::{CAP, Lab, Running, block, has, text};
use crate::run::held;

pub(crate) fn json(lab: &Lab, args: &[&str]) -> Value {
    let output = lab.output(args);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?}: {error}: {output:?}"))
}

#[test]
fn a_lock_is_listed_shown_waited_for_and_evicted() {
    let lab = Lab::start();
    let first = held(
        &lab,
        "item:7",
        &["--ttl", "2s", "--grace", "500ms"],
        "sleep 1000",
    );
    let second = lab.run("item:7", &["--wait", "1m"], "echo mine; sleep 0.2");
    until_blocking("one holds, one waits", CAP, || {
        json(&lab, &["show", "item:7", "--json"])["waiter_count"] == 1
    });

    let list = text(&lab.output(&["ls", "item:*"]).stdout);
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(
        lines[0].starts_with("KEY ") && lines[1].starts_with("item:7 "),
        "{list}"
    );
    assert!(
        lines[1].contains("exclusive") && lines[1].contains("dlock run"),
        "{list}"
    );
    assert!(
        text(&lab.output(&["ls", "other:*"]).stderr).contains("nobody holds a lock that matches")
    );
    let shown = text(&lab.output(&["show", "item:7"]).stdout);
    assert!(
        shown.contains("HELD BY") && shown.contains("WAITS"),
        "{shown}"
    );

    let late = lab.output(&["wait", "item:7", "--timeout", "100ms"]);
    assert_eq!(late.status.code(), Some(75));
    assert!(text(&late.stderr).contains("give a longer `--timeout`"));

    let wrong = lab.output(&["evict", "item:7", "--holder", "0000000000000000"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("nothing was changed; see `dlock show item:7`"));
    assert_eq!(
        lab.output(&["evict", "item:7", "--holder", "7"])
            .status
            .code(),
        Some(64)
    );
    let report = json(&lab, &["show", "item:7", "--json"]);
    let holder = report["holders"][0]["fingerprint"].as_str().unwrap();
    assert!(shown.contains(holder), "{shown}");
    let evicted = json(&lab, &["evict", "item:7", "--holder", holder, "--json"]);
    assert_eq!(
        (&evicted["result"], &evicted["told"]),
        (&"evicted".into(), &true.into())
    );
    let second = second.end();
    assert_eq!((second.status, second.stdout.as_str()), (0, "mine\n"));
    assert_eq!(first.end().status, 76, "it was told");

    assert_eq!(lab.output(&["wait", "item:7"]).status.code(), Some(0));
    assert_eq!(json(&lab, &["wait", "item:7", "--json"])["free"], true);
    assert!(text(&lab.output(&["show", "item:7"]).stdout).contains("is free"));
    assert_eq!(json(&lab, &["show", "item:7", "--json"])["holder_count"], 0);
    let free = lab.output(&["evict", "item:7", "--holder", holder]);
    assert_eq!(free.status.code(), Some(1));
}

/// In words, too; another program's lock names nobody who could be told.
#[test]
fn an_eviction_says_whether_the_holder_was_told() {
    let lab = Lab::start();
    let evict = |key: &str, rest: &[&str]| {
        let report = json(&lab, &["show", key, "--json"]);
        let holder = report["holders"][0]["fingerprint"].as_str().unwrap();
        lab.output(&[&["evict", key, "--holder", holder], rest].concat())
    };
    let holder = held(
        &lab,
        "ours",
        &["--ttl", "10m", "--grace", "1s"],
        "sleep 1000",
    );
    let said = text(&evict("ours", &[]).stdout);
    assert!(said.contains("a message was sent to it"), "{said}");
    assert_eq!(holder.end().status, 76, "long before its next renewal");

    let foreign = || lab.cmd(&["SET", "lock:foreign", "v"]);
    foreign();
    let said = text(&evict("foreign", &[]).stdout);
    assert!(said.contains("its entry names no address"), "{said}");
    foreign();
    let said: Value = serde_json::from_slice(&evict("foreign", &["--json"]).stdout).unwrap();
    assert_eq!(
        (&said["result"], &said["told"]),
        (&"evicted".into(), &false.into())
    );
}

#[test]
fn wait_ends_when_the_holder_does() {
    let lab = Lab::start();
    let holder = held(&lab, "job", &[], "while [ ! -e go ]; do sleep 0.01; done");
    let mut waiting = lab.dlock(&["wait", "job"]).spawn().unwrap();
    std::fs::write(lab.path("go"), "").unwrap();
    assert_eq!(holder.end().status, 0);
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

#[test]
fn top_sorts_by_those_who_wait() {
    let lab = Lab::start();
    let _busy = held(&lab, "b", &[], "sleep 1000");
    let _free = held(&lab, "a", &[], "sleep 1000");
    let _waits = lab.run("b", &["--wait", "1m"], "true");
    until_blocking("the contended lock is first", CAP, || {
        let top = json(&lab, &["top", "--json"]);
        let keys: Vec<_> = top["locks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["key"].as_str())
            .collect();
        assert_eq!(keys.len(), 2);
        keys == [Some("b"), Some("a")]
    });
    let once = text(&lab.output(&["top", "--once"]).stdout);
    let keys: Vec<_> = once
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(keys, ["KEY", "b", "a"]);
    let piped = lab.output(&["top"]);
    assert_eq!(piped.status.code(), Some(64));
    assert!(text(&piped.stderr).contains("give `--once` or `--json`"));
}

/// With several servers nobody queues at any of them: 0 would mean that nobody waits.
#[test]
fn who_waits_at_several_servers_is_not_said_to_be_nobody() {
    let lab = Lab::start();
    let nodes = [0; 3].map(|_| RedisServer::start());
    let hosts = nodes.each_ref().map(|it| it.addr().to_string()).join(",");
    let url = format!("redlock://{hosts}");
    let dlock = |args: &[&str]| {
        let mut command = lab.dlock_at(&url, args);
        command.env("DLOCK_MAX_TTL", "2s"); // which new servers wait before they vote
        command
    };
    let run = |script| {
        let mut command = dlock(&[
            "run", "--key", "k", "--wait", "1m", "--", "sh", "-c", script,
        ]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(&mut command)
    };
    let _holder = run("echo > held; sleep 1000");
    lab.written("held");
    let _waits = run("true");
    let output = |args: &[&str]| {
        let output = dlock(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        (text(&output.stdout), text(&output.stderr))
    };
    let why = "who waits can't be seen";
    for args in [&["ls"][..], &["top", "--once"]] {
        let (table, said) = output(args);
        let row = table.lines().nth(1).unwrap();
        assert!(row.starts_with("k ") && row.contains("  ?"), "{table}");
        assert!(said.contains(why), "{said}");
    }
    assert!(output(&["show", "k"]).0.contains(why));
    let (free, _) = output(&["show", "free"]);
    assert!(
        free.contains("free is free") && free.contains(why),
        "{free}"
    );
    for args in [
        ["show", "k", "--json"],
        ["show", "free", "--json"],
        ["ls", "k", "--json"],
    ] {
        let lock: Value = serde_json::from_str(&output(&args).0).unwrap();
        assert!(
            lock["waiter_count"].is_null() && lock["waiters"].is_null(),
            "{lock}"
        );
    }
}

#[test]
fn the_rest_of_a_cluster_is_shown_with_a_row_for_what_is_missing() {
    let lab = Lab::start();
    let cluster = block(Cluster::start(3));
    for (at, node) in cluster.nodes.iter().enumerate() {
        for n in 0..40 {
            let key = format!("lock:k{n}");
            // Each node takes those of its own slots.
            let set = ["SET", &key, "x", "PX", "60000"];
            drop(block(node.try_cmd(&set)));
        }
        assert!(!block(node.keys()).is_empty(), "node {at} has some");
    }
    let url = cluster.url();
    let output = |args: &[&str], status: i32| {
        let output = lab.dlock_at(&url, args).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        text(&output.stdout)
    };
    assert_eq!(output(&["ls"], 0).lines().count(), 41);
    output(&["check"], 0);
    let away = cluster.nodes[1].addr().to_string();
    let left = 40 - block(cluster.nodes[1].keys()).len();
    let lack = |rows: usize, why: &str| {
        for args in [&["ls"][..], &["top", "--once"]] {
            let table = output(args, 2);
            assert_eq!(table.lines().count(), 1 + rows + 1, "{args:?}: {table}");
            let missing = table.lines().find(|line| line.starts_with("(missing) "));
            assert!(missing.is_some_and(|line| line.contains(why)), "{table}");
        }
    };
    let second = &cluster.nodes[1];
    block(second.cmd(&["ACL", "SETUSER", "default", "-scan"]));
    lack(left, &away);
    block(second.cmd(&["ACL", "SETUSER", "default", "+scan"]));
    let free = block(cluster.slot("lock:free"));
    let owner = &cluster.nodes[block(cluster.owner(free))];
    let all_know = |slots: u32| {
        cluster.nodes.iter().all(|node| {
            let info: String = block(node.ask(&["CLUSTER", "INFO"]));
            info.contains(&format!("cluster_slots_assigned:{slots}"))
        })
    };
    for node in &cluster.nodes {
        block(node.cmd(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]));
    }
    // A message of the owner's, from before it dropped the slot, tells the others again.
    let mut looks = 0;
    until_blocking("no node knows an owner", CAP, || {
        if all_know(16_383) {
            looks += 1;
        } else {
            looks = 0;
            for node in std::iter::once(owner).chain(&cluster.nodes) {
                drop(block(node.try_cmd(&[
                    "CLUSTER",
                    "DELSLOTS",
                    &free.to_string(),
                ])));
            }
        }
        looks > 5
    });
    lack(40, "serves 1 of its slots");
    block(owner.cmd(&["CLUSTER", "ADDSLOTS", &free.to_string()]));
    until_blocking("all nodes know", CAP, || all_know(16_384));
    second.kill9();
    lack(left, &away);
    let lines = output(&["ls", "--json"], 2);
    assert_eq!(lines.lines().count(), left + 1, "{lines}");
    let missing: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(
        missing["missing"].as_str().unwrap().contains(&away),
        "{missing}"
    );
    let top: Value = serde_json::from_str(&output(&["top", "--json"], 2)).unwrap();
    assert_eq!(top["locks"].as_array().unwrap().len(), left);
    assert_eq!(top["complete"], false);
    assert!(top["missing"][0].as_str().unwrap().contains(&away), "{top}");
    let check = output(&["check"], 2);
    let row = check.lines().find(|line| line.contains("  unreachable  "));
    assert!(row.is_some_and(|line| line.contains(&away)), "{check}");
    // If none is left, nothing is.
    cluster.nodes[0].kill9();
    cluster.nodes[2].kill9();
    for args in [
        &["ls"][..],
        &["ls", "--json"],
        &["top", "--once"],
        &["check"],
    ] {
        assert_eq!(output(args, 69), "");
    }
}

#[test]
fn what_min_hold_keeps_is_marked_and_what_runs_is_named() {
    let lab = Lab::start();
    std::fs::write(lab.path("report.sh"), "exit 0").unwrap();
    let run = |key: &str, command: &[&str]| {
        let args = [&["run", "--key", key, "--min-hold", "5m", "--"], command].concat();
        assert!(lab.output(&args).status.success(), "{command:?}");
    };
    run("a", &["sh", "report.sh", "--password", "secret"]);
    run("b", &["sh", "-c", "exit 0 # secret"]);
    run("c", &["/bin/true", "secret"]);
    let list = text(&lab.output(&["ls"]).stdout);
    for (key, runs) in [("a", "sh report.sh"), ("b", "sh"), ("c", "true")] {
        let line = list.lines().find(|line| line.starts_with(key)).unwrap();
        assert!(line.contains(&format!(" dlock run {runs}  ")), "{list}");
        assert!(line.contains(" (min_hold)  "), "{list}");
    }
    assert!(!list.contains("secret"), "{list}");
    let _held = held(&lab, "d", &[], "sleep 1000");
    let shown = text(&lab.output(&["ls", "d"]).stdout);
    assert!(!shown.contains("min_hold"), "{shown}");
    let busy = lab.output(&["run", "--key", "d", "--skip", "--", "true"]);
    let said = text(&busy.stderr);
    assert!(
        said.contains("d is busy: held by dlock run sh of process"),
        "{said}"
    );
}

#[test]
fn check_has_status_1_if_something_harms() {
    let lab = Lab::start();
    let output = lab.output(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    lab.cmd(&[
        "CONFIG",
        "SET",
        "maxmemory-policy",
        "allkeys-lru",
        "maxmemory",
        "100mb",
    ]);
    let output = lab.output(&["check"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("\nharmful  eviction "), "{said}");
    let findings = json(&lab, &["check", "--json"]);
    assert_eq!(findings["harmful"], true);
    assert_eq!(findings["findings"][0]["concern"], "Eviction");
}

#[test]
fn bench_measures_and_leaves_nothing() {
    let lab = Lab::start();
    let measured = json(
        &lab,
        &["bench", "--time", "600ms", "--tasks", "8", "--json"],
    );
    let rows = measured["measured"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(
        rows.iter().all(|row| row["count"].as_u64().unwrap() > 0),
        "{measured}"
    );
    assert_eq!(text(&lab.output(&["ls"]).stdout), "");
    let table = text(
        &lab.output(&["bench", "--time", "300ms", "--tasks", "2"])
            .stdout,
    );
    assert_eq!(table.lines().count(), 5, "{table}");
}

/// All that print something without holding a lock for a command.
const PRINTING: [&[&str]; 10] = [
    &["ls"],
    &["ls", "--json"],
    &["show", "k1"],
    &["show", "k1", "--json"],
    &["top", "--once"],
    &["check"],
    &["wait", "free", "--json"],
    &["completions", "bash"],
    &["--help"],
    &["bench", "--time", "300ms", "--tasks", "1"],
];

fn many_locks(lab: &Lab) {
    for n in 0..300 {
        lab.cmd(&["SET", &format!("lock:k{n}"), "x", "PX", "60000"]);
    }
}

#[test]
fn a_full_disk_is_an_error_with_a_status() {
    let lab = Lab::start();
    many_locks(&lab);
    for args in PRINTING {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = lab.dlock(args).stdout(Stdio::from(full)).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(74), "{args:?}: {said}");
        assert!(
            said.contains("can't write to standard output"),
            "{args:?}: {said}"
        );
    }
    // The command writes for itself, and says what it thinks of it.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut run = lab.dlock(&["run", "--key", "job", "--", "sh", "-c", "echo x || exit 9"]);
    let output = run.stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    // A message that can't be written changes no status.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut wrong = lab.dlock(&["run", "--key", "job"]);
    assert_eq!(
        wrong.stderr(Stdio::from(full)).status().unwrap().code(),
        Some(64)
    );
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let lab = Lab::start();
    many_locks(&lab);
    for args in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = lab
            .dlock(args)
            .stdout(Stdio::from(writer))
            .output()
            .unwrap();
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(0), String::new()),
            "{args:?}"
        );
    }
    let line = format!("{} ls --json | head -1", env!("CARGO_BIN_EXE_dlock"));
    let mut shell = Command::new("sh");
    let output = shell
        .args(["-c", &line])
        .env("DLOCK_URL", &lab.url)
        .output()
        .unwrap();
    assert_eq!(
        (text(&output.stdout).lines().count(), output.stderr.len()),
        (1, 0)
    );
}

#[test]
fn the_names_of_foreign_keys_do_not_reach_the_terminal_as_they_are() {
    let lab = Lab::start();
    lab.cmd(&["SET", "lock:a\u{1b}[2Jb", "x", "PX", "60000"]);
    for args in [&["ls"][..], &["ls", "--json"], &["top", "--once"]] {
        let output = text(&lab.output(args).stdout);
        assert!(!output.contains('\u{1b}'), "{args:?}: {output:?}");
    }
}

/// Zsh completes only at a terminal.
#[test]
fn completions_complete() {
    let lab = Lab::start();
    for (shell, line) in [
        (
            "bash",
            "source ./bash; COMP_WORDS=(dlock run --); COMP_CWORD=2; _dlock dlock -- run; echo ${COMPREPLY[@]}",
        ),
        ("fish", "source ./fish; complete -C 'dlock run --'"),
    ] {
        std::fs::write(lab.path(shell), lab.output(&["completions", shell]).stdout).unwrap();
        if has(shell) {
            let mut command = Command::new(shell);
            command.args(["-c", line]).current_dir(lab.path("."));
            let output = command.env("HOME", lab.path(".")).output().unwrap();
            let said = text(&output.stdout);
            let words: Vec<_> = said.split_whitespace().collect();
            assert!(words.contains(&"--min-hold"), "{shell}: {output:?}");
        }
    }
}

#[test]
fn completions_are_scripts_that_the_shells_read() {
    let lab = Lab::start();
    for (shell, check) in [("bash", "bash -n"), ("zsh", "zsh -n"), ("fish", "fish -n")] {
        let script = lab.output(&["completions", shell]);
        assert_eq!(script.status.code(), Some(0));
        assert!(
            !text(&script.stdout).contains("__watch"),
            "it is no part of the interface"
        );
        std::fs::write(lab.path(shell), &script.stdout).unwrap();
        if has(shell) {
            let line = format!("{check} {}", lab.path(shell).display());
            assert!(
                Command::new("sh")
                    .args(["-c", &line])
                    .status()
                    .unwrap()
                    .success()
            );
        }
    }
}
