//! What a key may look like, and the encoding that keeps a value from forging one.
//!
//! A key is text by the programmer with values in it. The text may hold one hash tag `{…}`.
//! Invariant: no encoded value has a separator, a brace or an `@`, so different values give
//! different keys.

use std::fmt;

use crate::visible::first_hidden;

/// The longest key in bytes, the pool's namespace included.
pub const MAX_KEY_BYTES: usize = 512;

/// Checks a whole key, without the namespace in front.
///
/// # Errors
///
/// [`KeyError`] for a key that is empty or longer than [`MAX_KEY_BYTES`], begins with `@` (reserved
/// for dlock's own keys), is named like one of dlock's own keys in a longer namespace, holds an
/// invisible character (see [`is_visible`](crate::visible::is_visible)), or has braces that are not
/// exactly one non-empty `{tag}`.
///
/// # Examples
///
/// ```
/// use dlock_grammar::key::{KeyError, check};
///
/// assert_eq!(check("order:{7}:pay"), Ok(()));
/// assert_eq!(check("order:{7"), Err(KeyError::LoneBrace { at: 6 }));
/// ```
pub fn check(key: &str) -> Result<(), KeyError> {
    if key.is_empty() {
        return Err(KeyError::Empty);
    }
    if key.starts_with('@') {
        return Err(KeyError::Reserved);
    }
    if let Some(at) = first_hidden(key) {
        return Err(KeyError::Hidden { at });
    }
    check_tag(key)?;
    check_companion(key)?;
    check_len(key.len())
}

/// Refuses names that a longer namespace has for dlock's own keys. With `shop:` in front of the
/// `@`, these are the keys of the namespace `<ours>shop:` for its counter, its quorum, its counters
/// by hash slot and those of a lock's named slots (the latter kept for a later version), and for
/// the queue, the hints and the record of a key without and with a hash tag. A namespace has neither
/// braces nor an `@`.
fn check_companion(key: &str) -> Result<(), KeyError> {
    if !key
        .bytes()
        .fold(false, |any, byte| any | matches!(byte, b'@'))
    {
        return Ok(()); // usual, and found out faster than by `split_once`
    }
    let Some((namespace, name)) = key.split_once('@') else {
        return Ok(());
    };
    let in_braces =
        |rest: Option<&str>| rest.is_some_and(|it| it.starts_with('{') && it.ends_with('}'));
    let is_ours = ["fence", "quorum"].contains(&name)
        || ["fence:", "w:", "a:", "h:", "r:", "s:"]
            .iter()
            .any(|it| in_braces(name.strip_prefix(it)))
        || ["w#", "a#", "h#", "r#", "s#"]
            .iter()
            .any(|it| name.strip_prefix(it).is_some_and(|bare| bare.contains('{')));
    if is_ours && !namespace.contains('{') {
        return Err(KeyError::Companion {
            at: namespace.len(),
        });
    }
    Ok(())
}

