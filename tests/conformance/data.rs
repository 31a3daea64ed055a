//! Where guarded writes go, and a look at what they left.

use dlock_harness::RedisServer;
use dlock_runtime::{LockPool, MemoryValue};

use crate::backends::patient;

/// A pool, and a way to see what was written.
pub(crate) struct Site {
    pub(crate) pool: LockPool,
    /// `None`: `memory://`.
    pub(crate) server: Option<RedisServer>,
}

pub(crate) async fn memory() -> Site {
    let pool = LockPool::connect("memory://").await.unwrap();
    Site { pool, server: None }
}

pub(crate) async fn redis() -> Site {
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let server = Some(server);
    Site { pool, server }
}

impl Site {
    /// What stands at these keys.
    pub(crate) async fn strings<const N: usize>(&self, keys: [&str; N]) -> [Option<Vec<u8>>; N] {
        let mut found = [const { None }; N];
        for (found, key) in found.iter_mut().zip(keys) {
            *found = match &self.server {
                Some(server) => server.ask(&["GET", key]).await,
                None => self.pool.memory_value(key).unwrap().map(|it| match it {
                    MemoryValue::Bytes(value) => value,
                    other => panic!("{key}: {other:?}"),
                }),
            };
        }
        found
    }

    /// How many scripts were run; nothing to count in memory.
    pub(crate) async fn scripts(&self) -> u64 {
        match &self.server {
            Some(server) => {
                server.commandstats("evalsha").await + server.commandstats("eval").await
            }
            None => 0,
        }
    }
}
