//! What a new connection asks of the server first: whether dlock can use it, its time, and what it
//! can do.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ProtocolVersion, RedisResult, Value};

use super::native::Native;
use super::reads::Reads;
use super::{errors, reply};
use crate::extras::server_check::is_older;
use crate::link::command_error::CommandError;
use crate::values::error::{Reason, Refusal};
use crate::values::shown::{NAME_AT_MOST, shown};

/// Who says that the peer is a master.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerRole {
    /// The configuration.
    Given,
    /// The sentinels.
    Discovered,
    /// Other nodes of its cluster.
    NodeOfCluster,
}

/// The server's answers to a new connection.
pub(crate) struct ServerInfo {
    pub(crate) time: u64,
    pub(crate) native: Option<Native>,
    pub(crate) reads: Reads,
    /// The first digits of the server's run id; empty if the user may not ask for it.
    pub(crate) run_id: String,
    /// In whole seconds; `None` if the user may not ask for it.
    pub(crate) uptime: Option<Duration>,
}

/// What a server says it is.
struct ServerIdentity {
    version: Option<String>,
    mode: Option<String>,
    role: Option<String>,
}

impl ServerIdentity {
    fn by_hello(hello: &Value) -> Self {
        let field = |name| reply::field(hello, name);
        Self {
            version: field("version"),
            mode: field("mode"),
            role: field("role"),
        }
    }

    /// `is_sharded`: a proxy that shards passes the question to one of its servers, which may be a
    /// node of a cluster.
    fn by_info(server: &str, replication: &str, is_sharded: bool) -> Self {
        let field = |info, name| info_field(info, name).map(str::to_owned);
        let kind = |info, name| field(info, name).filter(|_| !is_sharded);
        Self {
            version: field(server, "redis_version"),
            mode: kind(server, "redis_mode"),
            role: kind(replication, "role"),
        }
    }
}

/// Asks in one round trip for the kind of server, its time, its native compare-and-delete command,
/// its run id, and whether the user may read a part of the string at such a key. The kind comes
/// first: a sentinel has no TIME. With RESP2 it is asked for by `INFO`, because a proxy may end a
/// connection at `HELLO`; a server that refuses `INFO` to this user knows `HELLO`.
pub(crate) async fn read_server_info(
    mut connection: MultiplexedConnection,
    role: ServerRole,
    key: &str,
    (protocol, is_sharded): (ProtocolVersion, bool),
) -> Result<ServerInfo, CommandError> {
    let mut all = redis::pipe();
    if protocol.supports_resp3() {
        all.cmd("HELLO");
    } else {
        all.cmd("INFO").arg("replication");
    }
    all.cmd("TIME").add_command(Native::question());
    all.cmd("INFO").arg("server");
    all.add_command(Reads::question(key));
    all.ignore_errors(); // each has its own answer
    let answers = all.query_async(&mut connection).await;
    let [mut kind, time, native, info, beginning]: [RedisResult<Value>; 5] =
        answers.map_err(|error| {
            if protocol.supports_resp3() {
                errors::handshake_error(&error)
            } else {
                errors::first_error(&error, protocol)
            }
        })?;
    let info = info.ok().and_then(|info| reply::text(&info));
    let info = info.as_deref().unwrap_or_default();
    let by_info = !protocol.supports_resp3();
    let is_refused = kind.as_ref().err().is_some_and(errors::is_without_right);
    if by_info && is_refused {
        kind = redis::cmd("HELLO").query_async(&mut connection).await;
    }
    match kind {
        Ok(replication) if by_info && !is_refused => {
            let replication = reply::text(&replication).unwrap_or_default();
            check_server(
                &ServerIdentity::by_info(info, &replication, is_sharded),
                role,
            )?;
        }
        Ok(hello) => check_server(&ServerIdentity::by_hello(&hello), role)?,
        Err(error) => {
            // Redis 5 does not know HELLO, and that of 6.0 needs an argument.
            check_version(info_field(info, "redis_version"))?;
            match errors::handshake_error(&error) {
                // A proxy that does not know HELLO, or a user without the right to it: the rest of
                // the check is skipped.
                CommandError::Refused(Refusal::Other | Refusal::NoPermission, _)
                    if role == ServerRole::Given => {}
                other => return Err(other),
            }
        }
    }
    let time = reply::time(&time.map_err(|error| errors::handshake_error(&error))?)?;
    Ok(ServerInfo {
        time,
        native: native.ok().as_ref().and_then(Native::among),
        reads: Reads::by(&beginning),
        run_id: run_id(info).unwrap_or_default(),
        uptime: uptime(info),
    })
}

/// How many digits of a run id are enough to tell servers apart.
const RUN_ID: usize = 16;

pub(crate) fn run_id(info: &str) -> Option<String> {
    let id = info_field(info, "run_id")?.get(..RUN_ID)?;
    id.bytes()
        .all(|it| it.is_ascii_hexdigit())
        .then(|| id.to_owned())
}

/// By the server's wall clock: below zero if that was set back by more than the server's age. Then
/// nothing is known of its age, as of a server that has just started.
fn uptime(info: &str) -> Option<Duration> {
    let seconds: i64 = info_field(info, "uptime_in_seconds")?.parse().ok()?;
    Some(Duration::from_secs(seconds.try_into().unwrap_or_default()))
}

/// A field of `INFO`.
fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

fn check_version(version: Option<&str>) -> Result<(), CommandError> {
    match version {
        Some(version) if is_older(version, (6, 2)) => Err(CommandError::Setup(Reason::new(
            format_args!("the server is redis {version}; dlock needs 6.2 or newer"),
        ))),
        _ => Ok(()),
    }
}

/// Refuses servers that dlock can't use: too old, a sentinel, a replica, a node of a cluster that is
/// spoken to as one server, or the reverse.
fn check_server(said: &ServerIdentity, server: ServerRole) -> Result<(), CommandError> {
    let setup = |why: String| Err(CommandError::Setup(Reason::new(why)));
    check_version(said.version.as_deref())?;
    match said.mode.as_deref() {
        Some("cluster") if server != ServerRole::NodeOfCluster => {
            return setup(
                "the server is a node of a cluster: write `redis+cluster://` (with TLS `rediss+cluster://`) into the URL; if a proxy shards behind this address, set `Config::counter_per_slot()`"
                    .to_owned(),
            );
        }
        Some("sentinel") => {
            return setup(
                "this is a sentinel, not a redis server; give `redis+sentinel://` with all sentinels and the master's name"
                    .to_owned(),
            );
        }
        // What the configuration names was asked before. It may pass: the address of a node that has
        // gone was given to another server.
        Some("standalone") if server == ServerRole::NodeOfCluster => {
            return Err(CommandError::Unsent(Reason::new(
                "the server there is not a node of a cluster",
            )));
        }
        _ => {}
    }
    match said.role.as_deref() {
        // It is named already, or still: a failover is under way.
        role if server != ServerRole::Given && role != Some("master") => {
            let by = if server == ServerRole::Discovered {
                "sentinels name"
            } else {
                "nodes of the cluster name"
            };
            Err(CommandError::Unsent(Reason::new(format_args!(
                "the server that the {by} is not a master now (role: {})",
                shown(role.unwrap_or("not told"), NAME_AT_MOST)
            ))))
        }
        Some("replica" | "slave") => Err(CommandError::Refused(
            Refusal::ReadOnly,
            Reason::new("it says: replica"),
        )),
        _ => Ok(()),
    }
}
