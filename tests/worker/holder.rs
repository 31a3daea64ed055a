//! Takes one lock and keeps it until the process is killed.

use std::time::Duration;

use dlock_harness::now_ns;
use dlock_runtime::LockPool;

use crate::settings::Settings;

/// Prints `held <fence> <start_ns>` once it has the lock `counter`.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn hold(settings: &Settings) {
    let pool = LockPool::connect(settings.config()).await.unwrap();
    let ttl = Duration::from_millis(settings.number("ttl_ms"));
    let guard = pool
        .lock("counter")
        .ttl(ttl)
        .renew_every(ttl / 10)
        .acquire()
        .await;
    let guard = guard.unwrap();
    println!("held {} {}", guard.fence(), now_ns());
    panic!("lost the lock: {:?}", guard.lost().await);
}
