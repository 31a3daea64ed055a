//! Makes text from outside printable: on one line, without control or invisible characters, and of
//! bounded length.
//!
//! Clients that may write to the server choose the holder's name, the owner and the words of a
//! kind, and a server chooses the text of its errors. All of that passes through here before it
//! reaches a `Display`, a `Debug`, a getter or the log. Invariant: printable text is not changed,
//! so a text may pass twice.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use dlock_grammar::visible::{first_hidden, push_escaped};

/// The most bytes of a name: a host's, a function's, an owner's.
pub(crate) const NAME_AT_MOST: usize = 255;

/// The most bytes of an invalid key: it may be anything, and the reason follows it.
pub(crate) const KEY_AT_MOST: usize = 80;

/// The most bytes of a server's message.
pub(crate) const WORDS_AT_MOST: usize = 512;

/// The most bytes of any text of an error: enough for a list of all wrong settings.
pub(crate) const TEXT_AT_MOST: usize = 4096;

/// Room for the note about what was cut off.
const ABOUT_THE_REST: usize = 40;

/// The printable text, in `at_most` bytes: invisible characters are escaped as in Rust, `\u{1b}`,
/// and the bytes that are cut off are counted.
pub(crate) fn shown(text: &str, at_most: usize) -> Cow<'_, str> {
    if text.len() <= at_most && first_hidden(text).is_none() {
        return Cow::Borrowed(text); // usual
    }
    let mut shown = String::with_capacity(text.len().min(at_most));
    let mut fits = 0; // this much of `shown` leaves room for the note
    let mut cut = 0; // how much of `text` that is
    for (at, c) in text.char_indices() {
        if shown.len() <= at_most.saturating_sub(ABOUT_THE_REST) {
            (fits, cut) = (shown.len(), at);
        }
        push_escaped(&mut shown, c);
        if shown.len() > at_most {
            shown.truncate(fits);
            // A String takes everything.
            let _ = write!(shown, "… ({} more bytes)", text.len() - cut);
            break;
        }
    }
    Cow::Owned(shown)
}

/// [`shown`], in quotes.
pub(crate) fn quoted(text: &str, at_most: usize) -> String {
    match shown(text, at_most) {
        Cow::Borrowed(text) => format!("{text:?}"),
        Cow::Owned(escaped) => format!("\"{escaped}\""),
    }
}

/// [`shown`], for a text that is kept.
pub(crate) fn to_be_shown(text: String, at_most: usize) -> String {
    match shown(&text, at_most) {
        Cow::Owned(shown) => shown,
        Cow::Borrowed(_) => text,
    }
}

/// A time in a message, in whole milliseconds.
pub(crate) fn rounded(time: Duration) -> Duration {
    let millis = (time + Duration::from_micros(500)).as_millis();
    match u64::try_from(millis) {
        Ok(0) | Err(_) => time,
        Ok(millis) => Duration::from_millis(millis),
    }
}
