//! Guarded writes: batches of data that are written only while the lock is held.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dlock_runtime::{Batch, LockError, LockPool, LostCause, MemoryValue, Refusal};

use crate::backends::{LONG, is_lost, ms, soon};
use crate::data::Site;

on_every_backend!(
    a_pool_of_a_server_has_nothing_to_peek_into;
    with_data:
    every_command_is_written_while_the_lock_is_held,
    the_value_is_bytes,
    a_lapsed_holder_writes_nothing_whether_or_not_another_holds_the_lock,
    a_holder_that_gave_up_its_max_hold_writes_nothing,
    a_key_in_another_slot_is_refused_before_anything_is_sent,
    a_command_of_another_type_leaves_those_before_it_unwritten,
    a_field_that_is_no_number_leaves_the_batch_unwritten,
    an_empty_batch_only_verifies,
    a_thousand_commands_are_the_most,
    what_was_written_for_a_time_ends,
    a_batch_may_be_written_again,
);

const NOTHING: Option<Vec<u8>> = None;

#[allow(
    clippy::unnecessary_wraps,
    reason = "beside `NOTHING`, as `strings` tells it"
)]
fn text(value: &str) -> Option<Vec<u8>> {
    Some(value.into())
}

async fn every_command_is_written_while_the_lock_is_held(site: Site) {
    let lock = site.pool.lock("{7}").acquire().await.unwrap();
    let before = Batch::new()
        .set("gone{7}", "x")
        .set("kept{7}", "x")
        .hset("hash{7}", "old", "x")
        .sadd("set{7}", "old")
        .zadd("scores{7}", "old", 1.0);
    lock.write(&before).await.unwrap();
    let batch = Batch::new()
        .del("gone{7}")
        .expire("kept{7}", LONG)
        .set_with_ttl("string{7}", "x", LONG)
        .incr_by("number{7}", -5)
        .incr_by("number{7}", 3)
        .hset("hash{7}", "new", "y")
        .hdel("hash{7}", "old")
        .hincr_by("hash{7}", "number", 7)
        .sadd("set{7}", "new")
        .srem("set{7}", "old")
        .zadd("scores{7}", "new", 0.5)
        .zrem("scores{7}", "old")
        .rpush("list{7}", "b")
        .lpush("list{7}", "a");
    lock.write(&batch).await.unwrap();
    let strings = ["gone{7}", "kept{7}", "string{7}", "number{7}"];
    let found = site.strings(strings).await;
    assert_eq!(found, [NOTHING, text("x"), text("x"), text("-2")]);
    let hash = BTreeMap::from([("new", "y"), ("number", "7")]);
    let scores = BTreeMap::from([("new".into(), 0.5)]);
    if let Some(server) = &site.server {
        let found: BTreeMap<String, String> = server.ask(&["HGETALL", "hash{7}"]).await;
        assert!(found.iter().map(|(k, v)| (&**k, &**v)).eq(hash));
        let found: Vec<String> = server.ask(&["SMEMBERS", "set{7}"]).await;
        assert_eq!(found, ["new"]);
        let words = ["ZRANGE", "scores{7}", "0", "-1", "WITHSCORES"];
        let found: Vec<(Vec<u8>, f64)> = server.ask(&words).await;
        assert!(found.into_iter().eq(scores));
        let found: Vec<String> = server.ask(&["LRANGE", "list{7}", "0", "-1"]).await;
        assert_eq!(found, ["a", "b"]);
    } else {
        let memory_value = |key| site.pool.memory_value(key).unwrap().unwrap();
        let hash = hash.into_iter().map(|(k, v)| (k.into(), v.into()));
        assert_eq!(memory_value("hash{7}"), MemoryValue::Hash(hash.collect()));
        let set = BTreeSet::from(["new".into()]);
        assert_eq!(memory_value("set{7}"), MemoryValue::Set(set));
        assert_eq!(memory_value("scores{7}"), MemoryValue::SortedSet(scores));
        let list = vec!["a".into(), "b".into()];
        assert_eq!(memory_value("list{7}"), MemoryValue::List(list));
    }
}

async fn the_value_is_bytes(site: Site) {
    let lock = site.pool.lock("größe:{ü}").acquire().await.unwrap();
    let every: Vec<u8> = (0..=255).collect();
    let batch = Batch::new()
        .set("a{ü}", &every)
        .set("b{ü}", "")
        .hset("h{ü}", &every, b"\0");
    lock.write(&batch).await.unwrap();
    let found = site.strings(["a{ü}", "b{ü}"]).await;
    assert_eq!(found, [Some(every), text("")]);
}

