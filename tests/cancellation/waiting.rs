//! Waiters that go away: they never get the lock afterwards, and its holder does not notice.

use std::time::Duration;

use dlock_runtime::{LockError, distributed_lock};

use crate::world::World;
use dlock_harness::polls::at_every_poll;

#[distributed_lock(key = "item", ttl = "30s", wait = "60ms")]
async fn impatient() -> Result<u32, LockError> {
    Ok(7)
}

#[distributed_lock(key = "item", ttl = "30s", wait = "10s")]
async fn patient() -> Result<u32, LockError> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(7)
}

async fn a_waiter_that_goes_leaves_the_holder_alone(world: &World) {
    let holder = world
        .pool
        .lock("item")
        .ttl(Duration::from_secs(30))
        .acquire()
        .await
        .unwrap();
    let baseline = world.baseline().await;
    let mut drops = 0;
    at_every_poll(
        async |_| world.pool.scope(impatient()).await,
        async |cut, output| {
            drops += 1;
            if let Some(output) = output {
                assert!(
                    output.as_ref().is_err_and(LockError::is_busy),
                    "{cut:?}: {output:?}"
                );
            }
            holder.verify().await.unwrap();
            world.is_back_at(&baseline).await;
        },
    )
    .await;
    assert!(drops > 2, "it never waited");
    holder.release().await.unwrap();
    // Freed by the last waiter that went, too: it may have been granted the lock before its
    // clean-up came.
    world.freed("item").await;
}

/// The holder goes while the waiter is at any of its polls: the lock is free, whichever of them
/// goes first.
async fn a_waiter_that_goes_while_the_lock_becomes_free_does_not_keep_it(world: &World) {
    let baseline = world.baseline().await;
    for hold in [1, 4, 9].map(Duration::from_millis) {
        at_every_poll(
            async |_| {
                let holder = world
                    .pool
                    .lock("item")
                    .ttl(Duration::from_secs(30))
                    .acquire()
                    .await
                    .unwrap();
                let holding = async {
                    tokio::time::sleep(hold).await;
                    holder.release().await.unwrap();
                };
                let ((), output) = tokio::join!(holding, world.pool.scope(patient()));
                output.unwrap()
            },
            async |_, _| {
                world.freed("item").await;
                world.is_back_at(&baseline).await;
            },
        )
        .await;
    }
}

everywhere!(
    a_waiter_that_goes_leaves_the_holder_alone,
    a_waiter_that_goes_while_the_lock_becomes_free_does_not_keep_it,
);
