//! How much a server may say in one reply. The client library keeps a reply until it is whole, so a
//! server that never ends one would fill the memory. Here the bytes are counted while they arrive,
//! and the connection ends at the first reply beyond its bound, before the library has it.
//!
//! Knows the protocol only as far as it must to tell where a reply ends. What it can't read, it
//! counts as part of the same reply, so nothing that a server says evades the bound.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::link::command_error::CommandError;
use crate::values::config::Stream;
use crate::values::error::Reason;

/// What each value of a reply weighs besides its bytes, because the library keeps a struct for it: a
/// reply takes at most four times its weight.
const A_VALUE: usize = 32;

/// What a connection is asked; each is a row of [`Question::row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Before and while it is made.
    Handshake,
    AboutLocks,
    WhoServesWhat,
    Sentinel,
}

/// The bound of the replies to some commands.
struct Row {
    commands: &'static str,
    /// In bytes, of which each value weighs [`A_VALUE`] more.
    most: usize,
    /// The bound is for all replies of a connection together.
    is_for_all: bool,
}

impl Question {
    const ALL: [Self; 4] = [
        Self::Handshake,
        Self::AboutLocks,
        Self::WhoServesWhat,
        Self::Sentinel,
    ];

    const fn row(self) -> Row {
        let (commands, most, is_for_all) = match self {
            // Some 4 KB: `HELLO` of a server with many modules, `INFO server`.
            Self::Handshake => (
                "`HELLO` or another command of the handshake",
                64 << 10,
                false,
            ),
            // 1.1 MB: 250 entries of 4 KiB, of a list, or 200 without scripts. The answers to a full
            // batch of 64 calls have 270 KB.
            Self::AboutLocks => ("a command about locks", 2 << 20, false),
            // 20 MB: a range for each of 16,384 slots, each with a master, two replicas and names.
            Self::WhoServesWhat => ("`CLUSTER SLOTS`", 20 << 20, true),
            // Some hundred bytes, some more each time that the master moves, and a `PING` each 30 s,
            // so that it ends after days. A flood of small messages ends, too.
            Self::Sentinel => ("the commands to a sentinel", 1 << 20, true),
        };
        Row {
            commands,
            most,
            is_for_all,
        }
    }
}

/// What a connection may say now, shared by its stream and those who ask.
#[derive(Debug)]
pub(crate) struct ReplyBound {
    /// The place in [`Question::ALL`].
    asked: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl ReplyBound {
    pub(crate) fn of(asked: Question) -> Arc<Self> {
        Arc::new(Self {
            asked: AtomicUsize::new(asked as usize),
            is_exceeded: AtomicBool::new(false),
        })
    }

    /// From now on it is asked for this.
    pub(crate) fn set(&self, asked: Question) {
        self.asked.store(asked as usize, Ordering::Relaxed);
    }

    fn asked(&self) -> Question {
        let at = self.asked.load(Ordering::Relaxed);
        *Question::ALL.get(at).unwrap_or(&Question::Handshake)
    }

    /// The error of a command whose connection ended: the library tells only the command whose reply
    /// it was about the bound, and none if that was a pipeline.
    pub(crate) fn explain(&self, error: CommandError) -> CommandError {
        if !self.is_exceeded.load(Ordering::Acquire) {
            return error;
        }
        let why = Reason::new(TooLong(self.asked()));
        match error {
            CommandError::Unsent(_) => CommandError::Unsent(why),
            CommandError::Unclear(_) => CommandError::Unclear(why),
            other => other,
        }
    }
}

/// A reply was longer than its bound.
#[derive(Debug)]
struct TooLong(Question);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { commands, most, .. } = self.0.row();
        let most = most >> 10;
        write!(
            f,
            "the reply to {commands} is longer than {most} KiB, so the connection was closed: is that a redis server, or is a stranger's value stored there?"
        )
    }
}

impl Error for TooLong {}

/// A stream whose replies are bounded.
pub(super) struct Bounded {
    stream: Box<dyn Stream>,
    reply: Reply,
    bound: Arc<ReplyBound>,
}

