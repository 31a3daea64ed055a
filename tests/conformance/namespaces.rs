//! Two pools on one server: separated by their namespaces, or sharing their locks.

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Holder, LockError, LockPool, Wait};

use crate::backends::{LONG, ms, nothing_left, patient};

async fn pool(server: &RedisServer, namespace: &str) -> LockPool {
    let config = patient(server.url()).namespace(namespace);
    LockPool::connect(config).await.unwrap()
}

#[tokio::test]
async fn pools_of_two_namespaces_do_not_meet() {
    let server = RedisServer::start();
    let (one, two) = (pool(&server, "shop:").await, pool(&server, "").await);
    let held = one.lock("k").ttl(LONG).acquire().await.unwrap();
    assert_eq!(two.holder("k").await.unwrap(), None);
    let also = two
        .lock("k")
        .ttl(LONG)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        server.keys().await,
        ["@fence", "k", "shop:@fence", "shop:k"]
    );
    // A guard's key, passed to the other pool, names the other pool's lock.
    assert!(two.lock(held.key()).try_acquire().await.unwrap().is_none());
    drop((held, also));
    nothing_left(&server).await;
}

/// A lock never collides with the application's own key of the same name.
#[tokio::test]
async fn the_applications_own_keys_are_left_alone() {
    let server = RedisServer::start();
    server.cmd(&["SET", "item:7", "an apple"]).await;
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    pool.lock("item:7").run(async |_| ()).await.unwrap();
    assert_eq!(server.ask::<String>(&["GET", "item:7"]).await, "an apple");
    assert_eq!(server.keys().await, ["item:7", "lock:@fence"]);
}

/// A pool's scope does not enclose the other pool's, although both are on one server: the inner
/// call waits.
#[tokio::test]
async fn two_pools_of_one_process_know_nothing_of_each_others_scopes() {
    let server = RedisServer::start();
    let (one, two) = (pool(&server, "shop:").await, pool(&server, "shop:").await);
    let inner = one
        .lock("k")
        .ttl(LONG)
        .run(async |_| two.lock("k").wait(ms(30)).acquire().await);
    let error = inner.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Busy { .. }), "{error:?}");
    nothing_left(&server).await;
}

