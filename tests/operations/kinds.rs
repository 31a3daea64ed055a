//! The shell blocks of the pages in `docs/kinds`, run on a private server. Those on `fair`,
//! readers and permits are run in `admin/shown`, where an administrator's program looks as well.

use std::time::Duration;

use dlock_runtime::{LockPool, LostCause};

use crate::admin::{Lab, granted, held, wait};
use crate::page::{block, run};

#[tokio::test]
async fn an_exclusive_lock() {
    let lab = Lab::new().await;
    let _held = held(lab.here.lock("item:7")).await;
    let _waiter = wait(&lab.admin, lab.there.lock("item:7"), "item:7", 1).await;
    lab.shows(include_str!("../../docs/kinds/exclusive.md"))
        .await;
}

#[tokio::test]
async fn an_owners() {
    let lab = Lab::new().await;
    let owned = |pool: &LockPool, owner| pool.lock("order:7").reentrant().owner(owner);
    let _one = held(owned(&lab.here, "checkout:w1")).await;
    let _other = held(owned(&lab.there, "checkout:w1")).await;
    let _waiter = wait(&lab.admin, owned(&lab.there, "checkout:w2"), "order:7", 1).await;
    lab.shows(include_str!("../../docs/kinds/reentrant.md"))
        .await;
}

#[tokio::test]
async fn two_keys() {
    let lab = Lab::new().await;
    let _both = held(lab.here.lock_all(["account:9", "account:7"])).await;
    lab.shows(include_str!("../../docs/kinds/several-keys.md"))
        .await;
}

const MANY: &str = "Locks with many holders";

/// `ZREM` of one reader: that reader learns of it at its next renewal, the other holder keeps its
/// lock. `DEL`: all readers lose the lock, and the waiter is granted it.
#[tokio::test]
async fn looking_at_readers_and_taking_them_out() {
    let lab = Lab::new().await;
    let reader = |pool: &LockPool, seconds| {
        let reader = pool.lock("catalogue:1").read();
        let reader = reader.ttl(Duration::from_secs(seconds));
        reader.renew_every(Duration::from_secs(1)).acquire()
    };
    let short = reader(&lab.here, 30).await.unwrap();
    let long = reader(&lab.there, 90).await.unwrap();
    let writer = lab.there.lock("catalogue:1").write();
    let writer = wait(&lab.admin, writer, "catalogue:1", 1).await;
    run(&block(MANY, 0), &lab.server).await;
    run(&block(MANY, 1), &lab.server).await;
    assert_eq!(short.lost().await, LostCause::Gone);
    long.verify().await.unwrap();
    lab.server.cmd(&["DEL", "lock:catalogue:1"]).await;
    let writer = granted(writer).await;
    assert_eq!(long.lost().await, LostCause::Gone);
    writer.verify().await.unwrap();
}
