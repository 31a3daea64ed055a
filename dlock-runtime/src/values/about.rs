//! What a process says about itself in an entry, for people to read: host, pid, function, since
//! when.
//!
//! Nothing is decided by it. Invariant: the written text has no `|` in a field and no unprintable
//! character.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use super::shown::{NAME_AT_MOST, shown, to_be_shown};
use super::ttl;

/// The description of a holder, for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) host: &'a WrittenName,
    pub(crate) pid: &'a str,
    pub(crate) function: &'a str,
    pub(crate) since: SystemTime,
}

/// A name as an entry has it. Written once, where it is the same in every entry.
#[derive(Clone, Debug)]
pub(crate) struct WrittenName(String);

impl WrittenName {
    pub(crate) fn of(name: &str) -> Self {
        let mut written = String::new();
        write_name(name, &mut written);
        Self(written)
    }
}

impl About<'_> {
    /// `host|pid|function|since ms`.
    pub(super) fn write(&self, out: &mut String) {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        out.push_str(&self.host.0);
        out.push('|');
        out.push_str(self.pid);
        out.push('|');
        write_name(self.function, out);
        out.push('|');
        out.push_str(itoa::Buffer::new().format(ttl::millis(since)));
    }
}

/// Writes [`escape`] of the printable form of a name.
fn write_name(name: &str, out: &mut String) {
    if name.len() <= NAME_AT_MOST && is_plain(name) {
        return out.push_str(name); // usual
    }
    escape(&shown(name, NAME_AT_MOST), out);
}

/// Whether the text needs no escaping. Without a branch per byte, so that the compiler vectorizes
/// it.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .fold(true, |all, byte| all & is_plain_byte(byte))
}

fn is_plain_byte(byte: u8) -> bool {
    matches!(byte, b'!'..=b'$' | b'&'..=b'{' | b'}' | b'~') // graphic, except `%` and `|`
}

/// Keeps printable ASCII as it is, so that people can read `redis-cli GET`; all other bytes, `|`
/// and `%` become `%XX`.
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

/// The printable form of an escaped name.
pub(super) fn name(text: &str) -> Option<String> {
    Some(to_be_shown(unescape(text)?, NAME_AT_MOST))
}

/// The same for text that may not be escaped rightly: then it is shown as it stands.
pub(super) fn shown_name(text: &str) -> String {
    name(text).unwrap_or_else(|| to_be_shown(text.to_owned(), NAME_AT_MOST))
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
