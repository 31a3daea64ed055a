//! A connection's byte stream that the program opens itself, in place of dlock's own TCP.
//!
//! It opens none. Invariant: a stream that it returns has sent nothing of dlock's yet.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

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