impl Bounded {
    pub(super) fn new(stream: Box<dyn Stream>, bound: Arc<ReplyBound>) -> Self {
        Self {
            stream,
            reply: Reply::default(),
            bound,
        }
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        let arrived = into.filled().get(before..).unwrap_or_default();
        let asked = self.bound.asked();
        let Row {
            most, is_for_all, ..
        } = asked.row();
        if self.reply.weight_with(arrived, is_for_all) <= most {
            return Poll::Ready(Ok(()));
        }
        self.bound.is_exceeded.store(true, Ordering::Release);
        // Of a kind that ends the library's connection.
        let kind = io::ErrorKind::ConnectionAborted;
        Poll::Ready(Err(io::Error::new(kind, TooLong(asked))))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The reply that is arriving.
#[derive(Debug, Default)]
struct Reply {
    weight: usize,
    /// How many of its values have not begun; one that is a list adds its own.
    to_come: u64,
    at: ReplyPlace,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default)]
enum ReplyPlace {
    /// A value.
    #[default]
    Value,
    /// The rest of a value's first line.
    Line(Line),
    /// So many bytes of a text, with its line end.
    Text(u64),
    /// Nothing that can be read: the reply has no end.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    sort: u8,
    is_negative: bool,
    /// What its digits say; `None`: it has others than digits.
    number: Option<u64>,
    /// The last byte was a carriage return.
    may_end: bool,
}

impl Reply {
    /// What the reply weighs with these bytes, or the next one, of which they are the beginning.
    fn weight_with(&mut self, mut bytes: &[u8], is_for_all: bool) -> usize {
        let begins = self.to_come == 0 && matches!(self.at, ReplyPlace::Value);
        if begins && !is_for_all && is_one_line(bytes) {
            return 1 + A_VALUE + bytes.len(); // is forgotten where the next reply begins
        }
        while let Some((first, rest)) = bytes.split_first() {
            match &mut self.at {
                ReplyPlace::Value => {
                    if self.to_come == 0 {
                        self.to_come = 1;
                        self.weight *= usize::from(is_for_all);
                    }
                    self.weight = self.weight.saturating_add(1 + A_VALUE);
                    bytes = self.read(Line::of(*first), rest);
                }
                ReplyPlace::Line(line) => {
                    let line = *line;
                    bytes = self.read(line, bytes);
                }
                ReplyPlace::Text(left) => {
                    let here = usize::try_from(*left).map_or(bytes.len(), |it| it.min(bytes.len()));
                    *left -= here as u64;
                    self.weight = self.weight.saturating_add(here);
                    if *left == 0 {
                        self.at = ReplyPlace::Value;
                    }
                    bytes = bytes.get(here..).unwrap_or_default();
                }
                ReplyPlace::Lost => {
                    self.weight = self.weight.saturating_add(bytes.len());
                    return self.weight;
                }
            }
        }
        self.weight
    }

    /// Reads a value's first line to its end, if that is there; returns the bytes behind it.
    fn read<'a>(&mut self, mut line: Line, bytes: &'a [u8]) -> &'a [u8] {
        let (taken, is_whole) = line.read(bytes);
        self.weight = self.weight.saturating_add(taken);
        if is_whole {
            self.begun(line);
        } else {
            self.at = ReplyPlace::Line(line);
        }
        bytes.get(taken..).unwrap_or_default()
    }

    /// The first line of a value is whole.
    fn begun(&mut self, line: Line) {
        let within = match (line.sort, line.number, line.is_negative) {
            (b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(', ..)
            | (b'$' | b'*' | b'~' | b'>', Some(_), true) => Some((0, ReplyPlace::Value)),
            (b'$' | b'!' | b'=', Some(long), false) => {
                Some((0, ReplyPlace::Text(long.saturating_add(2))))
            }
            (b'*' | b'~' | b'>', Some(values), false) => Some((values, ReplyPlace::Value)),
            (b'%', Some(pairs), false) => Some((pairs.saturating_mul(2), ReplyPlace::Value)),
            (b'|', Some(pairs), false) => {
                Some((pairs.saturating_mul(2).saturating_add(1), ReplyPlace::Value))
            }
            _ => None,
        };
        let (values, next) = within.unwrap_or((1, ReplyPlace::Lost));
        self.to_come = self.to_come.saturating_sub(1).saturating_add(values);
        self.at = next;
    }
}

/// Whether these are a reply of a number, as most are that arrive alone.
fn is_one_line(bytes: &[u8]) -> bool {
    matches!(bytes, [b':', number @ .., b'\r', b'\n'] if !number.contains(&b'\n'))
}

impl Line {
    fn of(sort: u8) -> Self {
        Self {
            sort,
            is_negative: false,
            number: Some(0),
            may_end: false,
        }
    }

    /// Reads to its end, if that is there: how many bytes it took, and whether the line is whole.
    fn read(&mut self, bytes: &[u8]) -> (usize, bool) {
        let end = bytes.iter().position(|it| *it == b'\n');
        let text = end.and_then(|at| bytes.get(..at)).unwrap_or(bytes);
        let ends = text.last().map_or(self.may_end, |it| *it == b'\r');
        if matches!(
            self.sort,
            b'$' | b'*' | b'%' | b'>' | b'~' | b'|' | b'!' | b'='
        ) {
            for byte in text {
                self.count(*byte);
            }
        }
        self.may_end = end.is_none() && ends;
        (end.map_or(bytes.len(), |at| at + 1), end.is_some() && ends)
    }

    fn count(&mut self, byte: u8) {
        match (byte, self.number) {
            (b'0'..=b'9', Some(number)) => {
                let more = |it: u64| it.checked_add(u64::from(byte - b'0'));
                self.number = number.checked_mul(10).and_then(more);
            }
            (b'-', Some(0)) if !self.is_negative => self.is_negative = true,
            (b'\r', _) => {}
            _ => self.number = None,
        }
    }
}

#[cfg(test)]
mod tests;
