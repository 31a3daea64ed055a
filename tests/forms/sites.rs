//! `sites()` lists what the attributes of this program say.

#![allow(
    dead_code,
    reason = "most are never called: their attributes are looked at"
)]

use std::time::Duration;

use dlock_runtime::{AnnotatedLock, KeySource, LockError, LockPool, Wait, distributed_lock, sites};

use crate::memory;

const SHELF: &str = "shelf";

#[distributed_lock(
    key = "listed:<id>",
    ttl = "10s",
    renew = "2s",
    max_hold = "5m",
    wait = "0s"
)]
async fn bounded(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn name(id: u64) -> String {
    format!("more-{id}")
}

#[distributed_lock(keys = [SHELF, "listed:<id>", name(id).as_str()], ttl = "2s")]
#[distributed_lock(
    key = "below:<id>",
    permits = 5,
    take = 2,
    min_hold = "1s",
    pool = "second"
)]
async fn two_locks(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

struct Shop {
    locks: LockPool,
}

impl Shop {
    #[distributed_lock(key = "generic:<id>", owner = "<id>", reentrant, pool = self.locks)]
    async fn generic<T: std::fmt::Display + Send>(&self, id: T) -> Result<String, LockError> {
        Ok(id.to_string())
    }
}

#[distributed_lock(key = "mailer:<shard>", ttl = "15s", lead)]
async fn leads(shard: u8) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", once_per = "20h", on_busy = "skip")]
async fn nightly() -> Result<(), LockError> {
    Ok(())
}

/// Never called: it is in the program all the same.
#[distributed_lock(key = "unused", read)]
async fn unused() -> Result<(), LockError> {
    Ok(())
}

fn of(function: &str) -> Vec<&'static AnnotatedLock> {
    let is_it = |site: &&AnnotatedLock| site.function() == format!("forms::sites::{function}");
    sites().into_iter().filter(is_it).collect()
}

#[test]
fn what_is_written_is_shown() {
    let [site] = of("bounded")[..] else {
        panic!("{:?}", of("bounded"))
    };
    assert!(site.file().ends_with("forms/sites.rs"), "{}", site.file());
    assert!(site.line() > 10);
    let keys: Vec<_> = site.keys().collect();
    assert_eq!(keys, [KeySource::Template("listed:<id>")]);
    assert_eq!((site.kind(), site.permits()), ("exclusive", None));
    assert_eq!(site.ttl(), Some(Duration::from_secs(10)));
    assert_eq!(site.wait(), Some(Wait::Once));
    assert_eq!(site.renewed_every(), Some(Duration::from_secs(2)));
    assert_eq!(site.max_hold(), Some(Duration::from_secs(300)));
    assert_eq!((site.min_hold(), site.max_renewals()), (None, None));
    assert!(site.is_renewed() && !site.is_fair());
    let shown = "listed:<id> (exclusive, ttl 10s, renewed, max_hold 300s)";
    assert_eq!(site.to_string(), format!("forms::sites::bounded: {shown}"));
}

#[test]
fn each_of_two_attributes_is_shown_at_its_line() {
    let [upper, lower] = of("two_locks")[..] else {
        panic!("{:?}", of("two_locks"))
    };
    assert_eq!(upper.line() + 1, lower.line());
    let shown = "{SHELF}, listed:<id>, {name (id) . as_str ()} (exclusive, ttl 2s)";
    assert_eq!(
        upper.to_string().replace(' ', ""),
        format!("forms::sites::two_locks:{shown}").replace(' ', "")
    );
    assert_eq!((lower.kind(), lower.permits()), ("permits", Some(5)));
    assert_eq!(lower.pool(), Some("second"));
    assert_eq!(lower.min_hold(), Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn a_generic_method_is_shown_once() {
    let locks = memory().await;
    let shop = Shop { locks };
    shop.generic(7).await.unwrap();
    shop.generic("seven").await.unwrap();
    let [site] = of("Shop::generic")[..] else {
        panic!("{:?}", of("Shop::generic"))
    };
    assert_eq!((site.kind(), site.pool()), ("owner", None));
}

#[test]
fn what_nobody_calls_is_shown() {
    let [site] = of("unused")[..] else {
        panic!("{:?}", of("unused"))
    };
    assert_eq!((site.kind(), site.ttl(), site.wait()), ("read", None, None));
}

#[test]
fn a_leader_waits_for_ever_and_is_renewed() {
    let [site] = of("leads")[..] else {
        panic!("{:?}", of("leads"))
    };
    assert_eq!((site.kind(), site.wait()), ("lead", Some(Wait::Forever)));
    let shown = "mailer:<shard> (lead, ttl 15s, renewed)";
    assert_eq!(site.to_string(), format!("forms::sites::leads: {shown}"));
}

#[test]
fn a_job_that_runs_once_per_period_says_so() {
    let [site] = of("nightly")[..] else {
        panic!("{:?}", of("nightly"))
    };
    assert_eq!(site.once_per(), Some(Duration::from_secs(72_000)));
    let shown = "nightly (exclusive, once_per 72000s)";
    assert_eq!(site.to_string(), format!("forms::sites::nightly: {shown}"));
}

#[test]
fn they_are_sorted() {
    let names: Vec<_> = sites().iter().map(|site| site.function()).collect();
    assert!(names.len() > 20 && names.is_sorted(), "{names:?}");
}
