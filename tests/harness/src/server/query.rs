//! Commands to a server, each on a connection of its own, so that no answer depends on what
//! happened to an earlier one.
//!
//! They hang as long as the server is stopped, and panic while it is killed.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult, Value};

use super::RedisServer;
use crate::wait::until;

const REPLICATED_CAP: Duration = Duration::from_secs(30);
const PROBE: &str = "dlock-harness:replicated";

const CONNECT_CAP: Duration = Duration::from_secs(10);

impl RedisServer {
    /// A new connection over the server's socket, if it has one, or over TCP. It has no response
    /// timeout.
    pub async fn connect(&self) -> MultiplexedConnection {
        let url = self.unix_url().unwrap_or_else(|| self.url());
        let client = Client::open(url).expect("a valid URL");
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(CONNECT_CAP));
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .expect("connect to redis-server")
    }

    /// The reply to a command; panics on an error reply. The first word is the command's name:
    /// `cmd(&["SCRIPT", "FLUSH"])`.
    pub async fn cmd(&self, words: &[&str]) -> Value {
        let reply = self.try_cmd(words).await;
        reply.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// [`cmd`](Self::cmd), for commands that may be refused.
    pub async fn try_cmd(&self, words: &[&str]) -> RedisResult<Value> {
        let (name, args) = words.split_first().expect("a command has a name");
        let mut connection = self.connect().await;
        redis::cmd(name)
            .arg(args)
            .query_async(&mut connection)
            .await
    }

    /// Waits until this many replicas have all that was written so far.
    pub async fn replicated(&self, replicas: usize) {
        until("the replicas have it", REPLICATED_CAP, async || {
            let had = self.try_replicated(replicas, Duration::from_secs(1)).await;
            had == Ok(true)
        })
        .await;
    }

    /// Whether they have it within this time; an error if this server is no master. It writes,
    /// because `WAIT` says of a connection that has not written that all replicas have everything.
    pub async fn try_replicated(&self, replicas: usize, within: Duration) -> RedisResult<bool> {
        let mut wait = redis::pipe();
        wait.cmd("SET").arg(PROBE).arg(1).cmd("DEL").arg(PROBE);
        wait.cmd("WAIT")
            .arg(replicas)
            .arg(within.as_millis().max(1).to_string());
        let (_, _, had): (Value, Value, usize) =
            wait.query_async(&mut self.connect().await).await?;
        Ok(had >= replicas)
    }

    /// How often a command was executed (`INFO commandstats`), inside scripts too. Subcommands are
    /// written `client|kill`; Redis 6 counts them as `client`.
    pub async fn commandstats(&self, command: &str) -> u64 {
        let info: String = self.ask(&["INFO", "commandstats"]).await;
        let prefix = format!("cmdstat_{}:calls=", command.to_lowercase());
        let line = info.lines().find_map(|line| line.strip_prefix(&prefix));
        let Some((calls, _)) = line.and_then(|rest| rest.split_once(',')) else {
            return 0;
        };
        calls.parse().expect("calls is a number")
    }

    /// Waits until this replica has all that its master has now.
    pub async fn caught_up(&self, master: &RedisServer) {
        let offset = async |server: &RedisServer, field: &str| {
            let info: String = server.ask(&["INFO", "replication"]).await;
            let line = info.lines().find_map(|it| it.strip_prefix(field));
            line.map_or(0, |it| it.parse::<u64>().expect("a number"))
        };
        let all = offset(master, "master_repl_offset:").await.max(1);
        until("the replica has it", REPLICATED_CAP, async || {
            offset(self, "slave_repl_offset:").await >= all
        })
        .await;
    }

    /// All keys of database 0, sorted.
    pub async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", "*"]).await;
        keys.sort();
        keys
    }

    /// `PTTL`: milliseconds, -1 for a key without expiry, -2 for no key.
    pub async fn pttl(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).await
    }

    /// [`cmd`](Self::cmd), with the reply converted to `T`.
    pub async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let value = self.cmd(words).await;
        redis::from_redis_value(value).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }
}
