//! What a process says of itself in an entry: who it is and what it is about, for people to read.
//!
//! Invariant: what is written holds no `|`, and nothing that is not printable.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use super::shown::{NAME_AT_MOST, shown, to_be_shown};
use super::ttl;

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
    pub(super) fn write(&self, out: &mut String) {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        write_name(self.host, out);
        out.push('|');
        out.push_str(self.pid);
        out.push('|');
        write_name(self.function, out);
        out.push('|');
        out.push_str(itoa::Buffer::new().format(ttl::millis(since)));
    }
}

/// [`escape`] of what may be printed of it.
fn write_name(name: &str, out: &mut String) {
    if name.len() <= NAME_AT_MOST && is_plain(name) {
        return out.push_str(name); // as nearly always
    }
    escape(&shown(name, NAME_AT_MOST), out);
}

/// Whether it stays as it is. No branch for a byte, so that the compiler looks at many at once.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .fold(true, |all, byte| all & is_plain_byte(byte))
}

fn is_plain_byte(byte: u8) -> bool {
    matches!(byte, b'!'..=b'$' | b'&'..=b'{' | b'}' | b'~') // graphic, but for `%` and `|`
}

/// Keeps printable ASCII as it is, so that `redis-cli GET` can be read; the rest becomes `%XX`, and so do `|` and `%`.
pub(crate) fn escape(text: &str, out: &mut String) {
    if is_plain(text) {
        return out.push_str(text);
    }
    for byte in text.bytes() {
        if is_plain_byte(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}"); // a String takes everything
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
