//! `dlock run --once-per`, and what `show` and `evict` say and do about its last run.

use serde_json::Value;

use crate::lab::{Ended, Lab, Running, signal, text};
use crate::look::json;
use crate::run::held;

const DAILY: [&str; 3] = ["--skip", "--once-per", "20h"];

fn options<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&DAILY[..], more].concat()
}

/// It did not run, because it is not due.
#[track_caller]
fn is_not_due(ended: &Ended, status: i32, why: &[&str]) {
    assert_eq!(ended.status, status, "{ended:?}");
    let begins = "dlock: nightly is not due: dlock run sh of process ";
    for words in [&[begins, "; it may run again in 20 h"], why].concat() {
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
    }
}

#[test]
fn what_ended_with_0_does_not_run_again_within_the_period() {
    let lab = Lab::start();
    let run = |more: &[&str]| lab.run("nightly", &options(more), "echo ran").end();
    let first = run(&[]);
    assert_eq!((first.status, first.stdout.as_str()), (0, "ran\n"));
    for (more, status) in [
        (&[][..], 75),
        (&["--busy-status", "0"], 0),
        (&["--after-crash", "skip"], 75),
    ] {
        let again = run(more);
        is_not_due(&again, status, &[" ran it "]);
        assert_eq!(again.stdout, "", "{more:?}");
        assert!(lab.left("nightly") < 0, "the lock was not taken");
    }
    let error = run(&["--json"]).stderr;
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(
        (&error["error"], &error["status"]),
        (&"not_due".into(), &75.into())
    );
    let whenever = lab.run("nightly", &["--skip"], "echo ran").end();
    assert_eq!(whenever.stdout, "ran\n", "it does not say once per period");
}

/// One that waits for another host's run does not run after it.
#[test]
fn who_waits_for_a_run_is_not_due_after_it() {
    let lab = Lab::start();
    let script = "while [ ! -e go ]; do sleep 0.01; done";
    let first = held(&lab, "nightly", &["--once-per", "20h"], script);
    let second = ["--once-per", "20h", "--wait", "1m"];
    let second = lab.run("nightly", &second, "touch ran");
    until_it_waits(&lab);
    std::fs::write(lab.path("go"), "").unwrap();
    assert_eq!(first.end().status, 0);
    is_not_due(&second.end(), 75, &[]);
    assert!(!lab.path("ran").exists());
}

fn until_it_waits(lab: &Lab) {
    dlock_harness::until_blocking("it waits", crate::lab::CAP, || {
        json(lab, &["show", "nightly", "--json"])["waiter_count"] == 1
    });
}

#[test]
fn what_failed_runs_again() {
    let lab = Lab::start();
    for crash in ["again", "skip"] {
        let options = options(&["--after-crash", crash]);
        for (script, status) in [("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
            let ended = lab.run("nightly", &options, script).end();
            assert_eq!(ended.status, status, "{crash}: {ended:?}");
        }
        let args = [&["run", "--key", "nightly"], &options[..]].concat();
        let missing = lab.output(&[&args[..], &["--", "no-such-command"]].concat());
        assert_eq!(missing.status.code(), Some(127), "{crash}");
        let told = lab.run("nightly", &options, "echo > began; sleep 1000");
        lab.written("began");
        signal("TERM", told.pid());
        assert_eq!(told.end().status, 143, "{crash}");
        std::fs::remove_file(lab.path("began")).unwrap();

        let shown = json(&lab, &["show", "nightly", "--json"]);
        assert_eq!(shown["last_run"], Value::Null, "{crash}");
        let ended = lab.run("nightly", &options, "exit 0").end();
        assert_eq!(ended.status, 0, "{crash}: {ended:?}");
        is_not_due(&lab.run("nightly", &options, "true").end(), 75, &[]);
        assert!(
            lab.output(&["evict", "nightly", "--record"])
                .status
                .success()
        );
    }
}

#[test]
fn what_died_with_its_dlock_runs_again_or_is_skipped() {
    let lab = Lab::start();
    let crashed = |crash: &str| -> Vec<&str> {
        let times = ["--ttl", "2s", "--grace", "500ms", "--once-per", "20h"];
        let run: Running = held(
            &lab,
            "nightly",
            &[&times[..], &["--after-crash", crash]].concat(),
            "sleep 1000",
        );
        signal("KILL", run.pid());
        drop(run);
        lab.until_gone("nightly");
        std::fs::remove_file(lab.path("started-nightly")).unwrap();
        vec!["--once-per", "20h", "--wait", "1m"]
    };
    let after = crashed("skip");
    let ended = lab.run("nightly", &after, "touch ran").end();
    is_not_due(&ended, 75, &[" (no end is recorded)"]);
    assert!(!lab.path("ran").exists());
    let shown = json(&lab, &["show", "nightly", "--json"]);
    assert_eq!(shown["last_run"]["took_ms"], Value::Null, "{shown}");
    let shown = text(&lab.output(&["show", "nightly"]).stdout);
    assert!(shown.contains("(no end is recorded)"), "{shown}");
    assert!(
        lab.output(&["evict", "nightly", "--record"])
            .status
            .success()
    );

    let after = crashed("again");
    let ended = lab.run("nightly", &after, "echo ran").end();
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "ran\n"));
}

