//! Tests of the script of guarded writes: a server that refuses commands, and locks of a kind that
//! does not exist yet.

use redis::Value;

use super::lab::{CAP, FENCES, HOUR, Lab, assert_refused, claim};
use crate::extras::writes::{Writes, Wrote};
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::values::batch::Batch;
use crate::values::error::Refusal;

const LOCK: &str = "lock:{7}";

async fn write(link: &RedisLink, value: &str, batch: &Batch) -> Result<Wrote, CommandError> {
    let writes = Writes::new(batch, LOCK, "lock:").unwrap();
    link.write(&claim(LOCK, value), &writes, CAP).await
}

async fn held() -> Lab {
    let lab = Lab::new().await;
    lab.granted(&claim(LOCK, "ours")).await;
    lab
}

fn three() -> Batch {
    let batch = Batch::new().del("a{7}").set("b{7}", "x");
    batch.rpush("c{7}", "x")
}

/// Redis checks its memory only before the first write of a script: a script that begins with a
/// deletion would go on.
#[tokio::test]
async fn out_of_memory_nothing_is_written_unless_it_only_frees() {
    let lab = held().await;
    lab.tell::<Value>(&["SET", "a{7}", "x"]).await;
    let before = lab.tell::<i64>(&["PTTL", LOCK]).await;
    lab.tell::<Value>(&["CONFIG", "SET", "maxmemory", "1"])
        .await;
    let grows = Batch::new().set("b{7}", "x").del("a{7}");
    match write(&lab.link, "ours", &grows).await {
        Ok(Wrote::Stopped(0, Refusal::OutOfMemory, _)) => {}
        other => panic!("{other:?}"),
    }
    let answer = write(&lab.link, "ours", &three()).await;
    assert_refused(answer, Refusal::OutOfMemory);
    assert_eq!(lab.keys().await, ["a{7}", FENCES, LOCK]);
    let frees = Batch::new().srem("b{7}", "x").del("a{7}");
    assert_eq!(write(&lab.link, "ours", &frees).await.unwrap(), Wrote::All);
    assert_eq!(lab.keys().await, [FENCES, LOCK]);
    let after = lab.tell::<i64>(&["PTTL", LOCK]).await;
    assert!(after > 0 && after <= before, "{after} after {before}");
}

/// A stopped server executes the script when it continues; by then its caller has gone on.
#[tokio::test]
async fn what_is_executed_after_its_time_writes_nothing() {
    let lab = held().await;
    let batch = three();
    let writes = Writes::new(&batch, LOCK, "lock:").unwrap();
    let ours = claim(LOCK, "ours");
    lab.link.write(&ours, &writes, CAP).await.unwrap(); // from now on the server knows the script
    lab.tell::<Value>(&["DEL", "b{7}", "c{7}"]).await;
    let before = lab.server.commandstats("evalsha").await;
    lab.server.stop_signal();
    let answer = lab.link.write(&ours, &writes, CAP / 200).await;
    assert!(
        matches!(answer, Err(CommandError::Unclear(_))),
        "{answer:?}"
    );
    lab.server.cont();
    lab.link.ping(CAP).await.unwrap(); // answered after it
    let executed = lab.server.commandstats("evalsha").await - before;
    assert_eq!(executed, 1);
    assert_eq!(lab.keys().await, [FENCES, LOCK]);
}

#[tokio::test]
async fn where_the_servers_clock_was_set_it_is_sent_once_more() {
    let lab = held().await;
    let hour_ago = lab.link.server_time() - HOUR;
    lab.link
        .connection
        .heard_time(hour_ago, lab.link.connection.clock.now());
    assert!(
        lab.link.server_time() < hour_ago + HOUR / 2,
        "it believes that"
    );
    assert_eq!(
        write(&lab.link, "ours", &three()).await.unwrap(),
        Wrote::All
    );
    assert!(lab.link.server_time() > hour_ago + HOUR / 2);
    assert_eq!(lab.tell::<i64>(&["LLEN", "c{7}"]).await, 1);
}

