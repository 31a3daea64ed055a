//! What stands at the server, which commands are sent, and data of other programs at a lock's key.

use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{Holder, LockError, LockPool, Released};
use dlock_tests::patient;

use crate::{CAP, LONG, connect, plain, wait_for};

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
async fn fences_rise_with_a_counter_that_is_ahead_also_by_a_polls_grant() {
    let server = RedisServer::start();
    let pool = connect(plain(server.url())).await;
    let (seconds, _): (u64, u64) = server.ask(&["TIME"]).await;
    let ahead = (seconds + 3_600) * 1_000_000;
    server
        .cmd(&["SET", "lock:@fence", &ahead.to_string()])
        .await;
    let mut fences = vec![ahead];
    for before in [
        &["DEL", "lock:k"][..],
        &["SET", "lock:k", "theirs", "PX", "300"],
    ] {
        server.cmd(before).await;
        let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
        fences.push(held.fence().into());
        held.release().await.unwrap();
    }
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
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
    assert!(format!("{error:?}").contains("read/write"), "{error:?}");
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
