//! What the values of arguments may be: keys, patterns, durations and numbers, each parsed once, with
//! an error that says what to write.
//!
//! Keys and durations are checked by the library's own grammar. Invariant: a text that was probably
//! meant otherwise is refused, never taken for something that matches nothing.

use std::time::Duration;

use dlock_grammar::key;
use dlock_runtime::Wait;

use crate::table::visible;

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    dlock_grammar::duration::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "forever" => Ok(Wait::Forever),
        text => duration(text).map(Wait::from),
    }
}

/// Any key, also one that looks like a template: what exists may have been named so.
pub(crate) fn key(text: &str) -> Result<String, String> {
    key::check(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// A key that a person writes for a lock to come, so a placeholder in it is one that was forgotten.
pub(crate) fn written_key(text: &str) -> Result<String, String> {
    if let Some(name) = key::placeholder(text) {
        let name = visible(name);
        return Err(format!(
            "<{name}> looks like a placeholder, and would be one lock for all values: write the value itself, such as \"item:7\""
        ));
    }
    key(text)
}

/// A pattern as the library reads it, without what it would let match nothing.
pub(crate) fn pattern(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the pattern is empty, and matches no key: `*` is every lock".to_owned());
    }
    let lone = || "a `\\` at the end escapes nothing: write `\\\\` for the character".to_owned();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next().ok_or_else(lone)?),
            '[' => class(&mut rest)?,
            _ => {}
        }
    }
    Ok(text.to_owned())
}

/// The rest of a class, up to its `]`.
fn class(rest: &mut std::str::Chars<'_>) -> Result<(), String> {
    let mut is_empty = true;
    loop {
        match rest.next() {
            Some(']') if is_empty => {
                return Err("`[]` matches no character: name some, such as `[a-c]`".to_owned());
            }
            Some(']') => return Ok(()),
            Some('^') if is_empty => continue,
            Some('\\') if rest.next().is_some() => {}
            Some('\\') | None => {
                return Err(
                    "a `[` without its `]`: close it, or write `\\[` for the character".to_owned(),
                );
            }
            Some(_) => {}
        }
        is_empty = false;
    }
}

/// A number of locks.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "write a whole number of at least 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{count, key, pattern, written_key};

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        for text in ["*", "item:[0-9]", "[^a]", r"a\[", r"[\]]", r"\\", "]", "a^"] {
            assert_eq!(pattern(text).as_deref(), Ok(text));
        }
        for (text, why) in [
            ("", "`*` is every lock"),
            ("[", "without its `]`"),
            ("item:[a-", "without its `]`"),
            (r"[\", "without its `]`"),
            (r"[a\]", "without its `]`"),
            (r"a\", "escapes nothing"),
            ("[]", "matches no character"),
            ("[^]", "matches no character"),
        ] {
            let said = pattern(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn a_placeholder_is_no_key_to_be() {
        assert!(key("item:<id>").is_ok());
        for text in ["item:<id>", "<user id>", "a<b>c"] {
            let said = written_key(text).unwrap_err();
            assert!(said.contains("write the value itself"), "{said}");
        }
        for text in ["item:7", "a<7>", "a<", "b>a", "1<x"] {
            assert_eq!(written_key(text).as_deref(), Ok(text));
        }
        assert!(written_key("").unwrap_err().contains("the key is empty"));
    }

    #[test]
    fn nothing_is_no_count() {
        assert_eq!(count("1"), Ok(1));
        for text in ["0", "-1", "x", "", "1.5"] {
            assert!(count(text).unwrap_err().contains("at least 1"), "{text}");
        }
    }
}
