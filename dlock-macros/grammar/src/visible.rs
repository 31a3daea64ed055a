//! Which characters a reader can see, and which change a line invisibly.
//!
//! Terminals obey control characters, log shippers split at line separators, and characters that
//! reorder or hide text make one name look like another. So no key contains such a character, and
//! none is printed unescaped.

/// Whether a character can be printed as it is.
///
/// Invisible are: control characters (C0, DEL, C1), line and paragraph separators, characters that
/// order text from right to left, and everything that Unicode calls default ignorable (zero-width
/// characters, the byte order mark, fillers, tags) except variation selectors beside emoji.
///
/// # Examples
///
/// ```
/// use dlock_grammar::visible::is_visible;
///
/// assert!("order:7 é 日本 ❤\u{fe0f}".chars().all(is_visible));
/// assert!(!is_visible('\u{1b}') && !is_visible('\u{2028}') && !is_visible('\u{202e}'));
/// ```
#[must_use]
pub fn is_visible(c: char) -> bool {
    // The usual case, quicker than the table.
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let is_hidden = c.is_control() || HIDDEN.iter().any(|(from, to)| (*from..=*to).contains(&c));
    !is_hidden
}

/// The position in bytes of the first character that can't be printed as it is: [`is_visible`] for
/// a whole text.
///
/// # Examples
///
/// ```
/// use dlock_grammar::visible::first_hidden;
///
/// assert_eq!(first_hidden("order:7 é"), None);
/// assert_eq!(first_hidden("é\u{200b}"), Some(2));
/// ```
#[must_use]
pub fn first_hidden(text: &str) -> Option<usize> {
    // The usual case. Without a branch per byte, so that the compiler vectorizes it.
    let is_printable = |all: bool, byte: u8| all & matches!(byte, b' '..=b'~');
    if text.bytes().fold(true, is_printable) {
        return None;
    }
    let mut chars = text.char_indices();
    chars.find(|(_, c)| !is_visible(*c)).map(|(at, _)| at)
}

/// Appends a character, escaped as in Rust (`\u{1b}`) unless [`is_visible`].
///
/// # Examples
///
/// ```
/// use dlock_grammar::visible::push_escaped;
///
/// let mut shown = String::new();
/// "a\u{1b}é\n".chars().for_each(|c| push_escaped(&mut shown, c));
/// assert_eq!(shown, r"a\u{1b}é\n");
/// ```
pub fn push_escaped(shown: &mut String, c: char) {
    if is_visible(c) {
        shown.push(c);
    } else {
        shown.extend(c.escape_default());
    }
}

/// `Default_Ignorable_Code_Point` of Unicode 16 (without U+FE00 to U+FE0F), line separators, and
/// interlinear annotations.
const HIDDEN: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];
