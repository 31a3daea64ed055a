//! `min_replicas` and `min_aof`: what counts only once other servers have it.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Concern, Config, LockError, LockGuard, LockPool, LostCause, Refusal, Wait};
use dlock_tests::served::{documented_rules, documented_user};
use dlock_tests::{patient, refusal};
use futures_util::future::join_all;

const CAP: Duration = Duration::from_secs(30);

/// A master with one replica that has its data.
async fn replicated() -> (RedisServer, RedisServer) {
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let master = RedisServer::builder().args(at_once).start();
    let port = master.port().to_string();
    let of = ["--replicaof", "127.0.0.1", &port];
    let replica = RedisServer::builder().args(at_once).args(of).start();
    master.replicated(1).await;
    (master, replica)
}

fn config(server: &RedisServer) -> Config {
    Config::new(server.url()).min_replicas(1)
}

async fn connect(config: Config) -> LockPool {
    LockPool::connect(config).await.unwrap()
}

async fn is_free(server: &RedisServer, key: &str) -> bool {
    server.ask::<u64>(&["EXISTS", key]).await == 0
}

/// How often a command was executed.
async fn calls(server: &RedisServer, command: &str) -> u64 {
    server.commandstats(command).await
}

fn assert_not_replicated(error: &LockError) {
    assert_eq!(refusal(error), Some(Refusal::NotReplicated), "{error:?}");
}

#[tokio::test]
async fn whatever_moves_a_deadline_waits_for_the_replica() {
    let (master, _replica) = replicated().await;
    let pool = connect(config(&master)).await;
    let mut waits = calls(&master, "wait").await;
    let mut waited = async |what| {
        let now = calls(&master, "wait").await;
        assert!(now > waits, "{what}");
        waits = now;
    };
    let held = pool.lock("k").acquire().await.unwrap();
    waited("a grant").await;
    held.extend(Duration::from_secs(60)).await.unwrap();
    waited("an extension").await;
    held.verify().await.unwrap();
    waited("a check of ownership").await;
    held.release().await.unwrap();
    let both = pool.lock_all(["a", "b"]).acquire().await.unwrap();
    waited("several keys").await;
    both.release().await.unwrap();
    let writes = pool.lock("k").write().acquire().await.unwrap();
    waited("a writer").await;
    writes.downgrade().await.unwrap();
    waited("a downgrade").await;
    writes.release().await.unwrap();
    let ttl = master.pttl("lock:@witness").await;
    assert!((1..=60_000).contains(&ttl), "{ttl}");
}

