//! Several pools on one server, each with a queue entry of its own, as processes have; and a lock
//! whose key is free, foreign or retired.

use std::sync::{Arc, Mutex};

use dlock_harness::{Proxy, RedisServer, until};
use dlock_runtime::{Holder, LockError, LockGuard, LockPool, LostCause, Wait};
use tokio::task::JoinHandle;

use crate::backends::{LONG, ms, nothing_left, patient, settled, taken};

async fn pools<const N: usize>(server: &RedisServer) -> [LockPool; N] {
    let connect = (0..N).map(|_| LockPool::connect(patient(server.url())));
    let pools = futures_util::future::try_join_all(connect).await;
    pools.unwrap().try_into().expect("as many as asked for")
}

async fn until_queued(server: &RedisServer, pools: usize) {
    until("they are in the queue", LONG, async || {
        server.ask::<usize>(&["ZCARD", "lock:@w:{lock:k}"]).await == pools
    })
    .await;
}

fn waiting(pool: &LockPool) -> JoinHandle<Result<LockGuard, LockError>> {
    tokio::spawn(pool.lock("k").ttl(LONG).wait(LONG).acquire())
}

/// The function in the holder's description, which tells waiters apart.
fn described(holder: Option<Holder>) -> String {
    match holder {
        Some(Holder::Process(holder)) => holder.function().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn pools_are_served_in_the_order_in_which_they_reached_the_server() {
    let server = RedisServer::start();
    let pools: [LockPool; 4] = pools(&server).await;
    let held = taken(&pools[0]).await;
    let turns = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for (already, number) in [2, 0, 3, 1].into_iter().enumerate() {
        let request = pools[number].lock("k").ttl(LONG).wait(Wait::Forever);
        let turns = turns.clone();
        waiters.push(tokio::spawn(
            request.run(async move |_| turns.lock().unwrap().push(number)),
        ));
        until_queued(&server, already + 1).await;
    }
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    assert_eq!(*turns.lock().unwrap(), [2, 0, 3, 1]);
    nothing_left(&server).await;
}

/// After the first waiter of a pool has had its turn, the pool queues again at the end for its
/// second one, however early that one came.
#[tokio::test]
async fn pools_with_many_waiters_take_turns() {
    for _ in 0..3 {
        match take_turns().await {
            Ok(()) => return,
            // The machine stalled for 2 s: a grant in turn is a claim of 3 s, which is renewed
            // after one.
            Err(LockError::Lost {
                cause: LostCause::Deadline,
                ..
            }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("a lease was lost each time");
}

async fn take_turns() -> Result<(), LockError> {
    let server = RedisServer::start();
    let pools: [LockPool; 2] = pools(&server).await;
    let held = taken(&pools[0]).await;
    let turns = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for (number, pool) in pools.iter().enumerate() {
        for task in 0..5 {
            let request = pool.lock("k").ttl(LONG).wait(Wait::Forever);
            let (turns, server) = (turns.clone(), &server);
            waiters.push(async move {
                let body = async |_: &_| {
                    turns.lock().unwrap().push((number, task));
                    // Holds the lock until its own pool has queued for its next waiter.
                    let others = if task < 4 { 2 } else { 0 };
                    until("the next are in the queue", LONG, async || {
                        let places = server.ask::<usize>(&["ZCARD", "lock:@w:{lock:k}"]);
                        places.await >= others.min(10 - turns.lock().unwrap().len())
                    })
                    .await;
                };
                request.run(body).await
            });
        }
    }
    let free = async {
        until_queued(&server, 2).await;
        held.release().await
    };
    tokio::try_join!(futures_util::future::try_join_all(waiters), free)?;
    let turns = turns.lock().unwrap();
    let of = |pool| turns.iter().filter(move |it| it.0 == pool).map(|it| it.1);
    assert!(of(0).eq(0..5) && of(1).eq(0..5), "{turns:?}");
    let changes = turns.windows(2).filter(|it| it[0].0 != it[1].0).count();
    assert_eq!(changes, 9, "{turns:?}");
    Ok(())
}

/// Otherwise the other pool's waiters would come in between.
#[tokio::test]
async fn fair_waiters_are_served_in_order_whichever_pool_they_are_of() {
    let server = RedisServer::start();
    let [one, two] = pools(&server).await;
    let held = taken(&one).await;
    let turns = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for (number, pool) in [&one, &one, &two, &one].into_iter().enumerate() {
        let request = pool.lock("k").fair().ttl(LONG).wait(LONG);
        let turns = turns.clone();
        let body = async move |_: &_| turns.lock().unwrap().push(number);
        waiters.push(tokio::spawn(async move { request.run(body).await }));
        until_queued(&server, number + 1).await;
    }
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    assert_eq!(*turns.lock().unwrap(), [0, 1, 2, 3]);
}

/// The lock's key is gone without a release: whichever client finds it free grants it to the head
/// of the queue, not to itself.
#[tokio::test]
async fn who_finds_a_lock_free_grants_it_to_the_first_in_the_queue() {
    for queues in [false, true] {
        let server = RedisServer::start();
        let [one, two] = pools(&server).await;
        server
            .cmd(&["SET", "lock:k", "foreign", "NX", "PX", "60000"])
            .await;
        assert_eq!(one.holder("k").await.unwrap(), Some(Holder::Foreign));
        let waiter = waiting(&one);
        until_queued(&server, 1).await;
        server.cmd(&["DEL", "lock:k"]).await;
        let late = if queues {
            Some(waiting(&two))
        } else {
            let error = two.lock("k").wait(Wait::Once).acquire().await.unwrap_err();
            let LockError::Busy { holder, .. } = error else {
                panic!("{error:?}");
            };
            assert!(described(Some(holder)).contains("fleets.rs"));
            None
        };
        let first = waiter.await.unwrap().unwrap();
        assert!(late.as_ref().is_none_or(|late| !late.is_finished()));
        first.verify().await.unwrap();
        first.release().await.unwrap();
        if let Some(late) = late {
            late.await.unwrap().unwrap().release().await.unwrap();
        }
        nothing_left(&server).await;
    }
}

/// The end of a foreign lease notifies nobody; the head of the queue polls when it is due.
#[tokio::test]
async fn a_lease_that_ends_unseen_goes_to_the_first_in_the_queue() {
    let server = RedisServer::start();
    let pools: [LockPool; 3] = pools(&server).await;
    server
        .cmd(&["SET", "lock:k", "foreign", "NX", "PX", "2500"])
        .await;
    let mut waiters = Vec::new();
    for (already, pool) in pools.iter().enumerate() {
        waiters.push(waiting(pool));
        until_queued(&server, already + 1).await;
    }
    let mut fences = Vec::new();
    for waiter in waiters {
        let held = waiter.await.unwrap().unwrap();
        held.verify().await.unwrap();
        fences.push(held.fence());
        held.release().await.unwrap();
    }
    assert!(fences.is_sorted(), "in the order of the queue: {fences:?}");
    nothing_left(&server).await;
}

#[tokio::test]
async fn once_leaves_no_place_in_the_queue() {
    let server = RedisServer::start();
    let [one, two] = pools(&server).await;
    let held = taken(&one).await;
    for pool in [&one, &two] {
        assert!(pool.lock("k").try_acquire().await.unwrap().is_none());
    }
    assert_eq!(server.keys().await, ["lock:@fence", "lock:k"]);
    held.release().await.unwrap();
}

#[tokio::test]
async fn the_holder_is_told_who_has_the_key() {
    let server = RedisServer::start();
    let [one, two] = pools(&server).await;
    let held = taken(&one).await;
    let first = described(two.holder("k").await.unwrap());
    let request = two.lock("k").ttl(LONG).min_hold(ms(60_000)).wait(LONG);
    let waiter = tokio::spawn(request.acquire());
    until_queued(&server, 1).await;
    assert_eq!(described(one.holder("k").await.unwrap()), first);
    // Granted in turn: from the release on, the queue entry describes the holder.
    held.release().await.unwrap();
    let second = described(one.holder("k").await.unwrap());
    assert!(second.contains("fleets.rs") && second != first, "{second}");
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(described(one.holder("k").await.unwrap()), second);
    // The retired value still describes the last holder, but gives no right to release.
    next.release().await.unwrap();
    assert_eq!(described(one.holder("k").await.unwrap()), second);
    let error = one.lock("k").wait(ms(50)).acquire().await.unwrap_err();
    let LockError::Busy { holder, left, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(described(Some(holder)), second);
    assert!(left > LONG / 2 && left <= LONG, "{left:?}");
    server.cmd(&["SET", "lock:k", "somebody's"]).await;
    assert_eq!(one.holder("k").await.unwrap(), Some(Holder::Foreign));
    server.cmd(&["DEL", "lock:k"]).await;
    assert_eq!(one.holder("k").await.unwrap(), None);
}

/// The pool's queue entry stays for its remaining waiters, whichever waiter made it.
#[tokio::test]
async fn who_stays_keeps_the_place_that_its_pool_had() {
    let server = RedisServer::start();
    let [one, two] = pools(&server).await;
    let held = taken(&two).await;
    let first = waiting(&one);
    until_queued(&server, 1).await;
    let neighbour = waiting(&one);
    let rival = waiting(&two);
    until_queued(&server, 2).await;
    settled(&one).await;
    first.abort();
    settled(&one).await;
    held.release().await.unwrap();
    let next = neighbour.await.unwrap().unwrap();
    assert!(!rival.is_finished());
    next.release().await.unwrap();
    rival.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server).await;
}

/// The first waiter sent an acquire for its own lease, and goes. The second one inherits the lock,
/// and its key must stay for longer.
#[tokio::test]
async fn who_inherits_a_lock_is_promised_its_min_hold_before_it_begins() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = LockPool::connect(patient(proxy.url())).await.unwrap();
    taken(&pool).await.release().await.unwrap(); // from now on the server knows the scripts
    proxy.stall_replies();
    let first = tokio::spawn(pool.lock("k").ttl(ms(5_000)).acquire());
    until("its acquire is executed", LONG, async || {
        server.pttl("lock:k").await > 0
    })
    .await;
    let request = pool.lock("k").ttl(LONG).min_hold(ms(40_000)).wait(LONG);
    let heir = tokio::spawn(request.acquire());
    tokio::task::yield_now().await;
    first.abort();
    tokio::task::yield_now().await;
    proxy.pass();
    let held = heir.await.unwrap().unwrap();
    let left = server.pttl("lock:k").await;
    assert!(left > 30_000, "the key stays for {left} ms");
    held.verify().await.unwrap();
}
