//! Values planted at a key in order to be printed: no error, getter or event has a line break, a
//! control character or an invisible one, and none is endless.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, Holder, LockError, LockPool, LockReport, Wait, distributed_lock};
use dlock_tests::of_kind;

use crate::lab::{LONG, Servers, ms, with_one_and_three};
use crate::texts::{Seen, listen};

/// As stored on the server: a new line of a log, red, and text that runs backwards.
const NAME: &str = "h%0AFORGED%1B[31m%C2%85%E2%80%A8%E2%80%AE%E2%81%A6%E2%80%8B%EF%BB%BF";

/// The same without the encoding, which only names have.
const RAW: &str = "h\nFORGED\u{1b}[31m\u{85}\u{2028}\u{202e}\u{2066}\u{200b}\u{feff}";

const KINDS: [&str; 6] = ["x", "fair", "r", "w", "p:1/2", "o:a"];

#[distributed_lock(key = "k", on_busy = "skip")]
async fn skipped() -> Result<(), LockError> {
    unreachable!("somebody holds it")
}

/// Asks in each way that tells the caller who holds `k`.
async fn ask(pool: &LockPool, seen: &mut Seen) {
    for kind in KINDS {
        for wait in [Wait::Once, Wait::For(ms(20))] {
            let asked = of_kind(pool.lock("k"), kind).wait(wait).acquire().await;
            let error = asked.unwrap_err();
            if let LockError::Busy { holder, .. } = &error {
                seen_holder(seen, holder);
            }
            seen.error(&error);
        }
    }
    match pool.holder("k").await {
        Ok(Some(holder)) => seen_holder(seen, &holder),
        Ok(None) => {}
        Err(error) => seen.error(&error),
    }
    if let Err(error) = pool.scope(skipped()).await {
        seen.error(&error);
    }
}

fn seen_holder(seen: &mut Seen, holder: &Holder) {
    seen.debug(holder);
    seen.text(holder.to_string());
    if let Holder::Process(process) = holder {
        seen.text(process.host());
        seen.text(process.function());
    }
}

with_one_and_three!(
    a_holder_with_a_hostile_name,
    a_set_of_hostile_entries,
    a_very_long_text,
    a_huge_value,
    a_huge_member_like_a_meta,
    sets_of_others
);

async fn a_holder_with_a_hostile_name(server: &Servers, pool: &LockPool) {
    listen();
    let mut seen = Seen::default();
    for name in [NAME.to_owned(), NAME.repeat(6_000)] {
        for value in [
            format!("1|x|t||60000|0|0||{name}|1|{name}|1"),
            RAW.to_owned(),
            format!("7|{RAW}"),
            format!("1|z|{RAW}"),
            format!("1|x|t||60000|0|0||{RAW}|1|{RAW}|1"),
        ] {
            server.cmd(&["SET", "lock:k", &value, "PX", "60000"]).await;
            ask(pool, &mut seen).await;
        }
    }
    assert!(seen.count() > 100);
    seen.all_are_fit_to_be_printed();
}

async fn a_set_of_hostile_entries(server: &Servers, pool: &LockPool) {
    listen();
    let mut seen = Seen::default();
    let long = RAW.repeat(6_000);
    for (meta, letter, owner) in [
        ("1|#|rw".to_owned(), "1|w|t|c|60000|0|0|", ""),
        ("1|#|p|1".to_owned(), "1|p|t|c|60000|1|1|", ""),
        (format!("1|#|o|{RAW}|5"), "1|o|t|c|60000|0|0|", RAW),
        (format!("1|#|o|{long}|5"), "1|o|t|c|60000|0|0|", &long),
        (format!("1|#|{RAW}"), "1|r|t|c|60000|0|0|", RAW),
    ] {
        let entry = format!("{letter}{owner}|{NAME}|1|{NAME}|1");
        server.cmd(&["DEL", "lock:k"]).await;
        let second = format!("{entry}#2"); // so that no permit is free
        nobody_waits(server).await;
        let members = [
            "ZADD", "lock:k", "inf", &meta, "9e15", &entry, "9e15", &second,
        ];
        server.cmd(&members).await;
        server.cmd(&["PEXPIRE", "lock:k", "60000"]).await;
        ask(pool, &mut seen).await;
    }
    assert!(seen.count() > 50);
    seen.all_are_fit_to_be_printed();
}

