//! What a server saw of one key, from `MONITOR`: no command may touch a lock again once it was
//! given back.

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_harness::{Monitor, until};
use dlock_runtime::LockPool;

use crate::world::A_WHILE;

/// How often the metronome's lease is renewed.
const BEAT: Duration = Duration::from_millis(20);

/// Fails if a command tried to renew a lock under `prefix` after it was deleted, or if the lock was
/// set twice or never deleted.
///
/// Another lease of the same watchdog, renewed at least as often, shows that renewals had the time
/// to come.
pub(crate) async fn ends_with_its_lock(monitor: &Monitor, pool: &LockPool, prefix: &str) {
    beats(monitor, pool, 6).await;
    let mut lives: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let record = monitor.settled().await;
    for (key, event) in events(&record, prefix) {
        let life = lives.entry(key).or_default();
        match event {
            "DELEX" | "DELIFEQ" if life.last() == Some(&"DEL") => {} // in vain: the key is gone
            "DELEX" | "DELIFEQ" => life.push("DEL"),
            _ => life.push(event),
        }
    }
    assert!(!lives.is_empty(), "nothing was recorded under {prefix}");
    for (key, events) in lives {
        let only_renewed = |between: &[&str]| between.iter().all(|event| *event == "renew");
        let sound = matches!(&events[..], ["SET", between @ .., "DEL"] if only_renewed(between));
        assert!(sound, "{key}: {events:?}");
    }
}

/// The events of each lock: `SET`, `DEL` or the server's own compare-and-delete, and `renew` for
/// each attempt to renew.
fn events<'a>(lines: &'a [String], prefix: &str) -> Vec<(String, &'a str)> {
    let renewal = renewal_script(lines);
    let mut events = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').map(|word| word.trim_matches('"')).collect();
        let ours = |word: &&str| {
            let key = word.strip_prefix("lock:")?;
            key.starts_with(prefix).then(|| key.to_owned())
        };
        match words[..] {
            [
                _,
                _,
                "lua]",
                verb @ ("SET" | "DEL" | "DELEX" | "DELIFEQ"),
                key,
                ..,
            ] => {
                events.extend(ours(&key).map(|key| (key, verb)));
            }
            [_, _, _, "EVALSHA", script, ..] if script == renewal => {
                events.extend(words.iter().filter_map(ours).map(|key| (key, "renew")));
            }
            _ => {}
        }
    }
    events
}

/// The hash of the script that renews: the one that ran when the metronome was last renewed.
fn renewal_script(lines: &[String]) -> &str {
    let renewed = |line: &String| line.contains("lua] \"PEXPIRE\"");
    let nth = lines.iter().rposition(renewed).expect("a renewal");
    let script = lines[..nth].iter().rev().find_map(|line| {
        let (_, command) = line.split_once("\"EVALSHA\" \"")?;
        command.split_once('"').map(|(script, _)| script)
    });
    script.expect("a script before its commands")
}

/// Waits until another lease of the pool's watchdog has been renewed `count` times.
async fn beats(monitor: &Monitor, pool: &LockPool, count: usize) {
    let metronome = pool.lock("metronome").ttl(Duration::from_secs(30));
    let metronome = metronome.renew_every(BEAT).acquire().await.unwrap();
    let before = renewals(monitor, "metronome");
    until("the metronome beats", A_WHILE, async || {
        renewals(monitor, "metronome") >= before + count
    })
    .await;
    metronome.release().await.unwrap();
}

/// How often a lock was renewed so far.
pub(crate) fn renewals(monitor: &Monitor, key: &str) -> usize {
    let renewed = format!("lua] \"PEXPIRE\" \"lock:{key}\"");
    monitor
        .lines()
        .iter()
        .filter(|line| line.contains(&renewed))
        .count()
}
