//! What the command says about mistakes: its own words, and what to type instead.

use serde_json::{Value, json};

use crate::lab::{Lab, text};

/// What the library says to programmers, and an operator can't act on.
const OF_THE_LIBRARY: [&str; 10] = [
    "Config::",
    "LockPool::",
    "lock_key!",
    "Key::verbatim",
    "`renew`",
    "repair_missing_ttl",
    "`wait`",
    "source()",
    "counter_per_slot",
    "with a pool",
];

#[track_caller]
fn check(lab: &Lab, args: &[&str], status: i32, why: &str) {
    let output = lab.output(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    assert!(
        said.starts_with("dlock: ") && said.contains(why),
        "{args:?}: {said}"
    );
    let theirs = OF_THE_LIBRARY.iter().find(|word| said.contains(*word));
    assert_eq!(theirs, None, "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn wrong_arguments_are_explained() {
    let lab = Lab::start();
    for (line, why) in [
        ("ls --limit 0", "at least 1"),
        ("ls --limit -1", "at least 1"),
        ("ls [", "without its `]`"),
        ("ls item:[a-", "without its `]`"),
        ("ls \\", "escapes nothing"),
        ("top --once [", "without its `]`"),
        ("run --key item:<id> -- true", "write the value itself"),
        ("wait item:<id>", "write the value itself"),
        ("run --key k --ttl -1s -- true", "contains '-'"),
        ("run --key k --wait -1s -- true", "contains '-'"),
        ("run --key k --busy-status -1 -- true", "0..=255"),
        (
            "run --key k --ttl 25h -- true",
            "`--ttl` can be 24h at most",
        ),
        (
            "run --key k --min-hold 25h -- true",
            "`--min-hold` can be 24h at most",
        ),
        (
            "run --key k --ttl 24h --grace 12h -- true",
            "give `--grace 11h59m59s` or less",
        ),
        (
            "run --key k --ttl 8s --grace 4s -- true",
            "give `--ttl 10s` or more, or `--grace 3s200ms` or less",
        ),
        ("run --key k ls -l", "dlock: the command goes behind a `--`"),
        ("run --key k ls -l", "`dlock run --key … -- ls …`"),
        ("run ls -l", "`--key` is missing, and the command goes"),
        ("run x -- echo", "`--key` is missing, and `x` belongs to no"),
        ("run x -- echo", "did you mean `--key x`?"),
        ("run --ttl 5s x -- echo --key k", "did you mean `--key x`?"),
        ("--json=run x", "unexpected value"),
        ("run --key=k x -- echo", "unexpected argument 'x'"),
        ("evict k abc", "did you mean `--holder abc`?"),
        ("evict k --holder abc x", "unexpected argument 'x'"),
        ("evict k", "--holder <FINGERPRINT>"),
        ("evict k --record --holder abc", "cannot be used with"),
        (
            "run --key k --once-per 500ms -- true",
            "or use `--min-hold` to keep the key",
        ),
        ("run --key k --once-per 367d -- true", "maximum of 366d"),
        ("run --key k --after-crash skip -- true", "--once-per <"),
        (
            "run --key k --once-per 1h --after-crash no -- true",
            "[possible values: again, skip]",
        ),
        (
            "lead --key k --once-per 20h -- true",
            "and `lead` asks for another lock: remove either",
        ),
        ("run -- echo", "--key <KEY>"),
        ("show k x", "unexpected argument 'x'"),
        ("run --key k --skip true", "`dlock run --key … -- true …`"),
        ("evict k --holder abc", "16 hexadecimal digits"),
    ] {
        let args: Vec<_> = line.split(' ').collect();
        check(&lab, &args, 64, why);
    }
    check(&lab, &["ls", ""], 64, "`*` is every lock");
    check(&lab, &["show", ""], 64, "the key is empty");
    check(&lab, &["--url", "", "ls"], 64, "`--url` is empty");
    let url = format!("redis+sentinel://{}/locks", lab.server.addr());
    let why = "give the sentinels' own ports";
    check(&lab, &["--url", &url, "ls"], 64, why);
}

/// What is copied from `redis-cli` would name another lock, free and beside the one that is meant.
#[test]
fn a_key_that_begins_with_the_namespace_is_refused() {
    let lab = Lab::start();
    lab.cmd(&["SET", "lock:importer", "x", "PX", "60000"]);
    for line in [
        "run --key lock:importer --skip -- touch ran",
        "wait lock:importer",
        "show lock:importer",
        "evict lock:importer --holder 0000000000000000",
        "ls lock:importer",
        "ls --json lock:imp*",
        "top --once lock:imp*",
    ] {
        let args: Vec<_> = line.split(' ').collect();
        let output = lab.output(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{line}: {said}");
        assert!(said.contains("write ") && said.contains("imp"), "{said}");
        assert!(said.contains("add `--verbatim`"), "{line}: {said}");
    }
    assert!(!lab.path("ran").exists());
    for (line, status) in [
        ("run --key lock:lock:x --skip --verbatim -- true", 0),
        ("run --key item:<id> --skip --verbatim -- true", 0),
        ("wait --verbatim lock:importer", 0),
        ("show --verbatim lock:importer", 0),
        ("ls --verbatim lock:imp*", 0),
        ("show importer", 0),
    ] {
        let args: Vec<_> = line.split(' ').collect();
        let output = lab.output(&args);
        assert_eq!(output.status.code(), Some(status), "{line}: {output:?}");
    }
    // Where it is not there, the namespace may be the wrong one.
    for args in [["show", "other"], ["ls", "other"]] {
        let mut elsewhere = lab.dlock(&args);
        let output = elsewhere.env("DLOCK_NAMESPACE", "eu:").output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("in the namespace \"eu:\""), "{said}");
    }
    let mut elsewhere = lab.dlock(&["show", "lock:importer"]);
    let output = elsewhere.env("DLOCK_NAMESPACE", "eu:").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_advice_about_times_works() {
    let lab = Lab::start();
    for line in [
        "run --key k --ttl 24h --grace 11h59m59s -- true",
        "run --key k --ttl 8s --grace 3s200ms -- true",
        "run --key k --ttl 10s --grace 4s -- true",
    ] {
        let args: Vec<_> = line.split(' ').collect();
        let output = lab.output(&args);
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    }
}

#[test]
fn refusals_are_explained() {
    let lab = Lab::start();
    lab.cmd(&["SET", "lock:endless", "x"]);
    let run = ["run", "--key", "endless", "--skip", "--", "true"];
    check(&lab, &run, 69, "(endless, stored as lock:endless)");
    check(&lab, &run, 69, "set DLOCK_REPAIR_MISSING_TTL");
    for (right, why) in [
        ("-evalsha", "set DLOCK_WITHOUT_SCRIPTS=true"),
        (
            "-set",
            "(to run `set`); on Redis, `dlock check` lists those that are missing",
        ),
    ] {
        let rights = [
            "ACL", "SETUSER", "worker", "on", ">x", "~*", "&*", "+@all", right,
        ];
        lab.cmd(&rights);
        let url = format!("redis://worker:x@{}", lab.server.addr());
        let run = ["--url", &url, "run", "--key", "k", "--skip", "--", "true"];
        check(&lab, &run, 69, why);
        lab.cmd(&["ACL", "DELUSER", "worker"]);
    }
    let mut sharded = lab.dlock(&["ls"]);
    let output = sharded.env("DLOCK_COUNTER_PER_SLOT", "true").output();
    let said = text(&output.unwrap().stderr);
    assert!(said.contains("with DLOCK_COUNTER_PER_SLOT"), "{said}");
    assert!(
        said.contains("list each shard by its own address"),
        "{said}"
    );
}

/// A name in angle brackets may be one that exists, so who looks is believed until nobody holds it.
#[test]
fn a_lock_of_any_name_is_shown() {
    let lab = Lab::start();
    check(&lab, &["show", "item:<id>"], 64, "looks like a placeholder");
    lab.cmd(&["SET", "lock:item:<id>", "x"]);
    let shown = text(&lab.output(&["show", "item:<id>"]).stdout);
    assert!(shown.starts_with("item:<id>: not dlock's"), "{shown}");
    assert!(
        shown.contains("no lease: it never ends by itself"),
        "{shown}"
    );
    let list = text(&lab.output(&["ls"]).stdout);
    assert!(list.contains("  no end  "), "{list}");
}

#[test]
fn a_free_lock_has_the_fields_of_any_other() {
    let lab = Lab::start();
    lab.cmd(&["SET", "lock:held", "x", "PX", "60000"]);
    let show = |key| -> Value {
        let output = lab.output(&["show", key, "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (free, held) = (show("free"), show("held"));
    assert!(held["fence_at_most"].is_string(), "{held}");
    assert_eq!(
        (&free["holders"], &free["waiters"]),
        (&json!([]), &json!([]))
    );
    let names =
        |report: &Value| -> Vec<String> { report.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(names(&free), names(&held));
}

#[test]
fn the_help_names_the_statuses_of_run() {
    let lab = Lab::start();
    let help = text(&lab.output(&["run", "--help"]).stdout);
    let (_, statuses) = help.split_once("Exit status:").unwrap();
    for status in ["64", "69", "70", "75", "76", "126", "127", "128 + n"] {
        assert!(statuses.contains(status), "{status}: {help}");
    }
}

#[test]
fn too_few_files_are_an_error_and_no_panic() {
    let lab = Lab::start();
    let dlock = env!("CARGO_BIN_EXE_dlock");
    let mut refused = 0;
    for files in (4..=40).step_by(2) {
        for words in ["ls", "run --key k -- true"] {
            let line = format!("ulimit -n {files}; exec {dlock} {words}");
            let mut shell = std::process::Command::new("/usr/bin/env");
            let shell = shell.args(["--default-signal", "sh", "-c", &line]);
            let output = shell.env("DLOCK_URL", &lab.url).output().unwrap();
            let said = text(&output.stderr);
            assert!(!said.contains("panicked"), "{files}, {words}: {said}");
            match output.status.code() {
                Some(0) => {}
                Some(70) => {
                    assert!(said.contains("ulimit -n 256"), "{files}, {words}: {said}");
                    refused += 1;
                }
                other => assert_eq!(other, Some(127), "the shell: {files}, {words}: {said}"),
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

/// What a script passes on may come from anywhere.
#[test]
fn no_message_prints_an_argument_as_it_is() {
    let lab = Lab::start();
    let bad = "x\x1b[31m\u{202e}\u{9b}\ndlock: forged\u{200b}";
    let [template, option] = [format!("a<{bad}>"), format!("--{bad}")];
    for args in [
        &["show", bad][..],
        &["ls", "--limit", bad],
        &["ls", &option],
        &["ls", "x", bad],
        &[bad],
        &["wait", &template],
        &["wait", "--timeout", bad, "k"],
        &["run", "--key", "k", "--ttl", bad, "--", "true"],
        &["run", "--key", "k", bad],
        &["run", "--key", "k", "--", bad],
        &["evict", "k", "--holder", bad],
        &["completions", bad],
        &["--url", bad, "ls"],
    ] {
        for json in [&[][..], &["--json"]] {
            let output = lab.output(&[json, args].concat());
            let said = text(&output.stderr);
            let hidden = said.lines().find_map(|line| {
                let at = dlock_grammar::visible::first_hidden(line)?;
                Some((line, at))
            });
            assert_eq!(hidden, None, "{args:?}: {said}");
            let forged = said.lines().skip(1).find(|line| line.starts_with("dlock:"));
            assert_eq!(forged, None, "{args:?}: {said}");
            assert!(!output.status.success() && !said.is_empty(), "{args:?}");
        }
    }
}
