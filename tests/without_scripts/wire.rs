//! What stands at the server, which commands are sent, and data of other programs at a lock's key.

use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{Holder, LockError, LockPool, Refusal, Released};
use dlock_tests::patient;

use crate::{CAP, LONG, connect, plain, wait_for, words};

const QUEUE: &str = "lock:@w:{lock:k}";

async fn is_queued(server: &RedisServer, entries: usize) {
    until("it waits", CAP, async || {
        server.ask::<usize>(&["ZCARD", QUEUE]).await == entries
    })
    .await;
}

/// Everything that a pool does.
pub(crate) async fn everything(
    one: &LockPool,
    two: &LockPool,
    server: &RedisServer,
) -> Result<(), LockError> {
    one.ping().await?;
    let held = one.lock("k").ttl(LONG).reentrant().acquire().await?;
    held.extend(2 * LONG).await?;
    held.verify().await?;
    assert!(matches!(two.holder("k").await?, Some(Holder::Process(_))));
    assert!(two.lock("k").try_acquire().await?.is_none());
    let waiter = wait_for(two.lock("k").ttl(LONG));
    is_queued(server, 1).await;
    let leaver = wait_for(one.lock("k").ttl(LONG));
    is_queued(server, 2).await;
    leaver.abort();
    is_queued(server, 1).await;
    assert_eq!(held.release().await?, Released::Freed);
    let held = waiter.await.unwrap()?;
    drop(held);
    until("it is free", CAP, async || {
        one.holder("k").await.unwrap().is_none()
    })
    .await;
    let keep = one.lock("kept").min_hold(Duration::from_secs(2));
    keep.run(async |_| ()).await?;
    assert!(one.lock("kept").try_acquire().await?.is_none());
    let renewed = two.lock("renewed").renew_every(Duration::from_millis(20));
    renewed
        .run(async |_| tokio::time::sleep(Duration::from_millis(100)).await)
        .await?;
    until("only the counter is left", CAP, async || {
        server.keys().await == ["lock:@fence"]
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn no_script_is_ever_sent() {
    let server = RedisServer::start();
    let monitor = server.monitor();
    let (one, two) = (
        connect(plain(server.url())).await,
        connect(plain(server.url())).await,
    );
    everything(&one, &two, &server).await.unwrap();
    let lines = monitor.settled().await;
    let is_script = |line: &&String| line.contains("EVAL") || line.contains("\"SCRIPT\"");
    assert_eq!(lines.iter().find(is_script), None);
    assert!(lines.iter().any(|line| line.contains("\"EXEC\"")));
    for command in ["eval", "evalsha", "script|load"] {
        assert_eq!(server.commandstats(command).await, 0);
    }
}

#[tokio::test]
async fn what_needs_scripts_is_refused_before_anything_is_sent() {
    let server = RedisServer::start();
    let pool = connect(plain(server.url())).await;
    let held = pool.lock("held").ttl(LONG).acquire().await.unwrap();
    let monitor = server.monitor();
    let errors = [
        pool.lock("k").read().acquire().await.unwrap_err(),
        pool.lock("k").write().acquire().await.unwrap_err(),
        pool.lock("k").permits(2).try_acquire().await.unwrap_err(),
        pool.lock("k").fair().acquire().await.unwrap_err(),
        pool.lock("k")
            .reentrant()
            .owner("a")
            .acquire()
            .await
            .unwrap_err(),
        pool.lock_all(["k", "l"]).acquire().await.unwrap_err(),
        pool.lock("k").read().run(async |_| ()).await.unwrap_err(),
        held.write(&dlock_runtime::Batch::new().set("d{held}", "x"))
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains("`without_scripts`"), "{error}");
    }
    let sent = monitor.settled().await;
    assert!(
        !sent.iter().any(|line| line.contains("lock:k")),
        "{sent:#?}"
    );
}

#[tokio::test]
async fn both_ways_exclude_each_other_and_show_the_holder() {
    let server = RedisServer::start();
    let pools = [
        connect(plain(server.url()).holder_name("plain")).await,
        connect(patient(server.url()).holder_name("scripted")).await,
    ];
    for (holder, name, other) in [
        (&pools[0], "plain", &pools[1]),
        (&pools[1], "scripted", &pools[0]),
    ] {
        let held = holder.lock("k").ttl(LONG).acquire().await.unwrap();
        let Err(LockError::Busy { holder, left, .. }) = other
            .lock("k")
            .wait(dlock_runtime::Wait::Once)
            .acquire()
            .await
        else {
            panic!("not busy");
        };
        assert!(holder.to_string().contains("of this process"), "{holder}");
        // A key without scripts outlives its lease by up to 0.25 s.
        let longest = LONG + Duration::from_millis(250);
        assert!(left <= longest && left > LONG / 2, "{left:?}");
        let Some(Holder::Process(seen)) = other.holder("k").await.unwrap() else {
            panic!("no holder");
        };
        assert_eq!(seen.host(), name);
        let waiter = wait_for(other.lock("k").ttl(LONG));
        is_queued(&server, 1).await;
        let first = held.fence();
        held.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        assert!(next.fence() > first);
        next.verify().await.unwrap();
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn fences_rise_after_all_data_is_lost_and_with_a_counter_that_is_none() {
    let server = RedisServer::start();
    let (pool, scripted) = (
        connect(plain(server.url())).await,
        connect(patient(server.url())).await,
    );
    let take = async |pool: &LockPool| {
        let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
        let fence = held.fence();
        let _ = held.release().await;
        fence
    };
    let mut fences = vec![take(&pool).await, take(&scripted).await];
    for spoil in [
        &["FLUSHALL"][..],
        &["SET", "lock:@fence", "5"],
        &["SET", "lock:@fence", "no number"],
        &["SET", "lock:@fence", "9223372036854775807"],
        &["DEL", "lock:@fence"],
    ] {
        server.cmd(spoil).await;
        for pool in [&pool, &pool, &scripted, &pool] {
            fences.push(take(pool).await);
        }
    }
    // The counter is ahead of the clock, and a poll takes the lock.
    let (seconds, _): (u64, u64) = server.ask(&["TIME"]).await;
    let ahead = ((seconds + 3_600) * 1_000_000).to_string();
    server.cmd(&["SET", "lock:@fence", &ahead]).await;
    fences.push(take(&pool).await);
    server.cmd(&["SET", "lock:k", "theirs", "PX", "300"]).await;
    fences.push(take(&pool).await);
    server.cmd(&["DEL", "lock:@fence"]).await;
    server.cmd(&["RPUSH", "lock:@fence", "a list"]).await;
    let refused = pool.lock("k").ttl(LONG).acquire().await.unwrap_err();
    assert!(
        matches!(&refused, LockError::Refused { reason, .. } if *reason == Refusal::Companion),
        "{refused:?}"
    );
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

#[tokio::test]
async fn values_of_other_programs_are_waited_for_or_refused() {
    let server = RedisServer::start();
    let pool = connect(plain(server.url())).await;
    let once = async || pool.lock("k").try_acquire().await;
    let refusal = |error: LockError| match error {
        LockError::Refused { reason, .. } => reason,
        other => panic!("{other:?}"),
    };

    server.cmd(&["SET", "lock:k", "theirs", "PX", "300"]).await;
    let Err(LockError::Busy { holder, .. }) = pool
        .lock("k")
        .wait(dlock_runtime::Wait::Once)
        .acquire()
        .await
    else {
        panic!("not busy");
    };
    assert_eq!(holder, Holder::Foreign);
    let held = wait_for(pool.lock("k")).await.unwrap().unwrap();
    held.release().await.unwrap();

    server.cmd(&["SET", "lock:k", "endless"]).await;
    assert_eq!(refusal(once().await.unwrap_err()), Refusal::NoTtl);
    let waited = pool.lock("k").wait(LONG).acquire().await.unwrap_err();
    assert_eq!(refusal(waited), Refusal::NoTtl);
    let repairing = plain(server.url()).repair_missing_ttl(Duration::from_millis(200));
    let repairing = connect(repairing).await;
    let held = wait_for(repairing.lock("k")).await.unwrap().unwrap();
    held.release().await.unwrap();

    server
        .cmd(&["SET", "lock:k", "2|x|later", "PX", "60000"])
        .await;
    assert_eq!(refusal(once().await.unwrap_err()), Refusal::Layout);
    for (make, reason) in [
        (&["RPUSH", "lock:k", "x"][..], Refusal::WrongType),
        (&["SADD", "lock:k", "x"], Refusal::WrongType),
        (&["ZADD", "lock:k", "1", "x"], Refusal::WrongType),
        (&["ZADD", "lock:k", "inf", "2|#|rw"], Refusal::Layout),
    ] {
        server.cmd(&["DEL", "lock:k"]).await;
        server.cmd(make).await;
        assert_eq!(refusal(once().await.unwrap_err()), reason, "{make:?}");
        let waited = pool.lock("k").wait(LONG).acquire().await.unwrap_err();
        assert_eq!(refusal(waited), reason, "{make:?}");
    }
    server.cmd(&["DEL", "lock:k"]).await;
    assert!(once().await.unwrap().is_some());
}

#[tokio::test]
async fn another_kind_is_waited_for_and_its_release_grants() {
    let server = RedisServer::start();
    let (pool, scripted) = (
        connect(plain(server.url())).await,
        connect(patient(server.url())).await,
    );
    let reader = scripted.lock("k").read().ttl(LONG).acquire().await.unwrap();
    let error = pool.lock("k").try_acquire().await.unwrap_err();
    assert!(words(&error).contains("read/write"), "{error:?}");
    assert!(matches!(
        pool.holder("k").await.unwrap(),
        Some(Holder::Process(_))
    ));
    let waiter = wait_for(pool.lock("k").ttl(LONG));
    is_queued(&server, 1).await;
    reader.release().await.unwrap();
    let held = waiter.await.unwrap().unwrap();
    // The other way round: no transaction can grant a reader, so its own poll does, within a second.
    let reader = wait_for(scripted.lock("k").read().ttl(LONG));
    is_queued(&server, 1).await;
    held.release().await.unwrap();
    let reader = tokio::time::timeout(CAP, reader).await.unwrap();
    reader.unwrap().unwrap().release().await.unwrap();
}

/// What stands there is read by a second transaction, before which its holder leaves, or a lock of
/// this kind takes its place.
#[tokio::test]
async fn another_kind_that_ends_while_it_is_looked_at_is_not_refused() {
    let server = RedisServer::start();
    let wire = Proxy::start(server.addr());
    let pool = connect(plain(wire.url())).await;
    let scripted = connect(patient(server.url())).await;
    for next in [None, Some("theirs")] {
        let reader = scripted.lock("k").read().ttl(LONG).acquire().await.unwrap();
        let second = wire.on(Matcher::command("MULTI").nth(2), Action::Hold);
        let (tried, ()) = tokio::join!(pool.lock("k").ttl(LONG).try_acquire(), async {
            second.seen().await;
            reader.release().await.unwrap();
            if let Some(next) = next {
                server.cmd(&["SET", "lock:k", next, "PX", "60000"]).await;
            }
            wire.clear_triggers();
            wire.release_held();
        });
        let taken = tried.unwrap();
        assert_eq!(taken.is_some(), next.is_none());
        if let Some(taken) = taken {
            taken.release().await.unwrap();
        }
    }
}

/// A transaction is two round trips: between them, another program takes the key.
#[tokio::test]
async fn a_key_that_changes_hands_during_a_release_is_left_alone() {
    let server = RedisServer::start();
    let wire = Proxy::start(server.addr());
    let pool = connect(plain(wire.url())).await;
    let change_at_multi = async |change: &[&str]| {
        let held = wire.on(Matcher::command("MULTI"), Action::Hold);
        held.seen().await;
        server.cmd(change).await;
        wire.clear_triggers();
        wire.release_held();
    };
    let theft = ["SET", "lock:k", "theirs", "PX", "60000"];
    for change in [&theft[..], &["DEL", "lock:k"]] {
        let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
        let ((), released) = tokio::join!(change_at_multi(change), held.release());
        assert_eq!(released.unwrap(), Released::NotHeld);
        let left = server.ask::<Option<String>>(&["GET", "lock:k"]).await;
        assert_eq!(left.is_some(), change[0] == "SET");
        server.cmd(&["DEL", "lock:k"]).await;
    }
    // The same for a renewal: it lengthens nothing of theirs.
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let ((), extended) = tokio::join!(change_at_multi(&theft), held.extend(10 * LONG));
    assert!(extended.unwrap_err().is_lost());
    assert!(server.pttl("lock:k").await <= 60_000);
}
