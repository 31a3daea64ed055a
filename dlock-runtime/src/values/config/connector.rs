//! A connection's byte stream that the program opens itself, in place of dlock's own TCP.
//!
//! It opens none. Invariant: a stream that it returns has sent nothing of dlock's yet.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Config;

/// A stream to a server.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Opens the streams of a pool's connections.
#[derive(Clone)]
pub(crate) struct Connector(Arc<dyn Fn(String, u16) -> Opening + Send + Sync>);

impl Connector {
    pub(super) fn new<F, S>(open: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self(Arc::new(move |host, port| {
            let stream = open(host, port);
            Box::pin(async move { Ok(Box::new(stream.await?) as Box<dyn Stream>) })
        }))
    }

    pub(crate) async fn open(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        (self.0)(host.to_owned(), port).await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<the program's own>")
    }
}

impl Config {
    /// Opens connections with `open` instead of dlock's own TCP: for a proxy with its own protocol,
    /// or for TLS with another library.
    ///
    /// `open` receives a host and a port: the URL's, or those of each sentinel and of the master
    /// that they name.
    ///
    /// The stream is read and written on the tokio runtime on which `open` is called: each runtime
    /// that takes locks, and that of dlock's watchdog, so `open` **must not block**. Opening counts
    /// towards [`connect_timeout`](Self::connect_timeout); the text of its error appears in errors
    /// and in the log. With `redis://` dlock speaks its protocol on the stream as it is, with
    /// `rediss://` it begins TLS on it. In a forked child the stream is neither written nor
    /// dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    /// use tokio::net::TcpStream;
    ///
    /// let by_a_tunnel = Config::new("redis://redis.internal")
    ///     .connector(|_host, _port| TcpStream::connect("127.0.0.1:7000"))
    ///     .lazy();
    /// let pool = LockPool::connect(by_a_tunnel).await?;
    /// # drop(pool); Ok(()) }
    /// ```
    pub fn connector<F, S>(
        mut self,
        open: impl Fn(String, u16) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.connector = Some(Connector::new(open));
        self
    }
}
