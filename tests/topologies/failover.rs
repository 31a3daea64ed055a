//! Locks while the master moves: killed, stopped, handed over, or cut off from the sentinels alone.

use std::time::{Duration, Instant};

use dlock_harness::{Watched, until};
use dlock_runtime::{Config, LockError, LockGuard, LockPool, LockRequest, Wait};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

use crate::{CAP, until_asked};

/// Longer than any failover here takes, also on a machine that is busy with other tests.
const TTL: Duration = Duration::from_secs(120);

fn request(pool: &LockPool) -> LockRequest {
    pool.lock("k").ttl(TTL).renew().wait(Wait::Forever)
}

async fn pool(watched: &Watched) -> LockPool {
    pool_at(&watched.url()).await
}

async fn pool_at(url: &str) -> LockPool {
    LockPool::connect(url).await.unwrap()
}

fn waiter(pool: &LockPool) -> JoinHandle<Result<LockGuard, LockError>> {
    tokio::spawn(request(pool).acquire())
}

/// What is held stays held at the new master, and a waiter gets it there, with a higher fence.
async fn goes_on(
    watched: &Watched,
    held: LockGuard,
    waiter: JoinHandle<Result<LockGuard, LockError>>,
    new: usize,
) {
    until("the new master is asked", CAP, async || {
        held.verify().await.is_ok()
    })
    .await;
    let fence = held.fence();
    held.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fence() > fence);
    let exists = watched.servers[new].ask::<u64>(&["EXISTS", "lock:k"]);
    assert_eq!(exists.await, 1);
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_goes_on_when_its_master_is_killed() {
    check_killed(&Watched::start().await).await;
}

/// It is held and handed on.
pub(crate) async fn check_killed(watched: &Watched) {
    let [one, two] = [pool(watched).await, pool(watched).await];
    let held = request(&one).acquire().await.unwrap();
    let waiter = waiter(&two);
    watched.servers[0].replicated(2).await;
    watched.servers[0].kill9();
    let new = watched.moved_from(0, &[0, 1, 2]).await;
    goes_on(watched, held, waiter, new).await;
}

/// It answers nothing, and when it goes on it believes to be the master still.
#[tokio::test]
async fn a_lock_goes_on_when_its_master_hangs_and_comes_back() {
    let watched = Watched::start().await;
    let [one, two] = [pool(&watched).await, pool(&watched).await];
    let held = request(&one).acquire().await.unwrap();
    let waiter = waiter(&two);
    watched.servers[0].replicated(2).await;
    watched.servers[0].stop_signal();
    let begun = Instant::now();
    let busy = two
        .lock("k")
        .wait(Duration::from_millis(200))
        .acquire()
        .await;
    assert!(busy.is_err());
    let took = begun.elapsed(); // its wait, one `command_timeout`, and what a loaded machine adds
    assert!(took < Duration::from_millis(200 + 500 + 3_000), "{took:?}");
    let new = watched.moved_from(0, &[0, 1, 2]).await;
    // Continued before the pool has moved, the old master may still answer as one, and the release
    // be unclear.
    until("the new master is asked", CAP, async || {
        held.verify().await.is_ok()
    })
    .await;
    watched.servers[0].cont();
    goes_on(&watched, held, waiter, new).await;
}

/// The old master becomes a replica and says READONLY or ends the connections: nobody is told.
#[tokio::test]
async fn waiters_and_callers_see_nothing_of_a_failover_that_was_asked_for() {
    let watched = Watched::start().await;
    check_handed_over(&watched, &watched.url()).await;
}

/// Pools at this URL hold it and wait.
pub(crate) async fn check_handed_over(watched: &Watched, url: &str) {
    let pools = [pool_at(url).await, pool_at(url).await];
    let short = |pool: &LockPool| request(pool).ttl(Duration::from_secs(20));
    let held = short(&pools[0]).acquire().await.unwrap();
    let turn = |pool: &LockPool| {
        let acquire = short(pool).acquire();
        tokio::spawn(async move { acquire.await?.release().await })
    };
    let waiters: Vec<_> = (0..50).map(|it| turn(&pools[it % 2])).collect();
    watched.servers[0].replicated(2).await;
    watched.sentinels[0]
        .cmd(&["SENTINEL", "FAILOVER", "locks"])
        .await;
    let new = watched.moved_from(0, &[0, 1, 2]).await;
    until_asked(&pools[0], &watched.servers[new]).await;
    held.verify().await.unwrap();
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    // What the old master has released although the new one was there stands at the new one until
    // its ttl.
    until("only the counter is left", CAP, async || {
        let keys = watched.servers[new].keys().await;
        keys.iter().all(|key| key.ends_with("@fence"))
    })
    .await;
}

