//! Tests of single scripts, where the order of operations does not matter.

use std::time::{Duration, SystemTime};

use redis::Value;

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, link, renewal};
use crate::link::Link;
use crate::link::redis::reads::Reads;
use crate::link::redis::scripts;
use crate::rules::commands::{Acquired, Cancelled, Keep, Left, Renewed};
use crate::rules::lua;
use crate::values::about::{About, WrittenName};
use crate::values::entry;
use crate::values::kind::Kind;
use crate::values::token::TokenSource;
use crate::values::ttl::Ttl;

#[tokio::test]
async fn an_acquire_that_arrives_twice_is_ours_and_draws_a_new_epoch() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    let first = lab.granted(&ours).await;
    match lab.acquire(&ours).await {
        Ok(Acquired::Yours { epoch, left, .. }) => {
            assert!(epoch > first);
            assert!(left <= Duration::from_secs(30) && left > Duration::from_secs(15));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_acquire_after_its_time_creates_nothing() {
    let lab = Lab::new().await;
    let late = acquire(&claim("lock:a", "ours"), lab.link.server_time() - 1_000_000);
    let answer = lab.link.acquire(&late, CAP).await.unwrap();
    assert!(matches!(answer, Acquired::Late { .. }), "{answer:?}");
    assert!(lab.keys().await.is_empty());
}

#[tokio::test]
async fn epochs_rise_over_keys_releases_and_a_flush() {
    let lab = Lab::new().await;
    let (one, two) = (claim("lock:a", "one"), claim("lock:b", "two"));
    let first = lab.granted(&one).await;
    let second = lab.granted(&two).await;
    assert!(lab.link.release(&one, Keep::NOT, CAP).await.unwrap().found);
    let third = lab.granted(&one).await;
    lab.server.cmd(&["FLUSHALL"]).await;
    let fourth = lab.granted(&one).await;
    assert!(first < second && second < third && third < fourth);
}

#[tokio::test]
async fn an_epoch_is_written_in_plain_digits() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    let epoch = lab.granted(&ours).await;
    assert_eq!(
        lab.server.ask::<String>(&["GET", FENCES]).await,
        epoch.to_string()
    );
    assert!(epoch > 1_000_000_000_000_000, "a time in µs");

    // As after a clock that was far ahead.
    lab.server.cmd(&["SET", FENCES, "4000000000000000"]).await;
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    assert_eq!(lab.granted(&ours).await, 4_000_000_000_000_001);
    assert_eq!(
        lab.server.ask::<String>(&["GET", FENCES]).await,
        "4000000000000001"
    );
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_sent_again_in_the_same_call() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await;
    assert_eq!(stats(&lab).await, (1, 1), "unknown at first");
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    let before = stats(&lab).await;
    lab.granted(&ours).await;
    assert_eq!(
        stats(&lab).await,
        (before.0 + 1, before.1),
        "known by its hash"
    );
    lab.server.cmd(&["SCRIPT", "FLUSH"]).await;
    assert!(matches!(
        lab.acquire(&ours).await,
        Ok(Acquired::Yours { .. })
    ));
    assert_eq!(
        stats(&lab).await,
        (before.0 + 2, before.1 + 1),
        "sent again"
    );
}

async fn stats(lab: &Lab) -> (u64, u64) {
    (
        lab.server.commandstats("evalsha").await,
        lab.server.commandstats("eval").await,
    )
}

#[tokio::test]
async fn one_poisoned_key_in_a_batch_hurts_no_other() {
    let lab = Lab::new().await;
    let (one, list, two, theirs) = (
        claim("lock:a", "one"),
        claim("lock:list", "x"),
        claim("lock:b", "two"),
        claim("lock:c", "x"),
    );
    lab.granted(&one).await;
    lab.granted(&two).await;
    lab.server.cmd(&["LPUSH", "lock:list", "x"]).await;
    lab.server
        .cmd(&["SET", "lock:c", "foreign", "PX", "30000"])
        .await;
    let items = [&one, &list, &two, &theirs].map(|who| renewal(who, 60));
    let answers = lab.link.renew(&items, CAP).await.unwrap();
    assert_eq!(
        answers,
        [
            Renewed::Yes,
            Renewed::NotOurs,
            Renewed::Yes,
            Renewed::NotOurs
        ]
    );
    for (key, renewed) in [("lock:a", true), ("lock:b", true), ("lock:c", false)] {
        assert_eq!(lab.server.pttl(key).await > 40_000, renewed, "{key}");
    }
}

/// One read of all keys, and each item with its own ttl.
#[tokio::test]
async fn a_batch_of_renewals_looks_once() {
    let lab = Lab::new().await;
    let ttls = [40, 40, 20, 50];
    let items: Vec<_> = ttls
        .into_iter()
        .map(|ttl| renewal(&claim(&format!("lock:{ttl}"), &format!("{ttl}")), ttl))
        .collect();
    for item in [&items[0], &items[2], &items[3]] {
        lab.granted(&item.claim).await;
    }
    lab.link.renew(&items[..1], CAP).await.unwrap(); // from now on the script is known
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    let answers = lab.link.renew(&items, CAP).await.unwrap();
    assert_eq!(answers, [Renewed::Yes; 4]);
    for (command, times) in [("evalsha", 1), ("mget", 1), ("get", 0), ("pttl", 4)] {
        let counted = lab.server.commandstats(command).await;
        assert_eq!(counted, times, "{command}");
    }
    for (key, more_than) in [
        ("lock:40", 35_000),
        ("lock:20", 25_000),
        ("lock:50", 45_000),
    ] {
        let left = lab.server.pttl(key).await;
        assert!(
            left > more_than && left <= more_than + 5_000,
            "{key}: {left}"
        );
    }
    let again = scripts::RENEW.text(Reads::Whole);
    let answer = [
        "EVAL", &again, "2", "lock:40", "lock:20", "1", "2", "9", "40", "20",
    ];
    assert_eq!(lab.server.cmd(&answer).await, Value::Int(1), "one for all");
}

#[tokio::test]
async fn a_value_of_another_type_is_left_alone() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.server.cmd(&["SADD", "lock:a", "ours"]).await;
    assert!(!lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    let Cancelled {
        found, conclusive, ..
    } = lab.link.cancel(&ours, Keep::NOT, 0, CAP).await.unwrap();
    assert_eq!((found, conclusive), (false, true));
    assert!(lab.acquire(&ours).await.is_err());
    assert_eq!(lab.keys().await, ["lock:a"], "no epoch was drawn either");
}

#[tokio::test]
async fn a_cancel_is_conclusive_when_it_found_something_or_nothing_can_come() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    let later = lab.link.server_time() + HOUR;
    let open = lab.link.cancel(&ours, Keep::NOT, later, CAP).await.unwrap();
    assert_eq!((open.found, open.conclusive), (false, false));
    lab.granted(&ours).await;
    let found = lab.link.cancel(&ours, Keep::NOT, later, CAP).await.unwrap();
    assert_eq!((found.found, found.conclusive), (true, true));
    let answered = lab.link.cancel(&ours, Keep::NOT, 0, CAP).await.unwrap();
    assert_eq!((answered.found, answered.conclusive), (false, true));
    assert_eq!(lab.keys().await, [FENCES]);
}

