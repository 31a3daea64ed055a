//! What a process says of itself in an entry: who it is and what it is about, for people to read.
//!
//! Invariant: what is written holds no `|`, and nothing that is not printable.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use super::shown::{NAME_AT_MOST, shown, to_be_shown};
use super::ttl;

/// Room for the numbers of a description and what divides its parts.
const NUMBERS_AT_MOST: usize = 3 + 10 + 20;

/// What others are told of a holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) host: &'a str,
    pub(crate) pid: &'a str,
    pub(crate) function: &'a str,
    pub(crate) since: SystemTime,
}

impl About<'_> {
    pub(super) fn room(&self) -> usize {
        self.host.len() + self.function.len() + NUMBERS_AT_MOST
    }

    /// `host|pid|function|since ms`.
    pub(super) fn write(&self, out: &mut String) {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        escape(&shown(self.host, NAME_AT_MOST), out);
        out.push('|');
        out.push_str(self.pid);
        out.push('|');
        escape(&shown(self.function, NAME_AT_MOST), out);
        let _ = write!(out, "|{}", ttl::millis(since)); // a String takes everything
    }
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

/// A name that was escaped, as it may be printed.
pub(super) fn name(text: &str) -> Option<String> {
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
