//! Who holds a lock: the value that stands at its key, written by us and read by everybody.
//!
//! Layout 1: `1|<token>|<host>|<pid>|<function>|<since ms>`. It is sent and compared whole; the token
//! makes it unique, the rest is for whoever wonders who holds the lock. Reading never shows a token.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::entry;
use super::shown::{NAME_AT_MOST, shown, to_be_shown};
use super::token::{Token, WIRE_AT_MOST};
use super::ttl;

/// The layout that this version writes, and the only one that it reads.
const LAYOUT: &str = "1";

/// Room for the numbers of a description and what divides its parts.
const NUMBERS_AT_MOST: usize = 3 + 10 + 20;

/// Who holds a lock, as far as its value tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A process that uses dlock.
    Process(Process),
    /// Something that keeps the same convention (`SET key token NX PX …`) but says no more:
    /// redis-py, redsync, node-redlock, a script.
    Foreign,
}

/// A process that uses dlock, as it described itself when it took the lock.
///
/// Whoever may write to the server can describe itself as it likes. So both names are fit to be printed: at most 255 bytes,
/// and what nobody sees (control characters, line separators, text from right to left) is escaped as in Rust, `\u{1b}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process(Arc<Description>);

#[derive(Debug, PartialEq, Eq)]
struct Description {
    host: String,
    pid: u32,
    function: String,
    since: SystemTime,
    is_this_process: bool,
}

impl Process {
    /// The host's name, or what `holder_name` was set to.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// The process id on that host.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// The annotated function (`shop::purchase`), or `file:line` of a [`LockPool::lock`](crate::LockPool::lock).
    ///
    /// Where several of a process waited, that of whoever asked first for the place in the queue.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.0.function
    }

    /// When it asked for the lock, by its own wall clock; for a lock that was waited for, when the wait began.
    #[must_use]
    pub fn since(&self) -> SystemTime {
        self.0.since
    }

    /// Whether it is the process that asks.
    #[must_use]
    pub fn is_this_process(&self) -> bool {
        self.0.is_this_process
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Process(Process(it)) if it.is_this_process => {
                write!(f, "{} of this process", it.function)
            }
            Holder::Process(Process(it)) => {
                write!(f, "{} of process {} on {}", it.function, it.pid, it.host)
            }
            Holder::Foreign => f.write_str("a program that does not use dlock"),
        }
    }
}

/// What a lock's value says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Holder(Holder),
    /// Written by a dlock of another layout: its rules are not known here.
    UnknownLayout,
}

/// What others are told of a holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) host: &'a str,
    pub(crate) pid: &'a str,
    pub(crate) function: &'a str,
    pub(crate) since: SystemTime,
}

impl About<'_> {
    /// `host|pid|function|since ms`.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.room());
        self.write(&mut text);
        text
    }

    fn room(&self) -> usize {
        self.host.len() + self.function.len() + NUMBERS_AT_MOST
    }

    fn write(&self, out: &mut String) {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        escape(&shown(self.host, NAME_AT_MOST), out);
        out.push('|');
        out.push_str(self.pid);
        out.push('|');
        escape(&shown(self.function, NAME_AT_MOST), out);
        let _ = write!(out, "|{}", ttl::millis(since)); // a String takes everything
    }
}

/// The value of one attempt at an exclusive lock: what is SET at the key if it wins.
pub(crate) fn write(token: Token, about: &About<'_>) -> String {
    let room = LAYOUT.len() + WIRE_AT_MOST + 2 + about.room();
    let mut value = String::with_capacity(room);
    value.push_str(LAYOUT);
    value.push('|');
    token.write_wire(&mut value);
    value.push('|');
    about.write(&mut value);
    value
}

/// Reads whatever stands at a lock's key.
pub(crate) fn read(value: &str) -> Reading {
    if is_other_layout(value) {
        return Reading::UnknownLayout;
    }
    Reading::Holder(
        parse(value).map_or(Holder::Foreign, |it| Holder::Process(Process(Arc::new(it)))),
    )
}

/// The token in a value or an entry, as it stands there.
pub(crate) fn token_in(value: &str) -> Option<&str> {
    token_and_description(value).map(|(token, _)| token)
}

fn token_and_description(value: &str) -> Option<(&str, &str)> {
    let exclusive = || {
        value
            .strip_prefix(LAYOUT)?
            .strip_prefix('|')?
            .split_once('|')
    };
    let entry = || entry::read(value).map(|entry| (entry.token, entry.description));
    exclusive().or_else(entry)
}

/// A number, a bar, and the number is not ours.
pub(crate) fn is_other_layout(value: &str) -> bool {
    value.split_once('|').is_some_and(|(layout, _)| {
        layout != LAYOUT && !layout.is_empty() && layout.bytes().all(|b| b.is_ascii_digit())
    })
}

fn parse(value: &str) -> Option<Description> {
    let (token, description) = token_and_description(value)?;
    let mut fields = description.split('|');
    let (host, pid) = (name(fields.next()?)?, fields.next()?.parse().ok()?);
    let (function, since) = (name(fields.next()?)?, fields.next()?.parse().ok()?);
    if fields.next().is_some() {
        return None;
    }
    Some(Description {
        host,
        pid,
        function,
        since: UNIX_EPOCH.checked_add(Duration::from_millis(since))?,
        // A dash in front: kept for `min_hold` after its holder had done.
        is_this_process: Token::is_of_this_process(token.trim_start_matches('-')),
    })
}

/// Keeps printable ASCII as it is, so that `redis-cli GET` can be read; the rest becomes `%XX`, and so do `|` and `%`.
pub(crate) fn escape(text: &str, out: &mut String) {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'|' && byte != b'%';
    if text.bytes().all(is_plain) {
        return out.push_str(text); // as nearly always
    }
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// A name as it may be printed.
fn name(text: &str) -> Option<String> {
    Some(to_be_shown(unescape(text)?, NAME_AT_MOST))
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