#[tokio::test]
async fn a_key_without_a_time_to_live_is_repaired_only_on_request() {
    let lab = Lab::new().await;
    lab.server.cmd(&["SET", "lock:a", "left behind"]).await;
    let ours = claim("lock:a", "ours");
    let left = |answer| match answer {
        Acquired::Busy(busy) => busy.left,
        other => panic!("{other:?}"),
    };
    assert_eq!(left(lab.acquire(&ours).await.unwrap()), Left::Endless);
    assert_eq!(lab.server.pttl("lock:a").await, -1);

    let mut command = acquire(&ours, lab.link.server_time() + HOUR);
    command.repair_missing_ttl = Some(Duration::from_secs(40));
    let answer = lab.link.acquire(&command, CAP).await.unwrap();
    assert_eq!(left(answer), Left::For(Duration::from_secs(40)));
    assert!((1..=40_000).contains(&lab.server.pttl("lock:a").await));
}

/// redis-py and similar libraries may store any bytes.
#[tokio::test]
async fn a_foreign_value_that_is_no_text_is_busy() {
    let lab = Lab::new().await;
    let set = "return redis.call('SET', KEYS[1], '\\255\\0\\128', 'PX', 30000)";
    lab.server.cmd(&["EVAL", set, "1", "lock:a"]).await;
    let answer = lab.acquire(&claim("lock:a", "ours")).await.unwrap();
    assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    assert!(lab.link.read("lock:a", CAP).await.unwrap().is_some());
}

