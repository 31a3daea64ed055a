//! The Lua scripts, each with what they share in front, and how one is called.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value};

pub(super) static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lua/acquire.lua")));
pub(super) static POLL: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lua/poll.lua")));
pub(super) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lua/release.lua")));
pub(super) static CANCEL: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lua/cancel.lua")));
pub(super) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lua/renew.lua")));
pub(super) static WRITE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lua/write.lua")));

/// A script and the hash that the server knows it by.
#[derive(Debug)]
pub(super) struct Script {
    text: String,
    sha1: String,
}

impl Script {
    fn new(operation: &str) -> Self {
        let shared = [
            include_str!("lua/prelude.lua"),
            include_str!("lua/queue.lua"),
        ];
        let text = [&shared.concat(), operation].concat();
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha1 }
    }

    /// By hash; where the server does not know it, by text. The hash alone runs nothing, so this is
    /// no repetition.
    pub(super) async fn run(
        &self,
        connection: &mut MultiplexedConnection,
        keys: &[&str],
        arguments: &[impl ToRedisArgs],
    ) -> Result<Value, RedisError> {
        let call = |how: &str, script: &str| -> Cmd {
            let mut command = redis::cmd(how);
            command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
            command
        };
        match call("EVALSHA", &self.sha1).query_async(connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                call("EVAL", &self.text).query_async(connection).await
            }
            answer => answer,
        }
    }
}
