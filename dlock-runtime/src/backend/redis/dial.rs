//! Opens the byte stream of a connection: TCP, a unix socket or the program's own connector, and
//! TLS on it where the URL asks for that. It says nothing to the server itself.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::socket::Socket;
#[cfg(feature = "tls")]
use super::tls;
use crate::backend::command_error::CommandError;
use crate::values::config::{Host, RedisAddress, Stream};
use crate::values::error::Reason;

/// A stream to a host by TCP, in the way that the address says.
pub(super) async fn dial(
    address: &RedisAddress,
    host: &Host,
    within: Duration,
) -> Result<Box<dyn Stream>, CommandError> {
    let unreachable = |why: io::Error| unreachable(host, &why);
    let stream: Box<dyn Stream> = if let Some(connector) = &address.connector {
        let stream = connector.open(&host.name, host.port).await;
        Box::new(Socket::new(stream.map_err(unreachable)?))
    } else {
        Box::new(Socket::connect(host).await.map_err(unreachable)?)
    };
    #[cfg(feature = "tls")]
    if let Some(settings) = &address.tls {
        let probe = address.connector.is_none().then_some(within / 4);
        return tls::secure(stream, settings, host, within, probe).await;
    }
    #[cfg(not(feature = "tls"))]
    let _ = within;
    Ok(stream)
}

/// Whether a port speaks TLS although the address does not ask for it.
#[cfg(feature = "tls")]
pub(super) async fn wants_tls(address: &RedisAddress, host: &Host, within: Duration) -> bool {
    address.tls.is_none() && address.connector.is_none() && tls::speaks_tls(host, within / 4).await
}

#[cfg(not(feature = "tls"))]
pub(super) fn wants_tls(_: &RedisAddress, _: &Host, _: Duration) -> impl Future<Output = bool> {
    std::future::ready(false)
}

/// A stream to a unix socket.
#[cfg(unix)]
pub(super) async fn unix(path: &Path) -> Result<Box<dyn Stream>, CommandError> {
    let stream = tokio::net::UnixStream::connect(path).await;
    let stream = stream.map_err(|why| unreachable(&path.display(), &why))?;
    Ok(Box::new(Socket::new(stream)))
}

#[cfg(not(unix))]
pub(super) async fn unix(_: &Path) -> Result<Box<dyn Stream>, CommandError> {
    Err(CommandError::Setup(Reason::new(
        "this system has no unix sockets",
    )))
}

fn unreachable(place: &dyn Display, why: &io::Error) -> CommandError {
    CommandError::Unsent(Reason::new(format_args!(
        "connecting to {place} failed: {why}"
    )))
}
