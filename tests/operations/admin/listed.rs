//! Going through many locks: each once, no command that blocks the server, nothing but locks, and
//! only with the right to.

use std::collections::HashSet;

use dlock_harness::polls::{Cut, When, dropped_at};
use dlock_harness::{RedisServer, Sharded};
use dlock_runtime::{Config, Eviction, LockError, LockKind, Notice, Refusal};
use dlock_tests::patient;
use dlock_tests::served::documented_rules;

use super::{LONG, Lab, held, keys, list, pool, show, wait};

const MANY: usize = 100_000;

/// Locks `item:0` to `item:99999` with values of the usual length.
async fn fill(server: &RedisServer) {
    let script = "for i = ARGV[1], ARGV[1] + 4999 do \
        redis.call('SET', 'lock:item:' .. i, ARGV[2] .. string.format('%x', i) .. ARGV[3], 'PX', 600000) end";
    let (begin, end) = (
        "1|x|0123456789abcdef-0123456789abcdef-",
        "|0123456789abcdef;lock:@grant:0123456789abcdef|30000|0|0||web-1|4711|shop::purchase|1700000000000",
    );
    for from in (0..MANY).step_by(5000) {
        let words = ["EVAL", script, "0", &from.to_string(), begin, end];
        server.cmd(&words).await;
    }
}

/// The commands say how long they may block the server: a step looks at 100 keys, and no command
/// about a lock reads more than its first few holders and waiters. What they took is printed.
#[tokio::test]
async fn a_hundred_thousand_locks_in_short_commands() {
    let lab = Lab::new().await;
    fill(&lab.server).await;
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    let slow = ["CONFIG", "SET", "slowlog-log-slower-than", "2000"];
    lab.server.cmd(&slow).await;
    lab.server.cmd(&["SLOWLOG", "RESET"]).await;
    let begun = std::time::Instant::now();
    let (mut listing, mut seen) = (lab.admin.list("item:*"), HashSet::new());
    while let Some(page) = listing.next_page().await.unwrap() {
        assert!(page.len() <= 50);
        seen.extend(page.iter().map(|lock| lock.key().to_owned()));
    }
    let took = begun.elapsed();
    assert_eq!(seen.len(), MANY);
    let slow: i64 = lab.server.ask(&["SLOWLOG", "LEN"]).await;
    let info: String = lab.server.ask(&["INFO", "commandstats"]).await;
    let log = lab.server.cmd(&["SLOWLOG", "GET", "5"]).await;
    let parts: String = lab.server.ask(&["INFO", "latencystats"]).await;
    println!("{took:?}; commands above 2 ms: {slow}\n{info}\n{parts}\n{log:?}");

    let ran = async |command| usize::try_from(lab.server.commandstats(command).await).unwrap();
    let scans = ran("scan").await;
    assert!((900..=1100).contains(&scans), "{scans} steps of 100 keys");
    for command in ["keys", "evalsha", "eval", "hgetall", "smembers"] {
        assert_eq!(ran(command).await, 0, "{command}");
    }
    for (command, each) in [("getrange", 1), ("pttl", 1), ("zcard", 1), ("zrange", 2)] {
        let ran = ran(command).await;
        let most = MANY * each * 51 / 50; // and the counter, for each page
        assert!((MANY * each..=most).contains(&ran), "{ran} {command}");
    }
}

#[tokio::test]
async fn by_pattern_and_without_queues_and_counters() {
    let lab = Lab::new().await;
    let names = ["item:7", "item:71", "order:7", "{cart}:7", "a*b", "a b"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(held(lab.here.lock(name)).await);
    }
    let _waiter = wait(&lab.admin, lab.there.lock("item:7"), "item:7", 1).await;
    let _tagged = wait(&lab.admin, lab.there.lock("{cart}:7"), "{cart}:7", 1).await;
    let matching = [
        (
            "*",
            &["a b", "a*b", "item:7", "item:71", "order:7", "{cart}:7"][..],
        ),
        ("item:*", &["item:7", "item:71"]),
        ("*:7", &["item:7", "order:7", "{cart}:7"]),
        ("item:7?", &["item:71"]),
        ("[io]*:7", &["item:7", "order:7"]),
        (r"a\*b", &["a*b"]),
        ("item:7", &["item:7"]),
        ("item:9", &[]),
        ("@*", &[]),
    ];
    for (pattern, expected) in matching {
        assert_eq!(
            keys(&list(&lab.admin, pattern).await),
            expected,
            "{pattern}"
        );
    }
    let waiting = list(&lab.admin, "item:*").await;
    assert_eq!(
        (waiting[0].waiter_count(), waiting[1].waiter_count()),
        (1, 0)
    );
    assert!(waiting[0].waiting().is_some() && waiting[1].waiting().is_none());
    assert!(waiting[0].holders()[0].remaining().is_some());
}

