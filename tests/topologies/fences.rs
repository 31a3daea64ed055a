//! What fences promise across a failover: a new master whose counter and clock are behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use dlock_harness::RedisServer;
use dlock_runtime::{Config, LockPool};
use dlock_tests::patient;
use tokio::net::TcpStream;

const FENCES: &str = "lock:@fence";

/// An address that follows the master: connections go to the port that is stored here.
struct Address(Arc<AtomicU16>);

impl Address {
    fn of(server: &RedisServer) -> Self {
        Self(Arc::new(AtomicU16::new(server.port())))
    }

    fn config(&self) -> Config {
        let port = self.0.clone();
        patient("redis://locks.invalid:6379").connector(move |_, _| {
            let port = port.load(Ordering::Relaxed);
            TcpStream::connect(("127.0.0.1", port))
        })
    }

    async fn pool(&self, without_scripts: bool) -> LockPool {
        let config = self.config();
        let config = if without_scripts {
            config.without_scripts()
        } else {
            config
        };
        LockPool::connect(config).await.unwrap()
    }

    fn move_to(&self, server: &RedisServer) {
        self.0.store(server.port(), Ordering::Relaxed);
    }
}

async fn next_fence(pool: &LockPool) -> u64 {
    let held = pool.lock("k").acquire().await.unwrap();
    let fence = held.fence().get();
    held.release().await.unwrap();
    fence
}

/// As if its clock were an hour ahead of the others'.
async fn with_a_fast_clock() -> RedisServer {
    let server = RedisServer::start();
    let (seconds, micros): (u64, u64) = server.ask(&["TIME"]).await;
    let ahead = (seconds + 3600) * 1_000_000 + micros;
    server.cmd(&["SET", FENCES, &ahead.to_string()]).await;
    server
}

#[tokio::test]
async fn no_fence_is_lower_than_one_that_this_program_has_had() {
    for without_scripts in [false, true] {
        let (old, new) = (with_a_fast_clock().await, RedisServer::start());
        let address = Address::of(&old);
        let pool = address.pool(without_scripts).await;
        let before = next_fence(&pool).await;
        address.move_to(&new);
        old.kill9();
        let after = next_fence(&pool).await;
        assert!(after > before, "{after} after {before}");

        // Others draw from the counter that it raised.
        let another = next_fence(&address.pool(without_scripts).await).await;
        assert!(another > after, "{another} after {after}");
    }
}

/// The limit: nobody who is left has seen the highest fence, so that none can know it.
#[tokio::test]
async fn a_fence_that_nobody_left_has_seen_is_passed_only_by_the_clock() {
    let (old, new) = (with_a_fast_clock().await, RedisServer::start());
    let address = Address::of(&old);
    let gone = address.pool(false).await;
    let before = next_fence(&gone).await;
    drop(gone);
    address.move_to(&new);
    old.kill9();
    let after = next_fence(&address.pool(false).await).await;
    assert!(after < before, "{after} after {before}");
}
