//! A pool for guarded writes, and a way to read what they wrote, in memory or on a server. It tests
//! nothing itself.

use std::sync::Arc;

use dlock_runtime::{LockPool, MemoryValue};
use dlock_tests::served::{Served, documented_rules};
use redis::FromRedisValue;

use crate::backends::{Case, config, fresh};

/// A pool, and the servers to read from.
pub(crate) struct Site {
    pub(crate) pool: LockPool,
    /// `None`: `memory://`.
    pub(crate) server: Option<Keeper>,
}

/// Those that keep what was written.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<Served>);

pub(crate) async fn on_memory_with_data(case: Case<Site>) {
    let pool = LockPool::connect("memory://").await.unwrap();
    case(Site { pool, server: None }).await;
}

/// Data may be left, and the user may write it.
pub(crate) async fn on_redis_with_data(case: Case<Site>) {
    let rights = documented_rules("ACL SETUSER dlock ~*{item:* ");
    let keeper = Keeper(Arc::new(fresh(&rights).await));
    let pool = LockPool::connect(config(&keeper.0, "dlock")).await.unwrap();
    let server = Some(keeper.clone());
    case(Site { pool, server }).await;
}

impl Keeper {
    /// The reply of the server that has the key.
    pub(crate) async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut reply = Err("no server");
        for server in self.0.servers() {
            match server.try_cmd(words).await {
                Ok(value) => reply = Ok(value),
                Err(error) => assert_eq!(error.code(), Some("MOVED"), "{words:?}: {error}"),
            }
        }
        redis::from_redis_value(reply.unwrap()).unwrap()
    }

    async fn commandstats(&self, command: &str) -> u64 {
        let mut sum = 0;
        for server in self.0.servers() {
            sum += server.commandstats(command).await;
        }
        sum
    }
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
