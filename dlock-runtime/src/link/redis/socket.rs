//! The socket of a connection. It reads and writes only in the process that opened it.
//!
//! A forked child shares its parent's socket: a byte that the child sent would land in the middle
//! of a command of the parent's, an answer that it read would be missing there, so that the next
//! one is taken for it, and a shutdown would end the connection of both. So in a child every call
//! that would move bytes fails, and dropping the socket leaves it open: the system closes the child's descriptor, which
//! the parent does not notice.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::values::config::Stream;
use crate::values::process::Home;

pub(super) struct Socket<S> {
    home: Home,
    /// `None` only while it is being dropped.
    stream: Option<S>,
}

/// A stream below a socket: of the system, or one that the program opened.
pub(super) trait Carrier: AsyncRead + AsyncWrite + Unpin {
    /// Ready when a read may take bytes.
    fn poll_readable(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Whether a flush may send bytes.
    fn has_buffer(&self) -> bool {
        true
    }
}

impl Carrier for TcpStream {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }

    fn has_buffer(&self) -> bool {
        false
    }
}

#[cfg(unix)]
impl Carrier for tokio::net::UnixStream {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }

    fn has_buffer(&self) -> bool {
        false
    }
}

/// What a connector opens.
impl Carrier for Box<dyn Stream> {}

impl Socket<TcpStream> {
    /// A socket by TCP. Each write is sent at once.
    pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::new(stream))
    }
}

impl<S: Carrier> Socket<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            home: Home::here(),
            stream: Some(stream),
        }
    }

    /// The stream, for a call that may move bytes; an error in a child of any sort, which the system
    /// is asked for.
    fn for_bytes(self: Pin<&mut Self>) -> io::Result<Pin<&mut S>> {
        if self.home.is_elsewhere_by_system() {
            return Err(of_the_parent());
        }
        self.stream()
    }

    /// The same, for a call that moves none: an error in a child of `fork()`, without a system call.
    fn for_questions(self: Pin<&mut Self>) -> io::Result<Pin<&mut S>> {
        if self.home.is_elsewhere() {
            return Err(of_the_parent());
        }
        self.stream()
    }

    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut S>> {
        let stream = self.get_mut().stream.as_mut();
        stream
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

fn of_the_parent() -> io::Error {
    io::Error::other("this connection is the parent's of this forked process")
}

impl<S: Carrier> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Mostly there is nothing to read.
        ready!(self.as_mut().for_questions()?.poll_readable(cx))?;
        match self.for_bytes() {
            Ok(stream) => stream.poll_read(cx, into),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: Carrier> AsyncWrite for Socket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.for_bytes() {
            Ok(stream) => stream.poll_write(cx, bytes),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.for_bytes() {
            Ok(stream) => stream.poll_write_vectored(cx, bytes),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream
            .as_ref()
            .is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.as_mut().for_questions()?.has_buffer() {
            return Poll::Ready(Ok(()));
        }
        match self.for_bytes() {
            Ok(stream) => stream.poll_flush(cx),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.for_bytes() {
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