async fn a_lapsed_holder_writes_nothing_whether_or_not_another_holds_the_lock(site: Site) {
    let pool = &site.pool;
    let late = pool.lock("{7}").ttl(ms(50)).wait(LONG).acquire();
    let late = late.await.unwrap();
    assert_eq!(late.lost().await, LostCause::Deadline);
    let batch = |value: &str| Batch::new().set("a{7}", value);
    nothing_written(late.write(&batch("late")).await, LostCause::Deadline);
    let next = pool.lock("{7}").ttl(LONG).wait(LONG).acquire();
    let next = next.await.unwrap();
    next.write(&batch("next")).await.unwrap();
    nothing_written(late.write(&batch("late")).await, LostCause::Deadline);
    is_lost(late.write(&Batch::new()).await, LostCause::Deadline);
    assert_eq!(site.strings(["a{7}"]).await, [text("next")]);
}

async fn a_holder_that_gave_up_its_max_hold_writes_nothing(site: Site) {
    let lock = site.pool.lock("{7}").ttl(ms(3_000)).renew();
    let lock = lock.max_hold(ms(3_000)).acquire().await.unwrap();
    // From here on only `max_hold` ends the lease, however late a renewal is.
    lock.extend(LONG).await.unwrap();
    let batch = |value: &str| Batch::new().set("a{7}", value);
    lock.write(&batch("in time")).await.unwrap();
    assert_eq!(lock.lost().await, LostCause::MaxHold);
    nothing_written(lock.write(&batch("late")).await, LostCause::MaxHold);
    assert_eq!(site.strings(["a{7}"]).await, [text("in time")]);
}

#[track_caller]
fn nothing_written(written: Result<(), LockError>, why: LostCause) {
    let said = format!("{:?}", written.as_ref().unwrap_err());
    assert!(
        said.ends_with("what was done before that stands: nothing of the batch was written"),
        "{said}"
    );
    is_lost(written, why);
}

async fn a_key_in_another_slot_is_refused_before_anything_is_sent(site: Site) {
    let tagged = site.pool.lock("item:{7}").acquire().await.unwrap();
    let plain = site.pool.lock("item:7").acquire().await.unwrap();
    let scripts = site.scripts().await;
    for (lock, fine, key, why) in [
        (&tagged, "a{7}", "stock:7", "put `{7}` into the key"),
        (&tagged, "a{7}", "stock:{8}", "put `{7}` into the key"),
        (&tagged, "a{7}", "lock:item:{7}", "one of dlock's own keys"),
        (&tagged, "a{7}", "lock:@w:{7}", "one of dlock's own keys"),
        (
            &plain,
            "{lock:item:7}",
            "stock:7",
            "put `{lock:item:7}` into",
        ),
        (
            &plain,
            "{lock:item:7}",
            "item:7",
            "put `{lock:item:7}` into",
        ),
        (
            &plain,
            "{lock:item:7}",
            "lock:item:7",
            "one of dlock's own keys",
        ),
    ] {
        let batch = Batch::new().set(fine, "secret").set(key, "secret");
        let error = lock.write(&batch).await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        let words = error.to_string();
        assert!(words.contains(why) && !words.contains("secret"), "{words}");
    }
    assert_eq!(site.scripts().await, scripts);
    for (lock, key) in [(&tagged, "stock:{7}"), (&plain, "{lock:item:7}:stock")] {
        lock.write(&Batch::new().set(key, "3")).await.unwrap();
        assert_eq!(site.strings([key]).await, [text("3")]);
    }
}

/// The types are checked before the first command; the error names the key in question, and no
/// value.
async fn a_command_of_another_type_leaves_those_before_it_unwritten(site: Site) {
    let lock = site.pool.lock("{7}").acquire().await.unwrap();
    lock.write(&Batch::new().rpush("list{7}", "x"))
        .await
        .unwrap();
    let batch = Batch::new()
        .set("a{7}", "secret")
        .incr_by("b{7}", 1)
        .hset("list{7}", "secret", "secret");
    refused(
        lock.write(&batch).await,
        "list{7}",
        "HSET, command 3 of 3: the value there is no hash; nothing was written",
    );
    assert_eq!(site.strings(["a{7}", "b{7}"]).await, [NOTHING; 2]);
    // The lock is still usable. And a batch may write to a key that it has itself deleted before.
    lock.write(&batch_that_makes_room()).await.unwrap();
    assert_eq!(site.strings(["a{7}"]).await, [text("x")]);
}

