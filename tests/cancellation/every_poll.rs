//! Everything that runs a body under a lock, dropped at every poll: the key is free at once, and
//! nothing is left.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use dlock_runtime::{LockError, distributed_lock};

use crate::record;
use crate::world::World;
use dlock_harness::polls::{Cut, at_every_poll};

/// How many steps a body has done.
#[derive(Default)]
struct Steps(Cell<u32>);

/// The number of awaits in [`work`].
const STEPS: u32 = 4;

/// Several awaits of both kinds: ready at the next poll, and woken by a timer. Long enough for a
/// renewal.
async fn work(steps: &Steps) {
    for step in 1..=STEPS {
        steps.0.set(step);
        if step % 2 == 0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
    steps.0.set(STEPS + 1);
}

#[distributed_lock(key = "item:<id>", ttl = "30s", renew = "20ms")]
async fn locked(id: &str, steps: &Steps) -> Result<u32, LockError> {
    work(steps).await;
    Ok(7)
}

#[distributed_lock(key = "item:outer:<id>", ttl = "30s", renew = "20ms")]
async fn nested(id: &str, steps: &Steps) -> Result<u32, LockError> {
    tokio::task::yield_now().await;
    locked(id, steps).await
}

#[distributed_lock(key = "item:first:<id>", ttl = "30s")]
#[distributed_lock(key = "item:second:<id>", ttl = "30s", renew = "20ms")]
async fn stacked(id: &str, steps: &Steps) -> Result<u32, LockError> {
    work(steps).await;
    Ok(7)
}

#[distributed_lock(key = "item:<depth>:<id>", ttl = "30s", renew = "20ms")]
async fn recursive(depth: u32, id: &str, steps: &Steps) -> Result<u32, LockError> {
    if depth == 0 {
        work(steps).await;
        return Ok(7);
    }
    Box::pin(recursive(depth - 1, id, steps)).await
}

async fn by_request(world: &World, id: &str, steps: &Steps) -> Result<u32, LockError> {
    let request = world
        .pool
        .lock(format!("item:{id}"))
        .ttl(Duration::from_secs(30));
    let request = request.renew_every(Duration::from_millis(20));
    let body = async |_: &dlock_runtime::LockGuard| {
        work(steps).await;
        7
    };
    request.run(body).await
}

/// Calls `call` once for every poll, drops it there, and checks that all `keys` are free and
/// everything else is as it was.
async fn leaves_nothing(
    world: &World,
    keys: &[&str],
    mut call: impl AsyncFnMut(&str, &Steps) -> Result<u32, LockError>,
) {
    let (monitor, baseline) = (world.monitor(), world.baseline().await);
    let steps = Steps::default();
    let mut reached = BTreeSet::new();
    let mut passes = 0;
    while !everywhere_in(world).is_subset(&reached) {
        passes += 1;
        assert!(passes <= PASSES, "dropped at {reached:?} only");
        let id = |cut: Cut| format!("{passes}-{:?}-{}", cut.when, cut.polls);
        at_every_poll(
            async |cut| {
                steps.0.set(0);
                call(&id(cut), &steps).await
            },
            async |cut, output| {
                reached.insert((steps.0.get(), output.is_some()));
                if let Some(output) = output {
                    assert_eq!(output.unwrap(), 7, "{cut:?}");
                }
                for key in keys {
                    world.freed(&key.replace("ID", &id(cut))).await;
                }
                world.is_back_at(&baseline).await;
            },
        )
        .await;
    }
    if let Some(monitor) = monitor {
        record::ends_with_its_lock(&monitor, &world.pool, "item:").await;
    }
}

/// A spurious wake-up adds a poll, so one pass over all polls may miss a step.
const PASSES: u32 = 20;

/// Where a drop must have happened: before the first step, at each step of the body, and on a
/// server (where it takes time) in the release.
fn everywhere_in(world: &World) -> BTreeSet<(u32, bool)> {
    let steps = if world.server.is_some() {
        STEPS + 1
    } else {
        STEPS
    };
    (0..=steps).map(|step| (step, false)).collect()
}

async fn a_locked_function_leaves_nothing(world: &World) {
    let call = async |id: &str, steps: &Steps| world.pool.scope(locked(id, steps)).await;
    leaves_nothing(world, &["item:ID"], call).await;
}

async fn a_locked_function_in_a_locked_function_leaves_nothing(world: &World) {
    let call = async |id: &str, steps: &Steps| world.pool.scope(nested(id, steps)).await;
    leaves_nothing(world, &["item:outer:ID", "item:ID"], call).await;
}

async fn stacked_locks_leave_nothing(world: &World) {
    let call = async |id: &str, steps: &Steps| world.pool.scope(stacked(id, steps)).await;
    leaves_nothing(world, &["item:first:ID", "item:second:ID"], call).await;
}

async fn recursion_leaves_nothing(world: &World) {
    let call = async |id: &str, steps: &Steps| world.pool.scope(recursive(2, id, steps)).await;
    leaves_nothing(world, &["item:2:ID", "item:1:ID", "item:0:ID"], call).await;
}

async fn run_leaves_nothing(world: &World) {
    let call = async |id: &str, steps: &Steps| by_request(world, id, steps).await;
    leaves_nothing(world, &["item:ID"], call).await;
}

everywhere!(
    a_locked_function_leaves_nothing,
    a_locked_function_in_a_locked_function_leaves_nothing,
    stacked_locks_leave_nothing,
    recursion_leaves_nothing,
    run_leaves_nothing,
);
