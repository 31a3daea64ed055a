//! No password, token or value in anything that the command prints.

use dlock_harness::RedisServer;

use crate::lab::{Lab, block, text};
use crate::run::held;

/// What must not be seen of an entry: all of it, and each part of its token in pieces.
fn canaries(entry: &str) -> Vec<String> {
    let token = entry.split('|').nth(2).unwrap();
    let parts = token.split('-').filter(|part| part.len() > 8);
    let pieces = parts.flat_map(|part| (0..=part.len() - 8).map(|at| part[at..at + 8].to_owned()));
    pieces.chain([entry.to_owned()]).collect()
}

#[test]
fn in_no_output_and_no_error() {
    let lab = Lab::on(RedisServer::builder().password("canary-password").start());
    let _holder = held(&lab, "item:7", &["--ttl", "20s"], "sleep 1000");
    lab.cmd(&["SET", "lock:foreign", "canary-value", "PX", "60000"]);
    lab.cmd(&[
        "SET",
        "lock:other",
        "7|x|canary-token|canary-later",
        "PX",
        "60000",
    ]);
    lab.cmd(&["SADD", "lock:set", "canary-member"]);
    let mut secrets = canaries(&block(lab.server.ask::<String>(&["GET", "lock:item:7"])));
    secrets.push("canary".to_owned());
    let of_one_part = 16 - 8 + 1;
    assert!(secrets.len() > 2 + of_one_part, "of both random parts");

    let wrong = format!("redis://:canary-wrong@{}", lab.server.addr());
    let broken = "redis://user:canary-broken@:x:/";
    let commands: [&[&str]; 18] = [
        &["ls"],
        &["show", "item:7"],
        &["show", "foreign"],
        &["show", "other"],
        &["show", "set"],
        &["top", "--once"],
        &["check"],
        &["wait", "item:7", "--timeout", "10ms"],
        &["wait", "other", "--timeout", "10ms"],
        &["wait", "set", "--timeout", "10ms"],
        &["evict", "foreign", "--holder", "0000000000000000"],
        &["evict", "other", "--holder", "0000000000000000"],
        &["run", "--key", "item:7", "--skip", "--", "true"],
        &["run", "--key", "foreign", "--skip", "--", "true"],
        &["run", "--key", "set", "--skip", "--", "true"],
        &["--url", &wrong, "ls"],
        &["--url", broken, "ls"],
        &["--help"],
    ];
    for command in commands {
        for json in [&[][..], &["--json"]] {
            let args = [json, command].concat();
            let output = lab.output(&args);
            let said = text(&output.stdout) + &text(&output.stderr);
            let shown = secrets.iter().find(|secret| said.contains(secret.as_str()));
            assert_eq!(shown, None, "{command:?}: {said}");
            let bytes = output.stdout.len() + output.stderr.len();
            assert!(bytes > 0 || output.status.success(), "{command:?}");
        }
    }
}