/// A script can't ask beforehand what the user may run.
#[tokio::test]
async fn a_forbidden_command_stops_the_batch_and_says_where() {
    let lab = held().await;
    lab.tell::<Value>(&["ACL", "SETUSER", "default", "-rpush"])
        .await;
    match write(&lab.link, "ours", &three()).await {
        Ok(Wrote::Stopped(2, Refusal::NoPermission, _)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(lab.keys().await, ["b{7}", FENCES, LOCK]);
    lab.tell::<Value>(&["ACL", "SETUSER", "default", "-type"])
        .await;
    let batch = Batch::new().set("d{7}", "x").sadd("e{7}", "x");
    let answer = write(&lab.link, "ours", &batch).await;
    assert_refused(answer, Refusal::NoPermission);
    assert_eq!(lab.keys().await, ["b{7}", FENCES, LOCK]);
}

#[tokio::test]
async fn a_server_that_became_a_replica_writes_nothing_and_ends_the_connection() {
    for batch in [three(), Batch::new().set("a{7}", "x")] {
        let lab = held().await;
        lab.tell::<Value>(&["REPLICAOF", "127.0.0.1", "1"]).await;
        match write(&lab.link, "ours", &batch).await {
            Err(CommandError::Refused(Refusal::ReadOnly, _))
            | Ok(Wrote::Stopped(0, Refusal::ReadOnly, _)) => {}
            other => panic!("{other:?}"),
        }
        assert!(
            !lab.link.connection.is_usable(),
            "the master may be elsewhere by now"
        );
    }
}

/// A holder of a shared kind has an entry with its own end; the key lives as long as the longest.
#[tokio::test]
async fn an_entry_of_a_shared_lock_writes_until_its_own_end() {
    let lab = Lab::new().await;
    let entry = "1|w|0-1||30000|0|0||host|1|f|0";
    let lapsed = "1|r|0-2||30000|0|0||host|1|f|0";
    let now = lab.link.server_time();
    let (later, earlier) = ((now + 60_000_000).to_string(), (now - 1).to_string());
    lab.tell::<Value>(&["ZADD", LOCK, &later, entry, &earlier, lapsed])
        .await;
    assert_eq!(write(&lab.link, entry, &three()).await.unwrap(), Wrote::All);
    assert_eq!(lab.keys().await, ["b{7}", "c{7}", LOCK]);
    for value in [lapsed, "1|p|0-3||30000|1|2||host|1|f|0", "ours"] {
        let other = Batch::new().set("d{7}", "x");
        assert_eq!(
            write(&lab.link, value, &other).await.unwrap(),
            Wrote::NotOurs
        );
    }
    lab.tell::<Value>(&["CONFIG", "SET", "maxmemory", "1"])
        .await;
    assert_refused(
        write(&lab.link, entry, &three()).await,
        Refusal::OutOfMemory,
    );
    lab.tell::<Value>(&["CONFIG", "SET", "maxmemory", "0"])
        .await;
    assert_eq!(lab.tell::<String>(&["ZSCORE", LOCK, entry]).await, later);
    lab.tell::<Value>(&["DEL", LOCK]).await;
    for is in [&["SET", LOCK, entry][..], &["LPUSH", LOCK, entry]] {
        lab.tell::<Value>(is).await;
        let other = Batch::new().set("d{7}", "x");
        assert_eq!(
            write(&lab.link, entry, &other).await.unwrap(),
            Wrote::NotOurs
        );
        lab.tell::<Value>(&["DEL", LOCK]).await;
    }
}

#[tokio::test]
async fn the_script_is_sent_again_where_the_server_forgot_it() {
    let lab = held().await;
    for _ in 0..2 {
        lab.tell::<Value>(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(
            write(&lab.link, "ours", &three()).await.unwrap(),
            Wrote::All
        );
    }
    assert_eq!(
        lab.tell::<i64>(&["LLEN", "c{7}"]).await,
        2,
        "once each time"
    );
    let left: i64 = lab.tell(&["PTTL", LOCK]).await;
    assert!(left > 0 && left <= 30_000, "the lease is as it was: {left}");
}
