//! The backends that a case runs on.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockPool};

pub(crate) async fn on_memory(case: impl AsyncFnOnce(LockPool)) {
    case(LockPool::connect("memory://").await.unwrap()).await;
}

pub(crate) async fn on_redis(case: impl AsyncFnOnce(LockPool)) {
    let server = RedisServer::start();
    case(LockPool::connect(patient(server.url())).await.unwrap()).await;
    nothing_left(&server).await;
}

/// For a machine where everything may stand still for a second or two: no case here is about a server that does not answer.
pub(crate) fn patient(url: impl Into<String>) -> Config {
    Config::new(url)
        .connect_timeout(Duration::from_secs(20))
        .command_timeout(Duration::from_secs(5))
}

/// The counter of epochs stays, by design; nothing else does.
pub(crate) async fn nothing_left(server: &RedisServer) {
    until(
        "only the counter is left",
        Duration::from_secs(10),
        async || {
            server
                .keys()
                .await
                .iter()
                .all(|key| key.ends_with("@fence"))
        },
    )
    .await;
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Longer than any test waits: what ends in time ended for another reason.
pub(crate) const LONG: Duration = Duration::from_secs(60);