/// Beside locks that are free and that are held, in memory and on a server with and without scripts.
#[tokio::test]
async fn last_runs_are_listed() {
    let server = RedisServer::start();
    let memory = Config::new("memory://");
    for config in [
        memory,
        patient(server.url()),
        patient(server.url()).without_scripts(),
    ] {
        let (pool, all) = (pool(config).await, ["job:a", "job:{b}", "x"]);
        let admin = pool.admin();
        for key in all {
            let ran = held(pool.lock(key).once_per(LONG)).await;
            ran.release_done().await.unwrap();
        }
        let _held = held(pool.lock("job:held")).await;
        for (pattern, expected) in [
            ("*", &all[..]),
            ("job:*", &all[..2]),
            ("x", &all[2..]),
            ("job:held", &[]),
        ] {
            let (mut records, mut found) = (admin.records(pattern), Vec::new());
            while let Some(page) = records.next_page().await.unwrap() {
                found.extend(page);
            }
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
            let keys: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(keys, expected, "{pattern}");
            assert!(found.iter().all(|(_, run)| run.period() == Some(LONG)));
        }
        for key in all {
            assert!(admin.clear_record(key).await.unwrap(), "{key}");
        }
        let left = admin.records("job:*").next_page().await.unwrap();
        assert!(left.is_none_or(|it| it.is_empty()));
    }
}

/// Another namespace's locks show if its name begins with this one's, but not its queues.
#[tokio::test]
async fn in_a_namespace_of_its_own() {
    let lab = Lab::with(|config| config.namespace("shop[1]*:")).await;
    let _guard = held(lab.here.lock("item:7")).await;
    let other = pool(patient(lab.server.url()).namespace("shop[1]*:eu:")).await;
    let _other = held(other.lock("item:8")).await;
    let _waiter = wait(&other.admin(), other.lock("item:8").fair(), "item:8", 1).await;
    let near = ["SET", "shop1x:item:9", "of others"];
    lab.server.cmd(&near).await;
    assert_eq!(keys(&list(&lab.admin, "*").await), ["eu:item:8", "item:7"]);
    assert_eq!(keys(&list(&other.admin(), "*").await), ["item:8"]);
}

#[tokio::test]
async fn a_future_that_is_dropped_loses_no_page() {
    let lab = Lab::new().await;
    let mut guards = Vec::new();
    for number in 0..120 {
        guards.push(held(lab.here.lock(format!("item:{number}"))).await);
    }
    let (mut listing, mut seen) = (lab.admin.list("*"), HashSet::new());
    for polls in (1..=3).cycle() {
        // Dropped after its first, second or third step, if it is not done by then.
        let when = When::AtOnce;
        let page = dropped_at(Cut { polls, when }, listing.next_page()).await;
        match page.transpose().unwrap() {
            None => {}
            Some(None) => break,
            Some(Some(page)) => seen.extend(page.iter().map(|it| it.key().to_owned())),
        }
    }
    assert_eq!(seen.len(), 120);
}

/// The documented user that looks sees all kinds and changes nothing, and needs `eval` for sets.
#[tokio::test]
async fn a_user_that_only_looks() {
    let server = RedisServer::start();
    let own = pool(patient(server.url())).await;
    let (_one, _many) = (
        held(own.lock("one")).await,
        held(own.lock("many").read()).await,
    );
    let reset = ["ACL", "SETUSER", "watcher", "reset", "on", ">secret"];
    let rules = documented_rules("ACL SETUSER watcher on >… ");
    server.cmd(&[&reset[..], &rules].concat()).await;
    let url = format!("redis://watcher:secret@{}", server.addr());
    let pool = pool(patient(url)).await;
    let admin = pool.admin();
    assert_eq!(keys(&list(&admin, "*").await), ["many", "one"]);
    for key in ["one", "many"] {
        let holder = show(&admin, key).await.holders()[0].fingerprint();
        assert!(pool.holder(key).await.unwrap().is_some());
        admin.evict(key, holder).await.unwrap_err();
    }
    pool.lock("free").acquire().await.unwrap_err();

    server.cmd(&["ACL", "SETUSER", "watcher", "-eval"]).await;
    assert_eq!(show(&admin, "one").await.holders().len(), 1);
    let said = admin.show("many").await.unwrap_err();
    assert!(format!("{said:?}").contains("'eval'"), "{said:?}");
}