/// The first part of a text in angle brackets that was probably meant as a placeholder of a template.
///
/// It is if it begins like a name, even if it is none: `<user id>` was meant as one too.
///
/// # Examples
///
/// ```
/// use dlock_grammar::key::placeholder;
///
/// assert_eq!(placeholder("item:<id>"), Some("id"));
/// assert_eq!(placeholder("a<7>"), None);
/// ```
#[must_use]
pub fn placeholder(text: &str) -> Option<&str> {
    let opened = text.split('<').skip(1);
    let mut places = opened.filter_map(|rest| Some(rest.split_once('>')?.0));
    places.find(|place| place.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}

/// Checks the length in bytes of a key with its namespace.
///
/// # Errors
///
/// [`KeyError::TooLong`].
pub fn check_len(bytes: usize) -> Result<(), KeyError> {
    if bytes > MAX_KEY_BYTES {
        Err(KeyError::TooLong { bytes })
    } else {
        Ok(())
    }
}

/// At most one `{tag}`: Redis Cluster hashes the text between the first `{` and the next `}`, and
/// the whole key if that is empty. With other braces, keys that belong together would silently land
/// on different nodes.
fn check_tag(key: &str) -> Result<(), KeyError> {
    let is_brace = |any: bool, byte: u8| any | matches!(byte, b'{' | b'}');
    if !key.bytes().fold(false, is_brace) {
        return Ok(());
    }
    let mut open: Option<usize> = None;
    let mut closed = false;
    for (at, byte) in key.bytes().enumerate() {
        match (byte, open) {
            (b'{', Some(_)) => return Err(KeyError::NestedTag { at }),
            (b'{', None) if closed => return Err(KeyError::SecondTag { at }),
            (b'{', None) => open = Some(at),
            (b'}', Some(start)) if start + 1 == at => return Err(KeyError::EmptyTag { at: start }),
            (b'}', Some(_)) => (open, closed) = (None, true),
            (b'}', None) => return Err(KeyError::LoneBrace { at }),
            _ => {}
        }
    }
    match open {
        Some(at) => Err(KeyError::LoneBrace { at }),
        None => Ok(()),
    }
}

/// Why a text is no key; its `Display` says what to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The key is empty.
    Empty,
    /// It begins with `@`.
    Reserved,
    /// It is named like the queue or the counter of a longer namespace: `…@fence`, `…@w:{…}`.
    Companion {
        /// Where the `@` is, in bytes.
        at: usize,
    },
    /// It holds an invisible character: a control character, a line separator, or one that hides or
    /// reorders text.
    Hidden {
        /// Where, in bytes.
        at: usize,
    },
    /// A `{` that is never closed or a `}` that was never opened.
    LoneBrace {
        /// Where, in bytes.
        at: usize,
    },
    /// A `{` inside a tag.
    NestedTag {
        /// Where, in bytes.
        at: usize,
    },
    /// A `{` after a closed tag.
    SecondTag {
        /// Where, in bytes.
        at: usize,
    },
    /// `{}`.
    EmptyTag {
        /// Where it opens, in bytes.
        at: usize,
    },
    /// More than [`MAX_KEY_BYTES`].
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

impl KeyError {
    /// Where in the key the fault begins, in bytes, if it has a position.
    #[must_use]
    pub fn at(self) -> Option<usize> {
        match self {
            Self::Empty | Self::TooLong { .. } => None,
            Self::Reserved => Some(0),
            Self::Companion { at }
            | Self::Hidden { at }
            | Self::LoneBrace { at }
            | Self::NestedTag { at }
            | Self::SecondTag { at }
            | Self::EmptyTag { at } => Some(at),
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the key is empty: name what is locked, such as \"item:7\"",
            Self::Reserved => "a key must not begin with `@`: such names are for the lock's own keys, so begin it with another character",
            Self::Companion { .. } => "such a name is kept for the queues and counters of a longer namespace: leave out the `@`, or write another word behind it",
            Self::Hidden { .. } => "a key must not contain control characters or others that nobody sees: use printable text, or a template, which encodes its values",
            Self::LoneBrace { .. } => "braces in a key are the cluster's hash tag and come in a pair: write `{tag}` or no brace",
            Self::NestedTag { .. } => "a hash tag must not contain `{`: write one `{tag}`",
            Self::SecondTag { .. } => "a key has at most one hash tag: keep the one that the cluster shall place the key by, without braces elsewhere",
            Self::EmptyTag { .. } => "the hash tag is empty, so the cluster would ignore it: put text or a value such as `<id>` between `{` and `}`",
            Self::TooLong { bytes } => {
                return write!(
                    f,
                    "the key has {bytes} bytes, namespace included, and at most {MAX_KEY_BYTES} are allowed: hash the long part"
                );
            }
        })
    }
}

impl std::error::Error for KeyError {}

/// Appends a value to a key: `[A-Za-z0-9_.-]` stay, every other byte of its UTF-8 becomes `%XX`.
///
/// Injective: two values are encoded alike only if they are equal. An empty value appends nothing.
///
/// # Examples
///
/// ```
/// let mut key = String::from("item:");
/// dlock_grammar::key::encode("a:{1}", &mut key);
/// assert_eq!(key, "item:a%3A%7B1%7D");
/// ```
pub fn encode(value: &str, out: &mut String) {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    let hex = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or('0');
    for byte in value.bytes() {
        let plain = char::from(byte);
        if is_plain(plain) {
            out.push(plain);
        } else {
            out.extend(['%', hex(byte >> 4), hex(byte & 0xf)]);
        }
    }
}

/// Whether a character stays as it is when a value is encoded.
#[must_use]
pub fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Whether a character of the template separates two values: no encoded value can contain it.
#[must_use]
pub fn is_separator(c: char) -> bool {
    !is_plain(c) && c != '%'
}

/// [`encode`] as a writer, so that a `Display` value needs no `String` of its own.
///
/// # Examples
///
/// ```
/// use std::fmt::Write as _;
/// use dlock_grammar::key::Encoder;
///
/// let mut key = String::from("at:");
/// write!(Encoder(&mut key), "{}", std::net::Ipv6Addr::LOCALHOST).unwrap();
/// assert_eq!(key, "at:%3A%3A1");
/// ```
#[derive(Debug)]
pub struct Encoder<'a>(
    /// The key so far.
    pub &'a mut String,
);

impl fmt::Write for Encoder<'_> {
    fn write_str(&mut self, value: &str) -> fmt::Result {
        encode(value, self.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