#[tokio::test]
async fn resp2_says_the_same() {
    let lab = Lab::new().await;
    let link = link(&format!("{}?protocol=resp2", lab.server.url())).await;
    let ours = claim("lock:a", "ours");
    let command = acquire(&ours, link.server_time() + HOUR);
    assert!(matches!(
        link.acquire(&command, CAP).await,
        Ok(Acquired::Granted { .. })
    ));
    assert!(matches!(
        link.acquire(&command, CAP).await,
        Ok(Acquired::Yours { .. })
    ));
    assert_eq!(
        link.renew(&[renewal(&ours, 60)], CAP).await.unwrap(),
        [Renewed::Yes]
    );
    assert_eq!(
        link.read("lock:a", CAP).await.unwrap().as_deref(),
        Some("ours")
    );
    assert!(link.cancel(&ours, Keep::NOT, 0, CAP).await.unwrap().found);
    assert!(!link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(link.read("lock:a", CAP).await.unwrap(), None);
}

/// And each section is in a script.
#[tokio::test]
async fn the_server_understands_each_script() {
    let by_native_commands = 2;
    assert_eq!(scripts::all().len(), lua::ALL.len() + by_native_commands);
    for (script, sections) in lua::ALL {
        for name in sections.iter().flat_map(|it| it.split(' ')) {
            assert!(
                name == "|" || !lua::section(name).is_empty(),
                "{script}: {name}"
            );
        }
    }
    let lab = Lab::new().await;
    let all: Vec<_> = scripts::all()
        .iter()
        .map(|it| it.text(Reads::Whole))
        .collect();
    for text in &all {
        lab.tell::<String>(&["SCRIPT", "LOAD", text]).await;
    }
    for name in lua::sections() {
        let text = lua::section(&name);
        assert!(all.iter().any(|it| it.contains(text)), "{name}");
    }
}

/// The error texts of Redis 6.2 and 7.0, which name the line, and of an item of a batch; 7.2 names
/// the command itself.
#[test]
fn the_command_that_a_user_may_not_run_is_read_off_the_scripts_line() {
    for (script, has) in [
        (&*scripts::POLL, "('TIME')"),
        (&scripts::COMBINED, "try('MGET'"),
    ] {
        let text = script.text(Reads::Whole);
        let line = text.lines().position(|line| line.contains(has));
        let (line, hash) = (line.unwrap() + 1, redis::Script::new(&text));
        let hash = hash.get_hash();
        let expected: &[&str] = if has.contains("TIME") {
            &["TIME"]
        } else {
            &["MGET"]
        };
        let known = "The user executing the script can't run this command or subcommand";
        for said in [
            format!("ERR {known} script: {hash}, on @user_script:{line}."),
            format!(
                "ERR Error running script (call to f_{hash}): @user_script:{line}: @user_script: {line}: {known}"
            ),
        ] {
            assert_eq!(scripts::commands_of_error(&said), expected, "{said}");
        }
    }
    for strange in [
        "@user_script:",
        "@user_script:0",
        "@user_script:99999999999999999999999",
        "@user_script:99999",
        "@user_script: x",
        "",
    ] {
        assert_eq!(scripts::commands_of_error(strange), [""; 0], "{strange}");
    }
}

/// A reply tells the beginning of what stands at a key, and scripts compare it with their own entry.
#[test]
fn a_reply_tells_all_of_our_longest_entry() {
    const LONGEST: usize = 4096;
    for lua in [
        include_str!("../../../rules/lua/lock.lua"),
        include_str!("../../../rules/lua/acquire.lua"),
        include_str!("../../../rules/lua/node.lua"),
    ] {
        assert!(lua.contains(&LONGEST.to_string()));
    }
    let about = About {
        host: &WrittenName::of(&"|".repeat(1000)),
        pid: &u32::MAX.to_string(),
        function: &"|".repeat(1000),
        since: SystemTime::now(),
    };
    let owner = Kind::Owned("%7C".repeat(256).into());
    let namespace = "x".repeat(128);
    let address = format!("{};{namespace}@grant:{:016x}", "f".repeat(16), u64::MAX);
    let token = TokenSource::new().unwrap().draw();
    let lease = Ttl::new(Duration::from_secs(24 * 3600)).unwrap();
    let entry = entry::write(&owner, token, &address, (lease, None), &about);
    assert!((2000..=LONGEST).contains(&entry.len()), "{}", entry.len());
}