fn batch_that_makes_room() -> Batch {
    let batch = Batch::new().del("list{7}").hset("list{7}", "f", "x");
    batch.set("a{7}", "x")
}

fn refused(written: Result<(), LockError>, at: &str, why: &str) {
    match written {
        Err(LockError::Refused {
            key: Some(key),
            reason: Refusal::WrongType,
            source,
            ..
        }) => assert_eq!((key.as_str(), &*source.to_string()), (at, why)),
        other => panic!("not refused: {other:?}"),
    }
}

async fn a_field_that_is_no_number_leaves_the_batch_unwritten(site: Site) {
    let lock = site.pool.lock("{7}").acquire().await.unwrap();
    let before = Batch::new()
        .set("word{7}", "seven")
        .hset("hash{7}", "f", "9999999999999999999");
    lock.write(&before).await.unwrap();
    let number = "is no whole number of at most 18 digits; nothing was written";
    let batch = Batch::new().set("a{7}", "x").incr_by("word{7}", 1);
    let why = format!("INCRBY, command 2 of 2: the value there {number}");
    refused(lock.write(&batch).await, "word{7}", &why);
    let batch = Batch::new().set("a{7}", "x").hincr_by("hash{7}", "f", 1);
    let why = format!("HINCRBY, command 2 of 2: the field there {number}");
    refused(lock.write(&batch).await, "hash{7}", &why);
    let found = site.strings(["a{7}", "word{7}"]).await;
    assert_eq!(found, [NOTHING, text("seven")]);
}

async fn an_empty_batch_only_verifies(site: Site) {
    let lock = site.pool.lock("k").acquire().await.unwrap();
    lock.write(&Batch::new()).await.unwrap();
    if let Some(server) = &site.server {
        server.ask::<()>(&["DEL", "lock:k"]).await;
        let batch = Batch::new().set("{lock:k}", "x");
        nothing_written(lock.write(&batch).await, LostCause::Gone);
        let lock = site.pool.lock("k").acquire().await.unwrap();
        server.ask::<()>(&["DEL", "lock:k"]).await;
        is_lost(lock.write(&Batch::new()).await, LostCause::Gone);
    }
}

async fn a_thousand_commands_are_the_most(site: Site) {
    let lock = site.pool.lock("{7}").acquire().await.unwrap();
    let most = (0..1_000).fold(Batch::new(), |batch, number| {
        batch.set(format!("{number}{{7}}"), "x")
    });
    let error = lock.write(&most.clone().del("0{7}")).await.unwrap_err();
    assert!(error.to_string().contains("1000 are the most"), "{error}");
    assert_eq!(site.strings(["0{7}", "999{7}"]).await, [NOTHING; 2]);
    lock.write(&most).await.unwrap();
    let found = site.strings(["0{7}", "999{7}"]).await;
    assert_eq!(found, [text("x"), text("x")]);
}

async fn what_was_written_for_a_time_ends(site: Site) {
    let lock = site.pool.lock("{7}").acquire().await.unwrap();
    let short = Duration::from_micros(1_500); // 2 ms on the server
    let batch = Batch::new()
        .set_with_ttl("short{7}", "x", short)
        .set("later{7}", "x")
        .set("kept{7}", "x")
        .expire("later{7}", short)
        .set_with_ttl("long{7}", "x", LONG)
        .set("long{7}", "y");
    lock.write(&batch).await.unwrap();
    soon("both are gone", async || {
        site.strings(["short{7}", "later{7}"]).await == [NOTHING; 2]
    })
    .await;
    let found = site.strings(["kept{7}", "long{7}"]).await;
    assert_eq!(found, [text("x"), text("y")]);
    if let Some(server) = &site.server {
        let left: i64 = server.ask(&["PTTL", "long{7}"]).await;
        assert_eq!(left, -1, "for good");
    }
}

async fn a_batch_may_be_written_again(site: Site) {
    let lock = site.pool.lock("{7}").acquire().await.unwrap();
    let batch = Batch::new().set("a{7}", "x").incr_by("b{7}", 1);
    for _ in 0..3 {
        lock.write(&batch).await.unwrap();
    }
    let found = site.strings(["a{7}", "b{7}"]).await;
    assert_eq!(found, [text("x"), text("3")]);
}

async fn a_pool_of_a_server_has_nothing_to_peek_into(pool: LockPool) {
    let peeked = pool.memory_value("a{7}");
    if format!("{pool:?}").contains("memory://") {
        return assert_eq!(peeked.unwrap(), None);
    }
    let error = peeked.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains("your own client"), "{error}");
}
