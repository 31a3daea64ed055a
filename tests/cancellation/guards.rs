//! Guards from `acquire`: every operation on one, dropped half-way, ends with a free lock, or
//! leaves it held where it should.

use std::time::Duration;

use dlock_runtime::{LockGuard, LockRequest, Released};

use crate::record;
use crate::world::{A_WHILE, World};
use dlock_harness::polls::{Cut, When, at_every_poll, dropped_at};

const TTL: Duration = Duration::from_secs(30);

fn request(world: &World, key: &str) -> LockRequest {
    let request = world.pool.lock(key).ttl(TTL);
    request.renew_every(Duration::from_millis(20))
}

fn key(cut: Cut) -> String {
    format!("item:{:?}-{}", cut.when, cut.polls)
}

async fn an_acquire_leaves_nothing(world: &World) {
    let (monitor, baseline) = (world.monitor(), world.baseline().await);
    at_every_poll(
        async |cut| request(world, &key(cut)).acquire().await.unwrap(),
        async |cut, guard| {
            drop(guard);
            world.freed(&key(cut)).await;
            world.is_back_at(&baseline).await;
        },
    )
    .await;
    if let Some(monitor) = monitor {
        record::ends_with_its_lock(&monitor, &world.pool, "item:").await;
    }
}

async fn a_release_goes_on_without_its_future(world: &World) {
    let (monitor, baseline) = (world.monitor(), world.baseline().await);
    let (mut passes, mut under_way) = (0, 0);
    // If this thread stalls for as long as an answer takes, the answer is there at the first poll.
    while passes == 0 || (monitor.is_some() && under_way == 0) {
        passes += 1;
        assert!(
            passes <= 20,
            "never dropped while the release was under way"
        );
        for when in [When::AtOnce, When::Woken] {
            for polls in 0.. {
                let cut = Cut { polls, when };
                let key = format!("item:{passes}-{when:?}-{polls}");
                let guard = request(world, &key).acquire().await.unwrap();
                let released = dropped_at(cut, guard.release()).await;
                world.freed(&key).await;
                world.is_back_at(&baseline).await;
                if let Some(released) = released {
                    assert_eq!(released.unwrap(), Released::Freed);
                    break;
                }
                under_way += polls.min(1);
            }
        }
    }
    if let Some(monitor) = monitor {
        record::ends_with_its_lock(&monitor, &world.pool, "item:").await;
    }
}

/// `verify` and `extend`, dropped anywhere, change nothing.
async fn a_question_that_is_dropped_leaves_the_lock_as_it_is(world: &World) {
    let guard = world.pool.lock("item").ttl(TTL).acquire().await.unwrap();
    at_every_poll(
        async |_| guard.verify().await.unwrap(),
        async |_, _| assert!(guard.is_held()),
    )
    .await;
    at_every_poll(
        async |_| guard.extend(TTL * 2).await.unwrap(),
        async |_, _| assert!(guard.is_held()),
    )
    .await;
    assert!(
        guard.remaining() > TTL,
        "the last one was not dropped: {guard:?}"
    );
    guard.verify().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Freed);
}

async fn a_guard_may_be_dropped_outside_any_runtime(world: &World) {
    let guard = world.pool.lock("item").ttl(TTL).acquire().await.unwrap();
    drop_elsewhere(guard).await;
    world.freed("item").await;
}

async fn a_lease_that_was_forgotten_ends_with_its_ttl(world: &World) {
    let baseline = world.baseline().await;
    let ttl = Duration::from_secs(2);
    std::mem::forget(world.pool.lock("item").ttl(ttl).acquire().await.unwrap());
    let refused = world.pool.lock("item").try_acquire().await.unwrap();
    assert!(refused.is_none(), "nothing gave it back");
    dlock_harness::until("the lease is over", A_WHILE, async || {
        world.is_free("item").await
    })
    .await;
    world.is_back_at(&baseline).await;
}

async fn drop_elsewhere(guard: LockGuard) {
    let thread = std::thread::spawn(move || {
        assert!(tokio::runtime::Handle::try_current().is_err());
        drop(guard);
    });
    tokio::task::spawn_blocking(move || thread.join().unwrap())
        .await
        .unwrap();
}

everywhere!(
    an_acquire_leaves_nothing,
    a_release_goes_on_without_its_future,
    a_question_that_is_dropped_leaves_the_lock_as_it_is,
    a_guard_may_be_dropped_outside_any_runtime,
    a_lease_that_was_forgotten_ends_with_its_ttl,
);
