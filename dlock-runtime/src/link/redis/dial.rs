//! Opens the byte stream of a connection: TCP, a unix socket or the program's own connector, and
//! TLS on it where the URL asks for that. It says nothing to the server itself.
//!
//! A name may have several addresses: they are tried in the resolver's order, each beside those that
//! have not answered for a while (the idea of RFC 8305), and the first that takes the connection is
//! the server.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::socket::Socket;
#[cfg(feature = "tls")]
use super::tls;
use crate::link::command_error::CommandError;
use crate::link::joined::next_of;
use crate::values::config::{Host, RedisAddress, Stream};
use crate::values::error::Reason;

/// An address is tried alone for this long; for less if the addresses are too many for that.
const ALONE: Duration = Duration::from_millis(250);

/// An attempt to connect whose TCP handshake takes longer than this share of its time can't succeed,
/// because it is followed by more round trips. Ending it then leaves time to say what was tried.
const RESERVE: u32 = 16;

/// A stream to a host by TCP, in the way that the address says, and the host's address unless the
/// program opens its streams. The attempt to connect ends at `until`.
pub(crate) async fn dial(
    address: &RedisAddress,
    host: &Host,
    until: Instant,
) -> Result<(Box<dyn Stream>, Option<SocketAddr>), CommandError> {
    let mut peer = None;
    let stream: Box<dyn Stream> = if let Some(connector) = &address.connector {
        let stream = connector.open(&host.name, host.port).await;
        Box::new(Socket::new(stream.map_err(|why| unreachable(host, &why))?))
    } else {
        let (address, socket) = tcp(host, until).await?;
        peer = Some(address);
        Box::new(socket)
    };
    Ok((secured(address, host, stream, until).await?, peer))
}

/// The same, to one of the host's addresses.
pub(super) async fn dial_at(
    address: &RedisAddress,
    host: &Host,
    at: SocketAddr,
    until: Instant,
) -> Result<Box<dyn Stream>, CommandError> {
    let connected = TcpStream::connect(at).await.and_then(Socket::tcp);
    let socket = connected.map_err(|why| unreachable(host, &why))?;
    secured(address, host, Box::new(socket), until).await
}

#[cfg(feature = "tls")]
async fn secured(
    address: &RedisAddress,
    host: &Host,
    stream: Box<dyn Stream>,
    until: Instant,
) -> Result<Box<dyn Stream>, CommandError> {
    let Some(settings) = &address.tls else {
        return Ok(stream);
    };
    let probes = address.connector.is_none();
    tls::secure(stream, settings, host, until, probes).await
}

#[cfg(not(feature = "tls"))]
fn secured(
    _: &RedisAddress,
    _: &Host,
    stream: Box<dyn Stream>,
    _: Instant,
) -> impl Future<Output = Result<Box<dyn Stream>, CommandError>> {
    std::future::ready(Ok(stream))
}

/// Whether a port speaks TLS although the address does not ask for it.
#[cfg(feature = "tls")]
pub(crate) async fn wants_tls(address: &RedisAddress, host: &Host, until: Instant) -> bool {
    address.tls.is_none() && address.connector.is_none() && tls::speaks_tls(host, until).await
}

#[cfg(not(feature = "tls"))]
pub(crate) fn wants_tls(_: &RedisAddress, _: &Host, _: Instant) -> impl Future<Output = bool> {
    std::future::ready(false)
}

/// The first of the host's addresses that takes the connection, and a socket to it.
pub(super) async fn tcp(
    host: &Host,
    until: Instant,
) -> Result<(SocketAddr, Socket<TcpStream>), CommandError> {
    let left = left(until);
    let until = until - left / RESERVE;
    let Ok(resolved) = timeout_at(until, resolve(host)).await else {
        return Err(unreachable(host, &"its name was not resolved in time"));
    };
    let mut addresses = resolved.map_err(|why| unreachable(host, &why))?;
    addresses.dedup();
    let number = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let alone = ALONE.min(left / number);
    let connected = first_of(addresses, alone, until).await;
    let (address, stream) = connected.map_err(|why| unreachable(host, &why))?;
    let socket = Socket::tcp(stream).map_err(|why| unreachable(host, &why))?;
    Ok((address, socket))
}

/// The same stream.
#[cfg(feature = "postgres")]
pub(crate) async fn tcp_stream(
    host: &Host,
    until: Instant,
) -> Result<Box<dyn Stream>, CommandError> {
    let (_, socket) = tcp(host, until).await?;
    Ok(Box::new(socket))
}

/// What is left of an attempt's time.
pub(crate) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// The addresses of a host, in the resolver's order.
pub(super) async fn resolve(host: &Host) -> io::Result<Vec<SocketAddr>> {
    #[cfg(test)]
    if let Some(addresses) = super::tests::dial::addresses_of(&host.name) {
        return Ok(addresses);
    }
    let addresses = tokio::net::lookup_host((host.name.as_str(), host.port)).await?;
    Ok(addresses.collect())
}

/// The attempts that are under way.
type Trials = Vec<(
    SocketAddr,
    Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>,
)>;

/// The first connection that can be made; or what was tried, in words.
async fn first_of(
    addresses: Vec<SocketAddr>,
    alone: Duration,
    until: Instant,
) -> Result<(SocketAddr, TcpStream), String> {
    let (mut trials, mut failed) = (Trials::new(), Vec::new());
    let mut addresses = addresses.into_iter();
    loop {
        match addresses.next() {
            Some(address) => trials.push((address, Box::pin(TcpStream::connect(address)))),
            None if trials.is_empty() => break,
            None => {}
        }
        let patience = match addresses.len() {
            0 => until,
            _ => until.min(Instant::now() + alone),
        };
        let ended = next_of(&mut trials, |(_, trial)| trial.as_mut());
        match timeout_at(patience, ended).await {
            Ok(Some(((address, _), Ok(stream)))) => return Ok((address, stream)),
            Ok(Some(((address, _), Err(why)))) => failed.push(format!("{address}: {why}")),
            Err(_) if patience == until => break,
            Ok(None) | Err(_) => {}
        }
    }
    let silent = trials.iter().map(|(address, _)| address);
    failed.extend(silent.map(|address| format!("{address}: no answer in time")));
    if failed.is_empty() {
        return Err("the name has no address".to_owned());
    }
    Err(failed.join("; "))
}

/// A stream to a unix socket.
#[cfg(unix)]
pub(crate) async fn unix(path: &Path) -> Result<Box<dyn Stream>, CommandError> {
    let stream = tokio::net::UnixStream::connect(path).await;
    let stream = stream.map_err(|why| unreachable(&path.display(), &why))?;
    Ok(Box::new(Socket::new(stream)))
}

#[cfg(not(unix))]
pub(crate) async fn unix(_: &Path) -> Result<Box<dyn Stream>, CommandError> {
    Err(CommandError::Setup(Reason::new(
        "this system has no unix sockets",
    )))
}

fn unreachable(place: &dyn Display, why: &dyn Display) -> CommandError {
    CommandError::Unsent(Reason::new(format_args!(
        "connecting to {place} failed: {why}"
    )))
}