/// Until a replica follows the new master, it refuses what it would have to write.
#[tokio::test]
async fn a_new_master_without_its_replicas_is_waited_for() {
    let watched = Watched::start().await;
    for server in &watched.servers {
        server
            .cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"])
            .await;
    }
    let [one, two] = [pool(&watched).await, pool(&watched).await];
    let held = request(&one).acquire().await.unwrap();
    let waiter = waiter(&two);
    watched.servers[0].replicated(2).await;
    watched.servers[0].kill9();
    let new = watched.moved_from(0, &[0, 1, 2]).await;
    let refused = one
        .lock("other")
        .wait(Duration::from_millis(300))
        .acquire()
        .await;
    let says = format!("{refused:?}");
    assert!(
        matches!(refused, Ok(_) | Err(LockError::Unavailable { .. })),
        "{says}"
    );
    drop(refused);
    until("the new master has a replica", CAP, async || {
        let probe = watched.servers[new].try_cmd(&["SET", "probe", "x"]);
        probe.await.is_ok()
    })
    .await;
    goes_on(&watched, held, waiter, new).await;
}

/// It comes back without data and as a master, and takes writes until the sentinels have made it a
/// replica, which is some ten seconds later. Nobody goes there, also not who connects just now.
#[tokio::test]
async fn a_master_that_comes_back_as_one_is_left_alone() {
    let watched = Watched::start().await;
    let [one, two] = [pool(&watched).await, pool(&watched).await];
    let held = request(&one).acquire().await.unwrap();
    let waiter = waiter(&two);
    let old = &watched.servers[0];
    old.replicated(2).await;
    old.kill9();
    let new = watched.moved_from(0, &[0, 1, 2]).await;
    // A machine that stalls would make them choose again, perhaps the one that has no data.
    for sentinel in &watched.sentinels {
        let late = [
            "SENTINEL",
            "SET",
            "locks",
            "down-after-milliseconds",
            "60000",
        ];
        sentinel.cmd(&late).await;
    }
    old.restart_empty();
    old.cmd(&["SET", "it takes writes", "x"]).await;
    // Not asked itself: what makes it a replica ends its connections.
    let follows = format!("port={},state=online", old.port());
    let is_replica = async || {
        let info: String = watched.servers[new].ask(&["INFO", "replication"]).await;
        info.contains(&follows)
    };
    let mut granted = 0;
    until("it is a replica", CAP, async || {
        for pool in [&one, &pool(&watched).await] {
            let other = pool.lock("other").wait(CAP).acquire().await.unwrap();
            other.release().await.unwrap();
            granted += 1;
        }
        is_replica().await
    })
    .await;
    assert!(granted > 10, "{granted}");
    for command in ["eval", "evalsha"] {
        assert_eq!(old.commandstats(command).await, 0, "{command}");
    }
    goes_on(&watched, held, waiter, new).await;
}

/// The sentinels may not ask the master anything, so they make another one; it lives on and would
/// go on granting to those who know it. A pool leaves it as soon as the sentinels agree.
#[tokio::test]
async fn a_master_that_only_the_sentinels_have_lost_is_left() {
    let watched = Watched::start().await;
    let old = &watched.servers[0];
    for server in &watched.servers {
        let user = ["ACL", "SETUSER", "dlock", "on", ">x", "~*", "&*", "+@all"];
        server.cmd(&user).await;
    }
    let url = watched.url().replacen("://", "://dlock:x@", 1);
    let pool = LockPool::connect(Config::new(url)).await.unwrap();
    let held = request(&pool).acquire().await.unwrap();
    old.replicated(2).await;
    let forbid = [
        "-ping",
        "-info",
        "-replicaof",
        "-slaveof",
        "-multi",
        "-exec",
    ];
    old.cmd(&[&["ACL", "SETUSER", "default"][..], &forbid].concat())
        .await;
    // Sentinels keep connections that have been made as this user.
    let new = watched.moved_from(0, &[0, 1, 2]).await;
    until("the new master is asked", CAP, async || {
        let held_there = watched.servers[new].commandstats("evalsha").await > 0;
        held_there && held.verify().await.is_ok()
    })
    .await;
    let at_old = redis::Client::open(format!("redis://dlock:x@{}", old.addr())).unwrap();
    let mut at_old = at_old.get_multiplexed_async_connection().await.unwrap();
    until(
        "no connection of the pool is left at the old one",
        CAP,
        async || {
            let mut clients = redis::cmd("CLIENT");
            let clients = clients.arg("LIST").arg("TYPE").arg("pubsub");
            let clients: String = clients.query_async(&mut at_old).await.unwrap();
            !clients.contains("user=dlock")
        },
    )
    .await;
    let before = scripts(&mut at_old).await;
    let other = pool.lock("other").acquire().await.unwrap();
    other.release().await.unwrap();
    held.release().await.unwrap();
    assert_eq!(scripts(&mut at_old).await, before);
}

/// How the server counts the scripts that were run.
async fn scripts(at: &mut MultiplexedConnection) -> Option<String> {
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("commandstats").query_async(at).await.unwrap();
    let line = info
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    line.map(str::to_owned)
}
