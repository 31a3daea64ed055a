//! A master that is slow, but not so slow that the sentinels would choose another one.

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::{Watched, until};
use dlock_runtime::LockPool;
use dlock_tests::resource::Resource;

use crate::CAP;

/// Between two pauses.
const BREATH: Duration = Duration::from_millis(100);

/// Counts go on, nothing that is held is lost, and no one leaves the master.
async fn goes_on_through_pauses(pause: Duration, pauses: usize) {
    let watched = Watched::start_steady().await;
    let master = &watched.servers[0];
    let pools = [
        LockPool::connect(watched.url()).await.unwrap(),
        LockPool::connect(watched.url()).await.unwrap(),
    ];
    let held = pools[0].lock("held").ttl(CAP);
    let held = held.renew_every(Duration::from_millis(200));
    let held = held.acquire().await.unwrap();
    let resource = Arc::new(Resource::default());
    let tasks = pools.iter().cycle().take(6);
    let tasks =
        tasks.map(|pool| tokio::spawn(resource.clone().count_under(pool.clone(), "count".into())));
    let tasks: Vec<_> = tasks.collect();
    for _ in 0..pauses {
        let counted = resource.accepted();
        until("it counts", CAP, async || resource.accepted() > counted).await;
        let millis = pause.as_millis().to_string();
        master.cmd(&["CLIENT", "PAUSE", &millis, "ALL"]).await;
        tokio::time::sleep(pause + BREATH).await;
    }
    resource.stop();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(resource.check(), 0, "refused");
    held.release().await.unwrap();
    assert_eq!(watched.named_by(0).await, 0);
    for replica in &watched.servers[1..] {
        assert_eq!(replica.commandstats("evalsha").await, 0);
    }
    until("what was abandoned is cleaned up", CAP, async || {
        master.keys().await == ["lock:@fence"]
    })
    .await;
}

#[tokio::test]
async fn locks_of_a_master_that_answers_late_go_on() {
    goes_on_through_pauses(Duration::from_millis(300), 10).await;
}

/// Each pause is longer than the `command_timeout`, so that calls end without an answer.
#[tokio::test]
async fn locks_of_a_master_that_answers_too_late_go_on() {
    goes_on_through_pauses(Duration::from_millis(900), 5).await;
}
