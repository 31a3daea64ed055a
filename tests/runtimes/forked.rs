//! A forked child with its parent's pool: its calls fail at once with an error that says so, it
//! sends and reads nothing on its parent's connections, and it may make a pool of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use dlock_harness::{Monitor, RedisServer, Watched};
use dlock_tests::served::with_tls;

use crate::worker;

const CAP: Duration = Duration::from_secs(60);

/// What [`use_all`](../worker/forked.rs) prints in a child in which every call is refused.
const TOLD: [&str; 28] = [
    "acquire: Config",
    "try_acquire: Config",
    "run: Config",
    "lock_all: Config",
    "ping: Config",
    "holder: Config",
    "global: Config",
    "named: Config",
    "attribute: Config",
    "attribute, named: Config",
    "attribute, scoped: Config",
    "shutdown Drained { held: 0, unconfirmed: 0 }",
    "shutdown Drained { held: 0, unconfirmed: 0 }",
    "held false",
    "remaining 0ns",
    "lost Some(Forked)",
    "closing Some(())",
    "own closing None",
    "verify: Lost(Forked)",
    "extend: Lost(Forked)",
    "write: Lost(Forked)",
    "downgrade: Lost(Forked)",
    "release: Lost(Forked)",
    "release of several: Lost(Forked)",
    "own free false",
    "own free false",
    "own free false",
    "own free false",
];

fn told(lines: &[String]) -> Vec<&str> {
    let told = lines.iter().filter_map(|line| line.strip_prefix("child "));
    told.collect()
}

/// The address that a line of the record came from.
fn sender(line: &str) -> Option<&str> {
    line.split(['[', ']'])
        .nth(1)
        .filter(|it| !it.ends_with("lua"))
}

fn senders(lines: &[String]) -> BTreeSet<&str> {
    lines.iter().filter_map(|line| sender(line)).collect()
}

/// The addresses of connections that began in these lines; those of sentinels began before.
fn connected(lines: &[String]) -> BTreeSet<&str> {
    let hello = lines.iter().filter(|line| line.contains("\"HELLO\""));
    hello.filter_map(|line| sender(line)).collect()
}

/// The record before the child, while it runs, and after it, split at the parent's marks.
async fn record(monitor: &Monitor) -> [Vec<String>; 3] {
    let lines = monitor.settled().await;
    let mark = |what: &str| lines.iter().position(|it| it.contains(what)).unwrap();
    let (begins, ended) = (mark("child begins"), mark("child ended"));
    [
        &lines[..=begins],
        &lines[begins + 1..ended],
        &lines[ended..],
    ]
    .map(<[String]>::to_vec)
}

#[tokio::test]
async fn a_child_is_told_that_the_pool_is_its_parents_and_sends_nothing_on_its_connections() {
    let server = RedisServer::start();
    every_call_is_refused(&server, &server.url()).await;
}

#[tokio::test]
async fn nor_behind_sentinels() {
    let watched = Watched::start_steady().await;
    let (master, url) = (&watched.servers[0], watched.url());
    every_call_is_refused(master, &url).await;
    nothing_is_sent_to(master, &url, "fork-inside", "held false").await;
}

async fn every_call_is_refused(server: &RedisServer, url: &str) {
    let monitor = server.monitor();
    let mark = format!("mark={}", server.addr());
    let mut worker = worker(&["fork", url, &mark]);
    assert!(worker.wait(CAP).await.success(), "{:#?}", worker.lines());

    let lines = worker.lines();
    let mut expected: Vec<&str> = TOLD.to_vec();
    expected.push("own Ok(Freed)");
    assert_eq!(told(&lines), expected);
    let released = lines.iter().filter(|it| *it == "parent released Ok(Freed)");
    assert_eq!(released.count(), 2, "{lines:#?}");

    let [before, meanwhile, after] = record(&monitor).await;
    let parents = connected(&before);
    let inherited = senders(&meanwhile).intersection(&parents).count();
    assert_eq!(inherited, 0, "{meanwhile:#?}");
    let again = after.iter().find(|line| line.contains("lock:again"));
    let again = sender(again.unwrap()).unwrap();
    assert!(parents.contains(again), "the parent connected anew");
}

#[tokio::test]
async fn a_child_waits_for_no_mutex_of_its_parents_other_threads() {
    let server = RedisServer::start();
    let mut worker = worker(&["fork-busy", &server.url(), "times=25"]);
    for _ in 0..25 {
        worker.expect_line("parent again", CAP).await;
    }
    assert!(worker.wait(CAP).await.success(), "{:#?}", worker.lines());
    let lines = worker.lines();
    let told = told(&lines);
    assert_eq!(told.len(), 25 * (TOLD.len() + 1));
    for child in told.chunks(TOLD.len() + 1) {
        assert_eq!(child[..TOLD.len()], TOLD);
    }
}

/// The parent's connection tasks and leaders run in the child too, which tokio warns of; they send
/// not a byte.
#[tokio::test]
async fn the_tasks_of_an_inherited_runtime_send_nothing() {
    nothing_is_sent("fork-inside", "held false").await;
}

/// The pool's locks can't tell that they are inherited, but the socket asks the system.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn nor_do_they_in_a_child_that_the_c_library_did_not_fork() {
    nothing_is_sent("fork-unsubscribed", "held true").await;
}

/// Neither a command nor an alert of TLS, which would end the parent's connection.
#[tokio::test]
async fn nor_over_tls() {
    let (server, _authority) = with_tls();
    nothing_is_sent_to(
        &server,
        &server.tls_url().unwrap(),
        "fork-inside",
        "held false",
    )
    .await;
}

/// It would take the parent's answer, and the parent the next one in its place.
#[tokio::test]
async fn an_inherited_runtime_reads_no_answer_of_its_parents() {
    let server = RedisServer::start();
    let mark = format!("mark={}", server.addr());
    let mut worker = worker(&["fork-under-way", &server.url(), &mark]);
    assert_eq!(
        worker.expect_line("parent released ", CAP).await,
        "Ok(Freed)"
    );
    assert!(worker.wait(CAP).await.success(), "{:#?}", worker.lines());
}

async fn nothing_is_sent(fork: &str, child: &str) {
    let server = RedisServer::start();
    nothing_is_sent_to(&server, &server.url(), fork, child).await;
}

/// The parent goes on, too. `child`: what the child prints.
async fn nothing_is_sent_to(server: &RedisServer, url: &str, fork: &str, child: &str) {
    let monitor = server.monitor();
    let mut worker = worker(&[fork, url, &format!("mark={}", server.addr())]);
    assert_eq!(
        worker.expect_line("parent released ", CAP).await,
        "Ok(Freed)"
    );
    assert!(worker.wait(CAP).await.success(), "{:#?}", worker.lines());
    assert_eq!(told(&worker.lines()), [child]);

    let [before, meanwhile, after] = record(&monitor).await;
    let taken = before.iter().find(|line| line.contains("lock:held"));
    let parent = sender(taken.unwrap());
    let sent = meanwhile.iter().filter(|line| sender(line) == parent);
    assert_eq!(sent.count(), 0, "{meanwhile:#?}");
    let released = after.iter().find(|line| line.contains("EVALSHA"));
    assert_eq!(
        sender(released.unwrap()),
        parent,
        "the parent goes on over the same connection"
    );
}
