//! Opens the byte stream of a connection: TCP, a unix socket or the program's own connector, and
//! TLS on it where the URL asks for that. It says nothing to the server itself.

use std::io;

use tokio::net::TcpStream;

use super::plan::Plan;
use super::socket::Socket;
#[cfg(feature = "tls")]
use super::tls;
use crate::backend::command_error::CommandError;
use crate::values::config::{Endpoint, RedisAddress, Stream};
use crate::values::error::Reason;

/// A stream to the pool's server.
pub(super) async fn dial(plan: &Plan) -> Result<Box<dyn Stream>, CommandError> {
    let address = &plan.address;
    let (host, port) = match &address.endpoint {
        Endpoint::Tcp { host, port } => (host.as_str(), *port),
        Endpoint::Unix(path) => return unix(address, path).await,
    };
    let unreachable = |why: io::Error| unreachable(address, &why);
    let stream: Box<dyn Stream> = if let Some(connector) = &address.connector {
        let stream = connector.open(host, port).await;
        Box::new(Socket::new(stream.map_err(unreachable)?))
    } else {
        let stream = tcp(host, port).await;
        Box::new(Socket::new(stream.map_err(unreachable)?))
    };
    #[cfg(feature = "tls")]
    if let Some(settings) = &address.tls {
        return tls::secure(stream, settings, (host, port), plan.connect_timeout).await;
    }
    Ok(stream)
}

/// Whether the server's port speaks TLS although the URL does not ask for it.
#[cfg(feature = "tls")]
pub(super) async fn wants_tls(plan: &Plan) -> bool {
    let (Endpoint::Tcp { host, port }, None, None) = (
        &plan.address.endpoint,
        &plan.address.tls,
        &plan.address.connector,
    ) else {
        return false;
    };
    tls::speaks_tls(host, *port, plan.connect_timeout / 4).await
}

#[cfg(not(feature = "tls"))]
pub(super) fn wants_tls(_: &Plan) -> impl Future<Output = bool> {
    std::future::ready(false)
}

pub(super) async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(unix)]
async fn unix(
    address: &RedisAddress,
    path: &std::path::Path,
) -> Result<Box<dyn Stream>, CommandError> {
    let stream = tokio::net::UnixStream::connect(path).await;
    let stream = stream.map_err(|why| unreachable(address, &why))?;
    Ok(Box::new(Socket::new(stream)))
}

#[cfg(not(unix))]
async fn unix(_: &RedisAddress, _: &std::path::Path) -> Result<Box<dyn Stream>, CommandError> {
    Err(CommandError::Setup(Reason::new(
        "this system has no unix sockets",
    )))
}

fn unreachable(address: &RedisAddress, why: &io::Error) -> CommandError {
    CommandError::Unsent(Reason::new(format_args!(
        "connecting to {address} failed: {why}"
    )))
}