/// `+scan` is an administrator's right; looking at one lock needs no more than locks do.
#[tokio::test]
async fn rights() {
    let server = RedisServer::start();
    let reset = ["ACL", "SETUSER", "dlock", "reset", "on", ">secret"];
    let rules = documented_rules("ACL SETUSER dlock on >… ");
    server.cmd(&[&reset[..], &rules].concat()).await;
    let url = format!("redis://dlock:secret@{}", server.addr());
    let pool = pool(patient(url)).await;
    let admin = pool.admin();
    let _guard = held(pool.lock("item:7")).await;
    assert_eq!(keys(&list(&admin, "item:7").await), ["item:7"]);
    let holder = show(&admin, "item:7").await.holders()[0].fingerprint();

    let refused = admin.list("*").next_page().await.unwrap_err();
    let LockError::Refused { reason, source, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(*reason, Refusal::NoPermission);
    assert!(source.to_string().contains("scan"), "{source}");
    let right = documented_rules("ACL SETUSER dlock +scan");
    assert_eq!(right, [""], "the page has the line");
    server.cmd(&["ACL", "SETUSER", "dlock", "+scan"]).await;
    assert_eq!(keys(&list(&admin, "*").await), ["item:7"]);
    let done = admin.evict("item:7", holder).await.unwrap();
    assert_eq!(done, Eviction::Done(Notice::Sent));

    // `getrange` takes the place of `get`.
    for names in [&["pttl"][..], &["zcard"], &["get", "getrange"]] {
        let rules = |sign: &str| {
            names
                .iter()
                .map(|it| format!("{sign}{it}"))
                .collect::<Vec<_>>()
        };
        for rule in rules("-") {
            server.cmd(&["ACL", "SETUSER", "dlock", &rule]).await;
        }
        let said = admin.show("item:7").await.unwrap_err();
        assert!(format!("{said:?}").contains(names[0]), "{said:?}");
        for rule in rules("+") {
            server.cmd(&["ACL", "SETUSER", "dlock", &rule]).await;
        }
    }
}

/// A proxy could answer `SCAN` for one shard, so only whole keys are looked at.
#[tokio::test]
async fn behind_a_proxy_that_shards() {
    let sharded = Sharded::start().await;
    let pool = pool(patient(sharded.url()).counter_per_slot()).await;
    let admin = pool.admin();
    let guard = held(pool.lock("item:7")).await;
    let readers = held(pool.lock("catalogue").read()).await;
    let refused = admin.list("item:*").next_page().await.unwrap_err();
    assert!(matches!(refused, LockError::Config { .. }), "{refused:?}");
    let refused = admin.watch("*").next().await.unwrap_err();
    assert!(matches!(refused, LockError::Config { .. }), "{refused:?}");
    assert_eq!(keys(&list(&admin, "item:7").await), ["item:7"]);
    let lock = show(&admin, "catalogue").await;
    assert_eq!(lock.kind(), Some(&LockKind::ReadWrite));
    assert!(lock.fence_at_most() >= readers.fence());
    let lock = show(&admin, "item:7").await;
    assert!(lock.fence_at_most() >= guard.fence());
    let holder = lock.holders()[0].fingerprint();
    let done = admin.evict("item:7", holder).await.unwrap();
    assert_eq!(done, Eviction::Done(Notice::Sent));
    assert!(guard.verify().await.is_err());
}

/// A cursor means nothing to another server, so the list ends with an error.
#[tokio::test]
async fn a_lost_connection_ends_a_list() {
    let lab = Lab::new().await;
    let mut guards = Vec::new();
    for number in 0..120 {
        guards.push(held(lab.here.lock(format!("item:{number}"))).await);
    }
    let mut listing = lab.admin.list("*");
    listing.next_page().await.unwrap();
    lab.server
        .cmd(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        .await;
    lab.server.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    for _ in 0..2 {
        let error = listing.next_page().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    }
    let anew = list(&lab.admin, "*").await;
    assert_eq!(anew.len(), 120);
}
