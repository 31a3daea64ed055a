//! Processes with and without scripts at one key: never two holders, and each has its turns.

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_harness::{Child, Interval, RedisServer, check_exclusive, now_ns, until};

const CAP: Duration = Duration::from_secs(90);

fn worker(mode: &str, server: &RedisServer, settings: &[String]) -> Child {
    const NO_ENVS: [(&str, &str); 0] = [];
    let (mode, url) = (mode.to_owned(), server.url());
    let arguments = [mode, url].into_iter().chain(settings.iter().cloned());
    let arguments: Vec<String> = arguments.collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Child::spawn(env!("CARGO_BIN_EXE_worker"), &arguments, NO_ENVS)
}

/// Processes that count under one lock; every second one without scripts, or all of them.
async fn count(server: &RedisServer, plain: &[bool], rounds: u64) -> Vec<(bool, Vec<Interval>)> {
    let parties = plain.len();
    let start = |(number, plain): (usize, &bool)| {
        let settings = [
            format!("seed={}", number + 1),
            format!("parties={parties}"),
            "tasks=1".to_owned(),
            format!("rounds={rounds}"),
            format!("plain={}", u8::from(*plain)),
        ];
        (*plain, worker("count", server, &settings))
    };
    let children: Vec<_> = plain.iter().enumerate().map(start).collect();
    let mut done = Vec::new();
    for (plain, mut child) in children {
        child.expect_line("done", CAP).await;
        assert!(child.wait(CAP).await.success(), "{:#?}", child.lines());
        let lines = child.lines();
        let turns = lines.iter().filter_map(|it| Interval::parse(it));
        done.push((plain, turns.collect()));
    }
    done
}

/// All processes ask again and again, so nobody starves only if each has turns among the first.
#[tokio::test]
async fn four_processes_of_each_way_have_their_turns_at_one_key() {
    let server = RedisServer::start();
    let plain = [true, false, true, false, true, false, true, false];
    let rounds = 12;
    let processes = count(&server, &plain, rounds).await;
    let mut turns: Vec<Interval> = processes.iter().flat_map(|(_, it)| it.clone()).collect();
    check_exclusive(&turns).unwrap();
    let counter: u64 = server.ask(&["GET", "counter"]).await;
    assert_eq!(counter, rounds * 8, "no update is lost");
    turns.sort_by_key(|turn| turn.start_ns);
    let mut shares = BTreeMap::<&str, usize>::new();
    for turn in &turns[..turns.len() / 2] {
        *shares.entry(&turn.who).or_default() += 1;
    }
    println!("{shares:?}");
    assert_eq!(shares.len(), 8, "each has had a turn: {shares:?}");
    assert!(shares.values().all(|turns| *turns >= 2), "{shares:?}");
}

#[tokio::test]
async fn processes_without_scripts_lose_no_update_and_never_overlap() {
    let server = RedisServer::start();
    let processes = count(&server, &[true; 4], 10).await;
    let turns: Vec<Interval> = processes.into_iter().flat_map(|(_, it)| it).collect();
    check_exclusive(&turns).unwrap();
    let counter: u64 = server.ask(&["GET", "counter"]).await;
    assert_eq!(counter, 40);
    until("only the counters are left", CAP, async || {
        server.keys().await == ["counter", "lock:@fence", "parties"]
    })
    .await;
}

#[tokio::test]
async fn the_lock_of_a_killed_process_ends_with_its_lease() {
    let server = RedisServer::start();
    let settings = ["ttl_ms=4000".to_owned(), "plain=1".to_owned()];
    let mut doomed = worker("hold", &server, &settings);
    let held = doomed.expect_line("held ", CAP).await;
    let (fence, start_ns) = held.split_once(' ').unwrap();
    let renewals = async || server.commandstats("pexpire").await;
    until("it is renewed", CAP, async || renewals().await >= 11).await;
    doomed.kill();
    let killed_ns = now_ns();
    let left = Duration::from_millis(server.pttl("lock:counter").await.try_into().unwrap());
    let processes = count(&server, &[true, false], 2).await;
    let mut turns: Vec<Interval> = processes.into_iter().flat_map(|(_, it)| it).collect();
    let first = turns.iter().map(|turn| turn.start_ns).min().unwrap();
    let waited = Duration::from_nanos(first - killed_ns);
    assert!(
        waited + Duration::from_millis(100) >= left,
        "{waited:?} of {left:?}"
    );
    assert!(
        waited <= left + Duration::from_secs(3),
        "{waited:?} of {left:?}"
    );
    turns.push(Interval {
        key: turns[0].key.clone(),
        fence: fence.parse().unwrap(),
        start_ns: start_ns.parse().unwrap(),
        end_ns: killed_ns,
        who: "the killed".to_owned(),
    });
    check_exclusive(&turns).unwrap();
}