#[test]
fn the_last_run_is_shown_and_forgotten() {
    let lab = Lab::start();
    let evict = |more: &[&str]| lab.output(&[&["evict", "nightly", "--record"], more].concat());
    let none = evict(&[]);
    assert_eq!(none.status.code(), Some(1));
    let said = text(&none.stderr);
    assert!(
        said.contains("nightly has no record of a last run"),
        "{said}"
    );
    let none: Value = serde_json::from_slice(&evict(&["--json"]).stdout).unwrap();
    assert_eq!(none["result"], "no_record");

    let run = || lab.run("nightly", &options(&[]), "sleep 0.1").end().status;
    assert_eq!(run(), 0);
    let shown = text(&lab.output(&["show", "nightly"]).stdout);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("nightly is free"), "{shown}");
    assert!(lines[2].starts_with("LAST RUN BY "), "{shown}");
    assert!(lines[3].contains(" dlock run sh "), "{shown}");
    assert!(
        lines[3].contains(" ago ") && lines[3].ends_with("19h59m"),
        "{shown}"
    );
    let shown = json(&lab, &["show", "nightly", "--json"]);
    let last = &shown["last_run"];
    assert_eq!(shown["holder_count"], 0);
    assert_eq!(last["function"], "dlock run sh");
    assert_eq!(last["period_ms"], 20 * 3_600_000);
    let [age, took, due] = ["age_ms", "took_ms", "due_in_ms"].map(|it| last[it].as_u64().unwrap());
    assert!(took >= 100 && age >= took, "{last}");
    assert_eq!(age + due, 20 * 3_600_000, "{last}");
    assert!(
        last["pid"].as_u64().unwrap() > 0 && last["fence"].is_string(),
        "{last}"
    );

    let running = held(&lab, "nightly", &["--skip"], "sleep 1000");
    let shown = text(&lab.output(&["show", "nightly"]).stdout);
    assert!(
        shown.contains("HELD BY") && shown.contains("\n\nLAST RUN BY "),
        "{shown}"
    );
    drop(running);

    let forgotten = evict(&[]);
    assert_eq!(forgotten.status.code(), Some(0));
    let said = text(&forgotten.stdout);
    assert!(
        said.contains("nightly: removed the record of the last run (dlock run sh of"),
        "{said}"
    );
    assert_eq!(
        json(&lab, &["show", "nightly", "--json"])["last_run"],
        Value::Null
    );
}

#[test]
fn the_last_runs_are_listed() {
    let lab = Lab::start();
    let list = |more: &[&str]| {
        let output = lab.output(&[&["ls", "--records"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        (text(&output.stdout), text(&output.stderr))
    };
    let (none, said) = list(&[]);
    assert!(
        none.is_empty() && said.contains("no last run is recorded"),
        "{said}"
    );
    // One is of another namespace.
    for (key, namespace) in [
        ("job:a", "lock:"),
        ("job:{b}", "lock:"),
        ("x", "lock:"),
        ("job:c", "lock:eu:"),
    ] {
        let run = ["run", "--key", key, "--once-per", "20h", "--", "true"];
        let mut run = lab.dlock(&run);
        assert!(
            run.env("DLOCK_NAMESPACE", namespace)
                .status()
                .unwrap()
                .success()
        );
    }
    let _held = held(&lab, "job:held", &[], "sleep 1000");
    let keys = |table: &str| -> Vec<String> {
        let key = |line: &str| line.split(' ').next().unwrap().to_owned();
        table.lines().map(key).collect()
    };
    let (all, said) = list(&[]);
    assert_eq!(
        (keys(&all), said.as_str()),
        (
            ["KEY", "job:a", "job:{b}", "x"].map(str::to_owned).to_vec(),
            ""
        )
    );
    assert!(
        all.lines()
            .all(|line| line.contains("dlock run true") || line.contains("LAST RUN BY")),
        "{all}"
    );
    assert_eq!(keys(&list(&["job:*"]).0), ["KEY", "job:a", "job:{b}"]);
    assert_eq!(keys(&list(&["x"]).0), ["KEY", "x"]);
    let (first, said) = list(&["--limit", "1"]);
    assert_eq!(keys(&first), ["KEY", "job:a"]);
    assert!(said.contains("there are more than 1"), "{said}");
    let (lines, _) = list(&["job:*", "--json"]);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["key"], "job:{b}");
    assert_eq!(lines[1]["last_run"]["period_ms"], 20 * 3_600_000);
}
