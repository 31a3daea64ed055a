//! A pool for guarded writes, and a way to read what they wrote, in memory or on a server. It tests
//! nothing itself.

use dlock_harness::RedisServer;
use dlock_runtime::{LockPool, MemoryValue};

use crate::backends::patient;

/// A pool, and the server to read from.
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
    /// The values of these keys.
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

    /// How many scripts were executed; 0 in memory.
    pub(crate) async fn scripts(&self) -> u64 {
        match &self.server {
            Some(server) => {
                server.commandstats("evalsha").await + server.commandstats("eval").await
            }
            None => 0,
        }
    }
}
