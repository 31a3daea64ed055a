//! Processes with and without scripts at one key: never two holders, and each has its turns.

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_harness::{Child, Interval, RedisServer, Sharded, check_exclusive, now_ns, until};

const CAP: Duration = Duration::from_secs(90);

fn worker(mode: &str, url: &str, settings: &[String]) -> Child {
    const NO_ENVS: [(&str, &str); 0] = [];
    let arguments = [mode, url].map(str::to_owned).into_iter();
    let arguments: Vec<String> = arguments.chain(settings.iter().cloned()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Child::spawn(env!("CARGO_BIN_EXE_worker"), &arguments, NO_ENVS)
}

/// How a process waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Scripts, and pushes.
    Scripts,
    /// Scripts; it polls, since RESP2 has no pushes.
    Polling,
    WithoutScripts,
}

use Way::{Polling, Scripts, WithoutScripts};

/// Processes that count under one lock, so often each; with these settings besides.
async fn count(url: &str, ways: &[Way], rounds: u64, more: &[&str]) -> Vec<Interval> {
    let parties = ways.len();
    let start = |(number, way): (usize, &Way)| {
        let settings = [
            format!("seed={}", number + 1),
            format!("parties={parties}"),
            "tasks=1".to_owned(),
            format!("rounds={rounds}"),
            format!("plain={}", u8::from(*way == WithoutScripts)),
        ];
        let more = more.iter().map(|it| (*it).to_owned());
        let settings: Vec<String> = settings.into_iter().chain(more).collect();
        let options = if *way == Polling {
            "?protocol=resp2"
        } else {
            ""
        };
        worker("count", &format!("{url}{options}"), &settings)
    };
    let children: Vec<_> = ways.iter().enumerate().map(start).collect();
    let mut turns = Vec::new();
    for mut child in children {
        child.expect_line("done", CAP).await;
        assert!(child.wait(CAP).await.success(), "{:#?}", child.lines());
        let lines = child.lines();
        turns.extend(lines.iter().filter_map(|it| Interval::parse(it)));
    }
    turns
}

/// All processes ask again and again, so nobody starves only if each has turns among the first.
async fn nobody_starves(url: &str, server: &RedisServer, ways: &[Way], more: &[&str]) {
    let rounds = 12;
    let mut turns = count(url, ways, rounds, more).await;
    check_exclusive(&turns).unwrap();
    let counter: usize = server.ask(&["GET", "counter"]).await;
    assert_eq!(counter, turns.len(), "no update is lost");
    turns.sort_by_key(|turn| turn.start_ns);
    let mut shares = BTreeMap::<&str, usize>::new();
    for turn in &turns[..turns.len() / 2] {
        *shares.entry(&turn.who).or_default() += 1;
    }
    println!("{shares:?}");
    assert_eq!(shares.len(), ways.len(), "each has had a turn: {shares:?}");
    assert!(shares.values().all(|turns| *turns >= 2), "{shares:?}");
}

const EACH_TWICE: [Way; 6] = [
    WithoutScripts,
    Scripts,
    Polling,
    WithoutScripts,
    Scripts,
    Polling,
];

#[tokio::test]
async fn four_processes_of_each_way_have_their_turns_at_one_key() {
    let server = RedisServer::start();
    let ways = [WithoutScripts, Scripts].repeat(4);
    nobody_starves(&server.url(), &server, &ways, &[]).await;
}

#[tokio::test]
async fn who_polls_has_turns_beside_who_is_pushed() {
    let server = RedisServer::start();
    nobody_starves(&server.url(), &server, &EACH_TWICE, &[]).await;
}

#[tokio::test]
async fn who_polls_has_turns_beside_who_is_pushed_behind_a_proxy_that_shards() {
    let sharded = Sharded::start().await;
    let per_slot = ["per_slot=1"];
    nobody_starves(&sharded.url(), &sharded.server, &EACH_TWICE, &per_slot).await;
}

#[tokio::test]
async fn processes_without_scripts_lose_no_update_and_never_overlap() {
    let server = RedisServer::start();
    let turns = count(&server.url(), &[WithoutScripts; 4], 10, &[]).await;
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
    let mut doomed = worker("hold", &server.url(), &settings);
    let held = doomed.expect_line("held ", CAP).await;
    let (fence, start_ns) = held.split_once(' ').unwrap();
    let renewals = async || server.commandstats("pexpire").await;
    until("it is renewed", CAP, async || renewals().await >= 11).await;
    doomed.kill();
    let killed_ns = now_ns();
    let left = Duration::from_millis(server.pttl("lock:counter").await.try_into().unwrap());
    let mut turns = count(&server.url(), &[WithoutScripts, Scripts], 2, &[]).await;
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
