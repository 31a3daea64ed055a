//! `dlock migrate`, and the commands on the tables that it makes.

use std::process::Output;

use dlock_harness::PostgresServer;

use crate::lab::{Lab, text};

fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn from_an_empty_database_to_a_lock() {
    let (lab, database) = (Lab::start(), PostgresServer::start());
    let url = database.url("locks");
    let dlock = |args: &[&str]| lab.dlock_at(&url, args).output().unwrap();
    let run = ["run", "--key", "nightly", "--", "echo", "ran"];
    let before = dlock(&run);
    assert_eq!(before.status.code(), Some(64), "{before:?}");
    assert!(said(&before).contains("dlock migrate"), "{before:?}");

    // What is printed can be run again, as `dlock migrate` can.
    let printed = dlock(&["migrate", "--print"]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    for _ in 0..2 {
        database.sql(&text(&printed.stdout));
        let migrated = dlock(&["migrate"]);
        assert_eq!(
            said(&migrated),
            "the tables are there, in the layout of this version\n"
        );
    }
    let ran = dlock(&run);
    assert_eq!(
        (ran.status.code(), &*text(&ran.stdout)),
        (Some(0), "ran\n"),
        "{ran:?}"
    );
    let shown = dlock(&["show", "nightly"]);
    assert!(said(&shown).contains("nightly is free"), "{shown:?}");

    let elsewhere = lab.output(&["migrate"]);
    assert_eq!(elsewhere.status.code(), Some(64), "{elsewhere:?}");
    assert!(said(&elsewhere).contains("has no tables"), "{elsewhere:?}");
}
