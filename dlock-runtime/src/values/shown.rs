//! Text that somebody else wrote, as it may be printed: on one line, without a character that a terminal obeys or that
//! nobody sees, and not without end.
//!
//! Whoever may write to the server chooses the holder's name, the owner and the words of a kind, and a server the text of its
//! errors. All of that comes through here before it reaches a `Display`, a `Debug`, a getter or the log.
//! Text that is fit to be printed stays the same, so that it may come through twice.

use std::borrow::Cow;
use std::fmt::Write as _;

use dlock_grammar::visible::{first_hidden, is_visible};

/// The most bytes of a name: a host's, a function's, an owner's.
pub(crate) const NAME_AT_MOST: usize = 255;

/// The most bytes of a key that can be none: it may be anything, and what is wrong with it stands behind it.
pub(crate) const KEY_AT_MOST: usize = 80;

/// The most bytes of what a server says.
pub(crate) const WORDS_AT_MOST: usize = 512;

/// The most bytes of any text of an error: a list of all settings that are wrong has room in it.
pub(crate) const TEXT_AT_MOST: usize = 4096;

/// Room for the words about what was cut off.
const ABOUT_THE_REST: usize = 40;

/// The text as it may be printed, in `at_most` bytes: other characters are written as in Rust, `\u{1b}`, and what is cut off is counted.
pub(crate) fn shown(text: &str, at_most: usize) -> Cow<'_, str> {
    if text.len() <= at_most && first_hidden(text).is_none() {
        return Cow::Borrowed(text); // as nearly always
    }
    let mut shown = String::with_capacity(text.len().min(at_most));
    let mut fits = 0; // so much of `shown` leaves room to say that there is more
    let mut cut = 0; // what that shows of `text`
    for (at, c) in text.char_indices() {
        if shown.len() <= at_most.saturating_sub(ABOUT_THE_REST) {
            (fits, cut) = (shown.len(), at);
        }
        if is_visible(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_default());
        }
        if shown.len() > at_most {
            shown.truncate(fits);
            let _ = write!(shown, "… ({} more bytes)", text.len() - cut); // a String takes everything
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
