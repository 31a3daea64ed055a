//! `dlock lead`: what ends a term, what ends the command, and who leads next.

use dlock_harness::until_blocking;

use crate::lab::{CAP, Lab, signal, text};

/// Between a command that failed and the next campaign.
const SOON: [&str; 4] = ["--ttl", "10s", "--pause", "100ms"];

#[test]
fn a_command_that_ends_with_0_ends_it_and_any_other_campaigns_again() {
    let lab = Lab::start();
    let thrice = "echo term >> terms; test $(wc -l < terms) = 3";
    let ended = lab.lead("mailer", &SOON, thrice).end();
    assert_eq!(
        (ended.status, &*lab.written("terms")),
        (0, "term\nterm\nterm\n")
    );
    let again = "dlock: the command ended with 1; it campaigns for the lead again in 100ms\n";
    assert_eq!(ended.stderr, again.repeat(2));
    assert!(lab.left("mailer") < 0, "resigned");

    let missing = lab.output(&["lead", "--key", "mailer", "--", "no-such-command"]);
    assert_eq!(missing.status.code(), Some(127), "it would never be found");
    let wrong = lab.output(&["lead", "--key", "mailer", "--ttl", "500ms", "--", "true"]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(text(&wrong.stderr).contains("at least 1s"));
}

/// Another candidate leads between two terms of a command that fails.
#[test]
fn a_command_that_fails_makes_way_for_the_next_candidate() {
    let lab = Lab::start();
    let fails_once = "echo first >> terms; until test -e waiting; do sleep 0.05; done; test -e failed || { touch failed; exit 9; }";
    let first = lab.lead("mailer", &SOON, fails_once);
    until_blocking("it leads", CAP, || lab.path("terms").exists());
    let second = lab.lead("mailer", &SOON, "echo second >> terms");
    until_blocking("the second waits", CAP, || {
        let shown = lab.output(&["show", "mailer", "--json"]);
        text(&shown.stdout).contains("\"waiter_count\":1")
    });
    std::fs::write(lab.path("waiting"), "").unwrap();
    assert_eq!((second.end().status, first.end().status), (0, 0));
    assert_eq!(lab.written("terms"), "first\nsecond\nfirst\n");
}

#[test]
fn a_signal_ends_the_command_and_the_lead_and_the_next_one_has_it_at_once() {
    let lab = Lab::start();
    let endless = "trap 'echo end >> told; exit 3' TERM; touch leads; while :; do sleep 0.05; done";
    let first = lab.lead("mailer", &["--ttl", "60s"], endless);
    until_blocking("it leads", CAP, || lab.path("leads").exists());
    let second = lab.lead("mailer", &SOON, "true");
    signal("TERM", first.pid());
    assert_eq!(first.end().status, 3, "the command's, and no other term");
    assert_eq!(second.end().status, 0, "long before the lease was over");
    assert_eq!(lab.written("told"), "end\n");
    assert!(lab.left("mailer") < 0);

    // While it waits for the lead, and while it pauses.
    let leader = lab.lead("mailer", &SOON, "touch waited-for; sleep 1000");
    until_blocking("it leads", CAP, || lab.path("waited-for").exists());
    let waits = lab.lead("mailer", &SOON, "true");
    until_blocking("it waits", CAP, || {
        let shown = lab.output(&["show", "mailer", "--json"]);
        text(&shown.stdout).contains("\"waiter_count\":1")
    });
    signal("TERM", waits.pid());
    assert_eq!(waits.end().status, 143);
    drop(leader);
    let pauses = lab.lead("other", &["--pause", "1h"], "touch paused; exit 1");
    until_blocking("it has failed", CAP, || {
        lab.path("paused").exists() && lab.left("other") < 0
    });
    signal("INT", pauses.pid());
    assert_eq!(pauses.end().status, 130);
}

/// The server forgets the lock: the command is ended, and begun again in the next term.
#[test]
fn a_lost_lead_is_campaigned_for_again() {
    let lab = Lab::start();
    let script = "echo term >> terms; test $(wc -l < terms) = 2 || sleep 1000";
    let leads = lab.lead("mailer", &["--ttl", "3s", "--pause", "100ms"], script);
    until_blocking("it leads", CAP, || lab.path("terms").exists());
    lab.cmd(&["FLUSHALL"]);
    let ended = leads.end();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("mailer was lost: the server no longer has it"),
        "{}",
        ended.stderr
    );
    assert_eq!(lab.written("terms"), "term\nterm\n");
}

/// As the library's candidates: a server that a failover demotes may be promoted again.
#[test]
fn a_server_that_becomes_a_replica_ends_neither_leader_nor_candidate() {
    let lab = Lab::start();
    let options = ["--ttl", "2s", "--pause", "100ms"];
    let script = "echo term >> terms; test $(wc -l < terms) != 1 || sleep 1000";
    let leads = lab.lead("mailer", &options, script);
    until_blocking("it leads", CAP, || lab.path("terms").exists());
    lab.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    let begins = lab.lead("mailer", &options, "true");
    std::thread::sleep(std::time::Duration::from_secs(3)); // the leader's lease, and some campaigns
    lab.cmd(&["REPLICAOF", "NO", "ONE"]);
    for ended in [leads.end(), begins.end()] {
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        let why = "it is a read-only replica; give dlock the master's address";
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
    assert_eq!(lab.written("terms"), "term\nterm\n");
}
