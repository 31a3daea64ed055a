//! Making one connection: the socket, the handshake, and whether the server will do.

use std::pin::pin;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::link::RedisLink;
use super::reply;
use crate::backend::clock::Clock;
use crate::backend::fault::{self, Fault};
use crate::values::config::{Endpoint, RedisAddress};
use crate::values::error::{Refusal, Text};

/// What a connection needs to know.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) address: RedisAddress,
    pub(super) connect_timeout: Duration,
    pub(super) command_timeout: Duration,
    pub(super) max_in_flight: Option<usize>,
    pub(super) clock: Clock,
}

/// A connection that has said hello, on the current runtime.
pub(super) async fn connect(plan: &Plan) -> Result<RedisLink, Fault> {
    let within = plan.connect_timeout;
    let mut attempt = pin!(async {
        let connected = tokio::time::timeout(within, try_protocols(plan)).await;
        connected.unwrap_or_else(|_| {
            Err(Fault::Unsent(Text::new(format_args!(
                "no connection to {} within {within:?}",
                plan.address
            ))))
        })
    });
    std::future::poll_fn(
        |cx| match fault::needs_drivers(|| attempt.as_mut().poll(cx)) {
            Ok(progress) => progress,
            Err(missing) => std::task::Poll::Ready(Err(missing)),
        },
    )
    .await
}

/// RESP3, and where a proxy does not know it, RESP2.
async fn try_protocols(plan: &Plan) -> Result<RedisLink, Fault> {
    if !plan.address.resp2_only {
        match open(plan, ProtocolVersion::RESP3).await {
            Err(Fault::Refused(Refusal::Other, why)) if says_no_hello(&why) => {}
            answer => return answer,
        }
    }
    open(plan, ProtocolVersion::RESP2).await
}

fn says_no_hello(why: &Text) -> bool {
    let why = why.to_string().to_ascii_lowercase();
    why.contains("hello") || why.contains("resp3") || why.contains("noproto")
}

async fn open(plan: &Plan, protocol: ProtocolVersion) -> Result<RedisLink, Fault> {
    let unreachable = |error: std::io::Error| {
        Fault::Unsent(Text::new(format_args!(
            "connecting to {} failed: {error}",
            plan.address
        )))
    };
    match &plan.address.endpoint {
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port))
                .await
                .map_err(unreachable)?;
            stream.set_nodelay(true).map_err(unreachable)?;
            shake_hands(plan, protocol, stream).await
        }
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path)
                .await
                .map_err(unreachable)?;
            shake_hands(plan, protocol, stream).await
        }
        #[cfg(not(unix))]
        Endpoint::Unix(_) => Err(Fault::Setup(Text::new("this system has no unix sockets"))),
    }
}

async fn shake_hands<S>(
    plan: &Plan,
    protocol: ProtocolVersion,
    stream: S,
) -> Result<RedisLink, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let who = identity(&plan.address, protocol);
    // Our own deadline stands around every call, so the library needs none.
    let mut config = AsyncConnectionConfig::new().set_response_timeout(None);
    if let Some(limit) = plan.max_in_flight {
        config = config.set_concurrency_limit(limit);
    }
    let (mut connection, driver) = MultiplexedConnection::new_with_config(&who, stream, config)
        .await
        .map_err(|error| reply::handshake_fault(&error))?;
    let driver = tokio::spawn(driver);
    let abort_on_failure = AbortOnDrop(Some(driver));
    let time = ask(&mut connection).await?;
    let driver = abort_on_failure.defuse();
    Ok(RedisLink::new(connection, driver, plan, time))
}

fn identity(address: &RedisAddress, protocol: ProtocolVersion) -> RedisConnectionInfo {
    let mut who = RedisConnectionInfo::default()
        .set_db(address.database)
        .set_protocol(protocol)
        .set_skip_set_lib_name(); // a right less to ask for
    if let Some(user) = &address.user {
        who = who.set_username(user);
    }
    if let Some(password) = &address.password {
        who = who.set_password(password.reveal());
    }
    who
}

/// Asks the server what it is and what time it is there, in one round trip.
async fn ask(connection: &mut MultiplexedConnection) -> Result<u64, Fault> {
    let (hello, time) = (redis::cmd("HELLO"), redis::cmd("TIME"));
    let mut both = redis::pipe();
    both.add_command(hello).add_command(time.clone());
    let time: Value = match both.query_async(connection).await {
        Ok((hello, time)) => {
            check_server(&hello)?;
            time
        }
        Err(error) => match reply::handshake_fault(&error) {
            // A proxy that knows no HELLO, or a user without the right to it: nothing can be told.
            Fault::Refused(Refusal::Other | Refusal::NoPermission, _) => {
                let asked = time.query_async(connection).await;
                asked.map_err(|error| reply::handshake_fault(&error))?
            }
            other => return Err(other),
        },
    };
    reply::time(&time)
}

/// Refuses servers whose answers would mean something else: too old, a cluster's node, a replica.
fn check_server(hello: &Value) -> Result<(), Fault> {
    let setup = |why: String| Err(Fault::Setup(Text::new(why)));
    if let Some(version) = reply::field(hello, "version")
        && is_older(&version, (6, 2))
    {
        return setup(format!(
            "the server is redis {version}; dlock needs 6.2 or newer"
        ));
    }
    match reply::field(hello, "mode").as_deref() {
        Some("cluster") => {
            return setup(
                "the server is a node of a cluster, which is not supported yet".to_owned(),
            );
        }
        Some("sentinel") => {
            return setup(
                "this is a sentinel, not a redis server; `redis+sentinel://` is not supported yet"
                    .to_owned(),
            );
        }
        _ => {}
    }
    match reply::field(hello, "role").as_deref() {
        Some("replica" | "slave") => Err(Fault::Refused(
            Refusal::ReadOnly,
            Text::new("HELLO says: replica"),
        )),
        _ => Ok(()),
    }
}

fn is_older(version: &str, than: (u32, u32)) -> bool {
    let mut parts = version.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < than,
        _ => false, // a fork with a scheme of its own
    }
}

/// Ends a driver whose connection did not come about.
struct AbortOnDrop(Option<tokio::task::JoinHandle<()>>);

impl AbortOnDrop {
    fn defuse(mut self) -> Option<tokio::task::JoinHandle<()>> {
        self.0.take()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}