/// Otherwise the cleanup after an earlier waiter may grant the lock to another at the moment when the
/// key is absent.
async fn nobody_waits(server: &Servers) {
    until("nobody waits any more", LONG, async || {
        let mut keys = server.keys().await.into_iter();
        !keys.any(|key| key.starts_with("lock:@w"))
    })
    .await;
}

/// Each reply told all of it, and one of 16 MB broke the connection that all locks of a pool share.
async fn a_very_long_text(server: &Servers, pool: &LockPool) {
    let long = "x".repeat(4 << 20);
    let meta = format!("1|#|o|{long}|5");
    let entry = format!("1|w|t|c|60000|0|0||{long}|1|f|1");
    let ours = format!("1|x|t|c|60000|0|0||{long}|1|f|1");
    for plant in [
        vec!["SET", "lock:k", &long, "PX", "60000"],
        vec!["SET", "lock:k", &ours, "PX", "60000"],
        vec!["ZADD", "lock:k", "inf", "1|#|rw", "9e15", &entry],
        vec!["ZADD", "lock:k", "inf", &meta, "9e15", &entry],
    ] {
        server.cmd(&["DEL", "lock:k"]).await;
        nobody_waits(server).await;
        server.cmd(&plant).await;
        server.cmd(&["PEXPIRE", "lock:k", "60000"]).await;
        let before = sent(server).await;
        for kind in KINDS {
            for wait in [Wait::Once, Wait::For(ms(20))] {
                let asked = of_kind(pool.lock("k"), kind).wait(wait).acquire().await;
                asked.unwrap_err();
            }
        }
        let sent = sent(server).await - before;
        assert!(sent < 1 << 20, "{sent} bytes, {}", plant[0]);
    }
}

/// No script and no reader reads it all, of a string and of a set that is not ours. A member of ours a
/// script reads for one who looks, and nobody is told more of it.
async fn a_huge_value(server: &Servers, pool: &LockPool) {
    let without_scripts = Config::new(server.0[0].url()).without_scripts();
    let plain = LockPool::connect(without_scripts).await.unwrap();
    let huge = "x".repeat(HUGE);
    let long = &huge[..LONG_MEMBER];
    let strange_set = ["ZADD", "lock:k", "1", &huge];
    let meta = format!("1|#|o|{long}|5");
    let set = [
        "ZADD",
        "lock:k",
        "inf",
        &meta,
        "9e15",
        "1|o|t|c|60000|0|0||h|1|f|1",
    ];
    for (plant, pools, is_string, is_ours) in [
        (
            &["SET", "lock:k", &huge][..],
            &[pool, &plain][..],
            true,
            false,
        ),
        (&strange_set, &[pool], false, false),
        (&set, &[pool], false, true),
    ] {
        if !is_string && server.0.len() > 1 {
            continue; // three servers that read it at the same time keep a busy machine busy
        }
        server.cmd(&["DEL", "lock:k"]).await;
        nobody_waits(server).await;
        server.cmd(plant).await;
        server.cmd(&["PEXPIRE", "lock:k", "60000"]).await;
        for pool in pools {
            pool.ping().await.unwrap();
            // It opens what a lock needs.
            pool.lock("other")
                .wait(Wait::For(LONG))
                .acquire()
                .await
                .unwrap()
                .release()
                .await
                .unwrap();
            let before = (sent(server).await, connections(server).await);
            everybody_wants(pool).await;
            everybody_looks(pool).await;
            let kept = kept_by_scripts(server).await;
            assert!(is_ours || kept < HUGE as u64, "{kept} bytes, {}", plant[0]);
            let after = (sent(server).await, connections(server).await);
            assert!(
                after.0 - before.0 < 1 << 20,
                "{} bytes, {}",
                after.0 - before.0,
                plant[0]
            );
            // This test's own three, and the watchdog's for a clean-up.
            assert!(
                after.1 - before.1 <= server.0.len() as u64 * 4,
                "{}",
                after.1 - before.1
            );
        }
    }
}