/// `WAIT` stops its connection, so it never runs on one that carries locks.
#[tokio::test]
async fn a_connection_that_waits_carries_no_locks() {
    let (master, _replica) = replicated().await;
    let monitor = master.monitor();
    let pool = connect(config(&master)).await;
    let held = pool.lock("k").acquire().await.unwrap();
    held.release().await.unwrap();
    let lines = monitor.settled().await;
    let from = |command: &str| {
        let with = lines.iter().filter(|line| line.contains(command));
        let client = |line: &String| line.split([' ', ']']).nth(2).map(str::to_owned);
        with.filter_map(client).collect::<Vec<_>>()
    };
    let (waits, locks) = (from("\"WAIT\""), from("lock:@fence"));
    assert!(!waits.is_empty() && !locks.is_empty(), "{lines:?}");
    assert!(
        waits.iter().all(|client| !locks.contains(client)),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_grant_that_no_replica_confirms_is_released_and_refused() {
    let (master, replica) = replicated().await;
    let pool = connect(config(&master)).await;
    replica.stop_signal();
    for (kind, request) in [
        ("exclusive", pool.lock("k")),
        ("owner", pool.lock("k").reentrant().owner("me")),
        ("reader", pool.lock("k").read()),
        ("writer", pool.lock("k").write()),
        ("permits", pool.lock("k").permits(2)),
        ("fair", pool.lock("k").fair()),
        ("several", pool.lock_all(["k", "l"])),
    ] {
        let refused = request.wait(Duration::ZERO).acquire().await;
        assert_not_replicated(&refused.expect_err(kind));
        until("nothing is left", CAP, async || {
            is_free(&master, "lock:k").await && is_free(&master, "lock:l").await
        })
        .await;
    }
    replica.cont();
    let held = pool.lock("k").wait(Wait::Forever).acquire().await.unwrap();
    held.release().await.unwrap();
}

/// Whenever its wait ends: in the middle of an attempt, which has the key, or between two.
#[tokio::test]
async fn a_call_that_waited_is_told_of_the_replicas_and_not_of_itself() {
    let master = RedisServer::start();
    // Half of it, an attempt waits for replicas; all of it, a call has beyond its wait.
    let config = config(&master).command_timeout(Duration::from_secs(2));
    let pool = connect(config.clone()).await;
    let plain = connect(config.without_scripts()).await;
    let waits = [20, 500, 990, 1010, 1050, 1300].map(Duration::from_millis);
    let calls = waits.into_iter().enumerate().flat_map(|(at, wait)| {
        let key = |kind| format!("{kind}{at}");
        let requests = [
            pool.lock(key("exclusive")),
            pool.lock(key("owner")).reentrant().owner("me"),
            pool.lock(key("reader")).read(),
            pool.lock(key("writer")).write(),
            pool.lock(key("permits")).permits(2),
            pool.lock(key("fair")).fair(),
            pool.lock_all([key("several"), key("more")]),
            plain.lock(key("plain")),
        ];
        requests.map(|it| tokio::spawn(it.wait(wait).acquire()))
    });
    for ended in join_all(calls).await {
        assert_not_replicated(&ended.unwrap().unwrap_err());
    }
}

#[tokio::test]
async fn who_waits_goes_on_waiting_until_the_replica_is_back() {
    let (master, replica) = replicated().await;
    let pool = connect(config(&master)).await;
    replica.stop_signal();
    let waiter = tokio::spawn(pool.lock("k").wait(Wait::Forever).acquire());
    let before = calls(&master, "wait").await;
    until("it was refused twice", CAP, async || {
        calls(&master, "wait").await >= before + 2
    })
    .await;
    assert!(!waiter.is_finished());
    replica.cont();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

/// A push tells a waiter of its grant, but nothing about the replicas.
#[tokio::test]
async fn a_push_counts_only_once_the_replica_has_the_grant() {
    let (master, replica) = replicated().await;
    let [one, two] = [
        connect(config(&master)).await,
        connect(config(&master)).await,
    ];
    let ttl = Duration::from_secs(20);
    let held = one.lock("k").ttl(ttl).acquire().await.unwrap();
    let waiter = tokio::spawn(two.lock("k").ttl(ttl).wait(Wait::Forever).acquire());
    let ours = master.ask::<String>(&["GET", "lock:k"]).await;
    until("it waits at the server", CAP, async || {
        master.ask::<u64>(&["ZCARD", "lock:@w:{lock:k}"]).await == 1
    })
    .await;
    replica.stop_signal();
    let before = calls(&master, "wait").await;
    held.release().await.unwrap();
    until(
        "the waiter has the lock and asks for replicas",
        CAP,
        async || {
            let stands = master.ask::<Option<String>>(&["GET", "lock:k"]).await;
            stands.is_some_and(|it| it != ours) && calls(&master, "wait").await >= before + 2
        },
    )
    .await;
    assert!(!waiter.is_finished(), "the replica has not confirmed it");
    replica.cont();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_renewal_that_no_replica_confirms_does_not_count() {
    let (master, replica) = replicated().await;
    let pool = connect(config(&master)).await;
    let request = pool.lock("k").ttl(Duration::from_secs(2)).renew();
    let held = request.acquire().await.unwrap();
    replica.stop_signal();
    let lost = tokio::time::timeout(CAP, held.lost()).await;
    assert_eq!(lost, Ok(LostCause::Deadline));
    replica.cont();
}

/// A replica is made the master while the old one goes on: its copy of the key ends as the last
/// confirmed renewal said. Returns whether the old holder still believed in the lock when another
/// got it there.
async fn two_hold(config: impl Fn(&RedisServer) -> Config) -> bool {
    let (old, new) = replicated().await;
    let pool = connect(config(&old)).await;
    let ttl = Duration::from_secs(2);
    let held: LockGuard = pool.lock("k").ttl(ttl).renew().acquire().await.unwrap();
    until("the replica has the lock", CAP, async || {
        !is_free(&new, "lock:k").await
    })
    .await;
    new.cmd(&["REPLICAOF", "NO", "ONE"]).await;
    let at_the_new = connect(Config::new(new.url())).await;
    let next = at_the_new.lock("k").wait(Wait::Forever).acquire();
    let next = tokio::time::timeout(CAP, next).await.unwrap().unwrap();
    let both = held.is_held() && next.is_held();
    next.release().await.unwrap();
    both
}

#[tokio::test]
async fn a_promoted_replica_grants_only_what_its_old_holder_has_given_up() {
    assert!(!two_hold(config).await);
}

/// So the test above can see it.
#[tokio::test]
async fn without_min_replicas_a_promoted_replica_gives_the_lock_a_second_holder() {
    assert!(two_hold(|server| Config::new(server.url())).await);
}

#[tokio::test]
async fn without_scripts_too_a_lease_waits_for_the_replica() {
    let (master, replica) = replicated().await;
    let pool = connect(config(&master).without_scripts()).await;
    let held = pool.lock("k").acquire().await.unwrap();
    held.extend(Duration::from_secs(60)).await.unwrap();
    assert!(calls(&master, "wait").await > 1);
    held.release().await.unwrap();
    replica.stop_signal();
    let refused = pool.lock("k").wait(Duration::ZERO).acquire().await;
    assert_not_replicated(&refused.unwrap_err());
    assert!(is_free(&master, "lock:k").await);
    replica.cont();
}

/// On a server that knows `WAITAOF` (Redis 7.2) leases count once they are on disk; on an older one
/// the error names the command.
#[tokio::test]
async fn a_lease_waits_for_the_append_only_file() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = RedisServer::builder().args(always).start();
    let pool = connect(Config::new(server.url()).min_aof(1)).await;
    let once = |pool: &LockPool| pool.lock("k").wait(Duration::ZERO).acquire();
    let info = server.ask::<Vec<redis::Value>>(&["COMMAND", "INFO", "WAITAOF"]);
    if info.await == [redis::Value::Nil] {
        let refused = once(&pool).await.unwrap_err();
        assert!(format!("{refused:?}").contains("WAITAOF"), "{refused:?}");
        assert!(is_free(&server, "lock:k").await);
        return;
    }
    once(&pool).await.unwrap().release().await.unwrap();
    assert!(calls(&server, "waitaof").await > 0);
    server.cmd(&["CONFIG", "SET", "appendonly", "no"]).await;
    let refused = once(&pool).await.unwrap_err();
    assert!(matches!(refused, LockError::Refused { .. }), "{refused:?}");
    assert!(is_free(&server, "lock:k").await);
}

/// The documented user has the rights to all but the replicas, which stand on the same page.
#[tokio::test]
async fn a_user_without_the_right_is_told_which() {
    let (master, _replica) = replicated().await;
    documented_user(&master, &[]).await;
    let url = format!("redis://dlock:secret@{}", master.addr());
    let pool = connect(patient(url).min_replicas(1)).await;
    let once = || pool.lock("k").wait(Duration::ZERO).acquire();
    let refused = once().await.unwrap_err();
    assert!(
        matches!(&refused, LockError::Refused { reason: Refusal::NoPermission, source, .. }
            if source.to_string().contains("'wait'")),
        "{refused:?}"
    );
    assert!(is_free(&master, "lock:k").await);
    let found = pool.check().await.unwrap();
    let rights = found.iter().find(|it| it.concern() == Concern::Rights);
    assert!(rights.unwrap().advice().contains("+wait"), "{found:?}");
    for rule in documented_rules("ACL SETUSER dlock +info ") {
        let _ = master.try_cmd(&["ACL", "SETUSER", "dlock", rule]).await; // 7.0 has no WAITAOF
    }
    once().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_check_tells_that_replicas_are_missing() {
    let (master, replica) = replicated().await;
    let found = async |config: Config| {
        let pool = connect(config).await;
        let all = pool.check().await.unwrap();
        let mut of_replicas = all.iter().filter(|it| it.concern() == Concern::Replication);
        of_replicas.next().map(|it| it.risk().to_owned())
    };
    let without = found(Config::new(master.url())).await;
    assert!(without.unwrap().contains("cut off"), "the advice as before");
    assert_eq!(found(config(&master)).await, None);
    let too_many = found(Config::new(master.url()).min_replicas(2)).await;
    assert!(too_many.unwrap().contains("asks for 2 replicas"));
    replica.kill9();
    until("the master knows", CAP, async || {
        let info: String = master.ask(&["INFO", "replication"]).await;
        info.contains("connected_slaves:0")
    })
    .await;
    assert!(
        found(config(&master))
            .await
            .unwrap()
            .contains("asks for 1 replica")
    );
}
