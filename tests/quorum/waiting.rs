//! Who comes next at a lock of several nodes.

use std::time::Duration;

use crate::nodes::Nodes;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pools_take_turns() {
    let nodes = Nodes::voting(3).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let pool = nodes.pool().await;
        tasks.push(tokio::spawn(async move {
            let mut fences = Vec::new();
            for _ in 0..25 {
                let lock = pool
                    .lock("item")
                    .wait(Duration::from_secs(30))
                    .acquire()
                    .await
                    .unwrap();
                fences.push(lock.fence());
                lock.release().await.unwrap();
            }
            fences
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        let fences = task.await.unwrap();
        assert!(fences.is_sorted(), "{fences:?}");
        all.extend(fences);
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 100);
}
