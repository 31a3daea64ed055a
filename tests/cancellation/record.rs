//! What a server saw of one key, from a MONITOR: nothing may touch a lock again once it was given back.

use std::time::Duration;

use dlock_harness::{Monitor, until};
use dlock_runtime::LockPool;

/// How often the metronome is renewed.
const BEAT: Duration = Duration::from_millis(20);

/// Fails if any lock under `prefix` was renewed after it was deleted, set twice, or never deleted.
///
/// A lease of the same guardian, renewed at least as often, shows that renewals had the time to come.
pub(crate) async fn ends_with_its_lock(monitor: &Monitor, pool: &LockPool, prefix: &str) {
    beats(monitor, pool, 5).await;
    let mut lives: std::collections::BTreeMap<String, Vec<String>> =
        std::collections::BTreeMap::new();
    for line in monitor.settled().await {
        if let Some((key, verb)) = write(&line, prefix) {
            lives.entry(key).or_default().push(verb);
        }
    }
    assert!(!lives.is_empty(), "nothing was recorded under {prefix}");
    for (key, verbs) in lives {
        let (first, last) = (verbs.first(), verbs.last());
        let only_renewed = verbs[1..]
            .iter()
            .rev()
            .skip(1)
            .all(|verb| verb == "PEXPIRE");
        assert!(
            first.is_some_and(|verb| verb == "SET")
                && last.is_some_and(|verb| verb == "DEL")
                && only_renewed,
            "{key}: {verbs:?}"
        );
    }
}

/// Waits until another lease of the pool's guardian has been renewed so often.
async fn beats(monitor: &Monitor, pool: &LockPool, count: usize) {
    let metronome = pool.lock("metronome").ttl(Duration::from_secs(30));
    let metronome = metronome.renew_every(BEAT).acquire().await.unwrap();
    let before = renewals(monitor, "metronome");
    until("the metronome beats", Duration::from_secs(5), async || {
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

/// The lock that a script wrote to, and the command.
fn write(line: &str, prefix: &str) -> Option<(String, String)> {
    let (_, command) = line.split_once("lua] ")?;
    let mut words = command.split(' ').map(|word| word.trim_matches('"'));
    let (verb, key) = (words.next()?, words.next()?.strip_prefix("lock:")?);
    let writes = ["SET", "PEXPIRE", "DEL"].contains(&verb) && key.starts_with(prefix);
    writes.then(|| (key.to_owned(), verb.to_owned()))
}
