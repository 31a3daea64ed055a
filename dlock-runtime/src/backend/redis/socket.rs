//! The socket of a connection. It reads and writes only in the process that opened it.
//!
//! A forked child shares its parent's socket: a byte that the child sent would land in the middle
//! of a command of the parent's, an answer that it read would be missing there, so that the next
//! one is taken for it, and a shutdown would end the connection of both. So in a child every call
//! fails, and dropping the socket leaves it open: the system closes the child's descriptor, which
//! the parent does not notice.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::values::config::Host;
use crate::values::process::Home;

pub(super) struct Socket<S> {
    home: Home,
    /// `None` only while it is being dropped.
    stream: Option<S>,
}

impl Socket<TcpStream> {
    /// A socket to a host, by TCP. Each write is sent at once.
    pub(super) async fn connect(host: &Host) -> io::Result<Self> {
        let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self::new(stream))
    }
}

impl<S: Unpin> Socket<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            home: Home::here(),
            stream: Some(stream),
        }
    }

    /// The stream; an error in a forked child.
    fn ours(self: Pin<&mut Self>) -> io::Result<Pin<&mut S>> {
        if self.home.is_elsewhere_by_system() {
            return Err(io::Error::other(
                "this connection is the parent's of this forked process",
            ));
        }
        let stream = self.get_mut().stream.as_mut();
        stream
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.ours() {
            Ok(stream) => stream.poll_read(cx, into),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.ours() {
            Ok(stream) => stream.poll_write(cx, bytes),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.ours() {
            Ok(stream) => stream.poll_write_vectored(cx, bytes),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(S::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.ours() {
            Ok(stream) => stream.poll_flush(cx),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.ours() {
            Ok(stream) => stream.poll_shutdown(cx),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S> Drop for Socket<S> {
    fn drop(&mut self) {
        if self.home.is_elsewhere_by_system() {
            // The runtime's poll set is shared with the parent: dropping the stream would remove
            // the parent's socket from it.
            std::mem::forget(self.stream.take());
        }
    }
}