/// The member that a set of ours would have its meta in can't be measured. Each call reads it at most
/// once, at each node, and what cleans up behind a caller that left doesn't.
async fn a_huge_member_like_a_meta(server: &Servers, pool: &LockPool) {
    // Three servers that read a longer one at a time answer too late for a vote, and are asked again.
    let nodes = server.0.len() > 1;
    let long = "x".repeat(if nodes { 8 << 10 } else { LONG_MEMBER });
    let meta = format!("1|#|rw|{long}");
    let reader = "1|r|t|c|60000|0|0||h|1|f|1";
    for plant in [
        &["ZADD", "lock:k", "inf", &long][..],
        &["ZADD", "lock:k", "inf", &meta, "9e15", reader],
    ] {
        server.cmd(&["DEL", "lock:k"]).await;
        server.cmd(plant).await;
        server.cmd(&["PEXPIRE", "lock:k", "60000"]).await;
        for kind in KINDS {
            // A wait that ends before the answer comes asks once more.
            for wait in [Wait::Once, Wait::For(LONG)] {
                let call = async || {
                    let asked = of_kind(pool.lock("k"), kind).wait(wait).acquire().await;
                    asked.unwrap_err();
                };
                let what = format!("{kind}, {wait:?}");
                if nodes && wait != Wait::Once {
                    read_by_votes(server, &what, call).await;
                } else {
                    read_once(server, &what, call).await;
                }
            }
            let leaves = async || {
                let call = of_kind(pool.lock("k"), kind).wait(Wait::For(LONG));
                let mut call = Box::pin(call.acquire());
                let sent = tokio::time::timeout(Duration::from_micros(500), &mut call).await;
                drop(call);
                if sent.is_err() {
                    until("all is cleaned up", LONG, async || {
                        pool.status().unwrap().cleaning_up == 0
                    })
                    .await;
                }
            };
            read_once(server, &format!("{kind}, the caller leaves"), leaves).await;
        }
        read_once(server, "holder", async || drop(pool.holder("k").await)).await;
        let show = async || drop(pool.admin().show("k").await.unwrap());
        read_once(server, "show", show).await;
        let list = async || {
            let mut list = pool.admin().list("*");
            while list.next_page().await.unwrap().is_some() {}
        };
        read_once(server, "list", list).await;
    }
}

/// An administrator sees what stands there.
async fn sets_of_others(server: &Servers, pool: &LockPool) {
    let keys = async || {
        let (mut list, mut keys) = (pool.admin().list("*"), Vec::new());
        while let Some(page) = list.next_page().await.unwrap() {
            keys.extend(page.iter().map(|it| it.key().to_owned()));
        }
        keys.sort();
        keys.dedup();
        keys
    };
    let long = format!("1|#|rw|{}", "x".repeat(8 << 10));
    for meta in ["x", "2|#|rw", &long] {
        server.cmd(&["ZADD", "lock:k", "inf", meta]).await;
        let report = pool.admin().show("k").await.unwrap();
        assert!(report.is_some_and(|it| it.kind().is_some()), "{meta:.9}");
        assert_eq!(keys().await, ["k"], "{meta:.9}");
        server.cmd(&["DEL", "lock:k"]).await;
    }
}

/// Nobody reads the member with the score `inf` at `k` more than once during the call.
async fn read_once(server: &Servers, what: &str, call: impl AsyncFnOnce()) {
    read_at_most(server, what, call, |_| 1).await;
}