/// `memory://` protects only the users of one pool.
#[tokio::test]
async fn each_memory_pool_is_a_world_of_its_own() {
    let one = LockPool::connect("memory://").await.unwrap();
    let two = LockPool::connect("memory://").await.unwrap();
    let _held = one.lock("k").acquire().await.unwrap();
    assert!(two.lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn the_databases_of_a_server_are_apart() {
    let server = RedisServer::start();
    let zero = LockPool::connect(patient(server.url())).await.unwrap();
    let one = LockPool::connect(patient(format!("{}/1", server.url())))
        .await
        .unwrap();
    let _held = zero.lock("k").ttl(LONG).acquire().await.unwrap();
    assert!(one.lock("k").try_acquire().await.unwrap().is_some());
    assert!(zero.lock("k").try_acquire().await.unwrap().is_none());
}

/// Each excludes each other, which sees the holder and has its turn after it.
#[tokio::test]
async fn whatever_the_way_to_a_server_its_locks_are_the_same() {
    let server = RedisServer::builder()
        .unix_socket()
        .password("open-sesame")
        .start();
    let resp2 = format!("{}?protocol=resp2", server.url());
    let mut pools = Vec::new();
    for (name, config) in [
        ("tcp", patient(server.url())),
        ("unix", patient(server.unix_url().unwrap())),
        ("resp2", patient(resp2)),
        ("plain", patient(server.url()).without_scripts()),
    ] {
        let config = config.namespace("shop:").holder_name(name);
        pools.push((name, LockPool::connect(config).await.unwrap()));
    }
    for (name, one) in &pools {
        for (other, two) in pools.iter().filter(|it| it.0 != *name) {
            let what = format!("{name}, {other}");
            let held = one.lock("k").ttl(LONG).renew().acquire().await.unwrap();
            assert_eq!(held.key().as_str(), "shop:k");
            assert!(two.lock("k").try_acquire().await.unwrap().is_none());
            let busy = two.lock("k").wait(Wait::Once).acquire().await;
            let Err(LockError::Busy { holder, left, .. }) = busy else {
                panic!("{what}: {busy:?}");
            };
            assert!(holder.to_string().contains("of this process"), "{holder}");
            // A key without scripts outlives its lease by up to 0.25 s.
            assert!(left <= LONG + ms(250) && left > LONG / 2, "{left:?}");
            let Some(Holder::Process(holder)) = two.holder("k").await.unwrap() else {
                panic!("{what}: nobody");
            };
            assert!(holder.is_this_process() && holder.host() == *name, "{what}");
            let waiter = tokio::spawn(two.lock("k").ttl(LONG).wait(LONG).acquire());
            until("it waits", LONG, async || {
                let queue = ["ZCARD", "shop:@w:{shop:k}"];
                server.ask::<usize>(&queue).await == 1
            })
            .await;
            held.verify().await.unwrap();
            let fence = held.fence();
            held.release().await.unwrap();
            let next = waiter.await.unwrap().unwrap();
            assert!(next.fence() > fence, "{what}: fences rise across pools");
            next.verify().await.unwrap();
            next.release().await.unwrap();
        }
    }
    nothing_left(&server).await;
}

/// Once, `{shop:foo}` with its hash tag had the queue of `foo`, and its waiters blocked those of
/// `foo`.
#[tokio::test]
async fn a_key_has_a_queue_of_its_own_whatever_its_braces_say() {
    let server = RedisServer::start();
    for (namespace, plain, tagged) in [
        ("shop:", "foo", "{shop:foo}"),
        ("", "foo", "{foo}"),
        ("", "ann:foo", "{ann:foo}"),
    ] {
        let pool = pool(&server, namespace).await;
        let (one, two) = (pool.lock(plain).ttl(LONG), pool.lock(tagged).ttl(LONG));
        let (one, two) = (one.acquire().await.unwrap(), two.acquire().await.unwrap());
        let waiting = |key: &str| tokio::spawn(pool.lock(key).ttl(LONG).wait(LONG).acquire());
        let waiters = [waiting(plain), waiting(tagged)];
        let of = [format!(":{{{namespace}{plain}}}"), format!("#{tagged}")];
        let sets = ["@w", "@a"].map(|set| of.clone().map(|of| format!("{namespace}{set}{of}")));
        for set in sets.as_flattened() {
            until("each waits in a queue of its own", LONG, async || {
                server.ask::<usize>(&["ZCARD", set]).await == 1
            })
            .await;
        }
        one.release().await.unwrap();
        two.release().await.unwrap();
        for waiter in waiters {
            waiter.await.unwrap().unwrap().release().await.unwrap();
        }
        drop(pool);
        server.cmd(&["FLUSHALL"]).await;
    }
}

/// A lock in both namespaces would have two queues and two counters, so the outer pool refuses it
/// while the inner one exists.
#[tokio::test]
async fn an_outer_pool_refuses_the_keys_of_a_nested_one() {
    let server = RedisServer::start();
    let outer = pool(&server, "lock:").await;
    let everything = pool(&server, "").await;
    outer.lock("shop:7").run(async |_| ()).await.unwrap();
    let inner = pool(&server, "lock:shop:").await;
    inner.lock("7").run(async |_| ()).await.unwrap();
    for (pool, key) in [(&outer, "shop:7"), (&everything, "lock:shop:7")] {
        let error = pool.lock(key).try_acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
        assert!(
            error
                .to_string()
                .contains("of another pool of this process"),
            "{error}"
        );
    }
    let error = outer.lock_all(["a", "shop:7"]).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
    outer.lock("shop").run(async |_| ()).await.unwrap();
    assert!(
        everything.lock("lock:a").try_acquire().await.is_err(),
        "`lock:` lies inside too"
    );
    let other = LockPool::connect(patient(format!("{}/1", server.url())))
        .await
        .unwrap();
    other.lock("shop:7").run(async |_| ()).await.unwrap();
    drop(inner);
    outer.lock("shop:7").run(async |_| ()).await.unwrap();
    drop(outer);
    everything
        .lock("lock:shop:7")
        .run(async |_| ())
        .await
        .unwrap();
}

/// Between processes, no pool can refuse; exclusion still holds.
#[tokio::test]
async fn nested_namespaces_of_two_processes_exclude_each_other() {
    let server = RedisServer::start();
    let inner = pool(&server, "lock:shop:").await;
    // Under another host name, so that this process takes it for another server.
    let outer = LockPool::connect(patient(server.url().replace("127.0.0.1", "localhost")))
        .await
        .unwrap();
    let held = inner.lock("7").ttl(LONG).acquire().await.unwrap();
    assert!(outer.lock("shop:7").try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(outer.lock("shop:7").ttl(LONG).wait(LONG).acquire());
    until("it waits", LONG, async || {
        let queue = ["ZCARD", "lock:@w:{lock:shop:7}"];
        server.ask::<usize>(&queue).await == 1
    })
    .await;
    held.release().await.unwrap();
    let held = waiter.await.unwrap().unwrap(); // by its poll: the release knows only its own queue
    assert!(inner.lock("7").try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
}