/// As `read_once`, for each time that a node is asked: a vote that came too late is asked for again.
async fn read_by_votes(server: &Servers, what: &str, call: impl AsyncFnOnce()) {
    let is_asked = |line: &&String| line.contains("EVAL") && line.contains(r#""lock:k""#);
    read_at_most(server, what, call, |lines| {
        lines.iter().filter(is_asked).count().max(1)
    })
    .await;
}

async fn read_at_most(
    server: &Servers,
    what: &str,
    call: impl AsyncFnOnce(),
    most: impl Fn(&[String]) -> usize,
) {
    let monitors: Vec<_> = server.0.iter().map(RedisServer::monitor).collect();
    call().await;
    for monitor in &monitors {
        let lines = monitor.settled().await;
        let is_read =
            |it: &&String| it.contains(r#""ZRANGE" "lock:k""#) && !it.contains(r#""(inf""#);
        let reads = lines.iter().filter(is_read).count();
        assert!(reads <= most(&lines), "{what}: {lines:?}");
    }
}

/// In bytes.
async fn kept_by_scripts(server: &Servers) -> u64 {
    told(server, "memory", "used_memory_lua:").await
}

/// The most that an administrator reads of one lock, with and without scripts.
#[tokio::test]
async fn ten_thousand_holders_are_read() {
    let (server, pool) = Servers::one().await;
    let without_scripts = Config::new(server.0[0].url()).without_scripts();
    let plain = LockPool::connect(without_scripts).await.unwrap();
    server.cmd(&["ZADD", "lock:k", "inf", "1|#|p"]).await;
    let (host, each) = ("h".repeat(1_000), 500);
    for from in (0..10_000).step_by(each) {
        let entry = |nth: usize| format!("1|p|{nth}|c|60000|1|20000||{host}|1|f|1");
        let members = (from..from + each).flat_map(|nth| ["9e15".to_owned(), entry(nth)]);
        let members: Vec<String> = members.collect();
        let members = members.iter().map(String::as_str);
        let words: Vec<&str> = ["ZADD", "lock:k"].into_iter().chain(members).collect();
        server.cmd(&words).await;
    }
    for pool in [&pool, &plain] {
        let report = pool.admin().show("k").await.unwrap().unwrap();
        assert_eq!(report.holders().len(), 10_000);
        assert!(pool.holder("k").await.unwrap().is_some());
        let page = pool.admin().list("*").next_page().await.unwrap().unwrap();
        assert_eq!(page.len(), 1);
    }
}

const HUGE: usize = 40 << 20;

/// More than a reply may have. A script takes a tenth of a second to read it, on a busy machine.
const LONG_MEMBER: usize = (2 << 20) + 1;

/// Six tasks that wait.
async fn everybody_wants(pool: &LockPool) {
    let each = KINDS.map(|kind| {
        let request = of_kind(pool.lock("k"), kind).wait(Wait::For(ms(300)));
        tokio::spawn(request.run(async |_| {}))
    });
    for task in each {
        task.await.unwrap().unwrap_err();
    }
}

/// The readers, and an administrator.
async fn everybody_looks(pool: &LockPool) {
    let (holder, admin) = (pool.holder("k").await, pool.admin());
    assert!(
        !matches!(&holder, Err(LockError::Unavailable { .. })),
        "{holder:?}"
    );
    let mut list = admin.list("k*");
    while list.next_page().await.unwrap().is_some() {}
    let report = admin.show("k").await.unwrap();
    for holder in report.iter().flat_map(LockReport::holders) {
        let evicted = admin.evict("k", holder.fingerprint()).await;
        assert!(
            !matches!(evicted, Err(LockError::Unavailable { .. })),
            "{evicted:?}"
        );
    }
}

/// How many bytes the servers have sent.
async fn sent(server: &Servers) -> u64 {
    told(server, "stats", "total_net_output_bytes:").await
}

/// How many connections they have accepted.
async fn connections(server: &Servers) -> u64 {
    told(server, "stats", "total_connections_received:").await
}

/// A number that the servers tell, of all together.
async fn told(server: &Servers, section: &str, field: &str) -> u64 {
    let mut sum = 0;
    for server in &server.0 {
        let info: String = server.ask(&["INFO", section]).await;
        let number = |line: &str| line.strip_prefix(field)?.parse().ok();
        sum += info.lines().find_map(number).unwrap_or(0u64);
    }
    sum
}
