//! What the values of arguments may be: keys, patterns, durations and numbers, each parsed once, with
//! an error that says what to write.
//!
//! Keys and durations are checked by the library's own grammar. Invariant: a text that was probably
//! meant otherwise is refused, never taken for something that matches nothing.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use dlock_grammar::key;
use dlock_runtime::{AfterCrash, Wait};

use crate::status::Failure;
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

/// What becomes of a job whose run crashed.
pub(crate) fn after_crash() -> impl TypedValueParser<Value = AfterCrash> {
    PossibleValuesParser::new(["again", "skip"]).map(|word| match word.as_str() {
        "skip" => AfterCrash::Skip,
        _ => AfterCrash::Again,
    })
}

/// Any key; [`Verbatim`] refuses what was probably meant otherwise.
pub(crate) fn key(text: &str) -> Result<String, String> {
    key::check(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// Whether a key or a pattern counts as it is written.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Verbatim {
    /// Take the key as it is, even if it begins with the namespace or looks like a template
    #[arg(long)]
    verbatim: bool,
}

impl Verbatim {
    /// Refuses a key or pattern that begins with the namespace, as on the server: with another
    /// namespace in front it would be another lock.
    pub(crate) fn check(self, text: &str, namespace: &str) -> Result<(), Failure> {
        let Some(rest) = text.strip_prefix(namespace) else {
            return Ok(());
        };
        if self.verbatim || namespace.is_empty() {
            return Ok(());
        }
        let instead = if rest.is_empty() {
            "add `--verbatim` if it is the key itself".to_owned()
        } else {
            format!(
                "if {text:?} is the name on the server, write {rest:?}; if it is the key itself, add `--verbatim`"
            )
        };
        Err(Failure::usage(format!(
            "{text:?} begins with the namespace {namespace:?}, which stands in front of every key and is left out here: {instead}"
        )))
    }

    /// The command that shows this key, to be typed as it is.
    pub(crate) fn show_command(self, key: &str) -> String {
        let is_plain = |c: char| c.is_alphanumeric() || "_-:./@%+,=".contains(c);
        let word = match visible(key) {
            key if key.chars().all(is_plain) => key,
            key => format!("'{}'", key.replace('\'', r"'\''")),
        };
        let verbatim = if self.verbatim { " --verbatim" } else { "" };
        let dashes = if key.starts_with('-') { " --" } else { "" };
        format!("`dlock show{verbatim}{dashes} {word}`")
    }

    /// As `check`, for one key: a placeholder in it is one that was forgotten.
    pub(crate) fn check_key(self, key: &str, namespace: &str) -> Result<(), Failure> {
        self.check(key, namespace)?;
        match key::placeholder(key).filter(|_| !self.verbatim) {
            None => Ok(()),
            Some(name) => Err(Failure::usage(format!(
                "<{name}> looks like a placeholder, and would be one lock for all values: write the value itself, such as \"item:7\", or add `--verbatim` if it is what you mean"
            ))),
        }
    }
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
    use super::{Verbatim, count, key, pattern};

    #[test]
    fn a_command_in_a_message_can_be_typed() {
        for (verbatim, key, command) in [
            (false, "item:7", "`dlock show item:7`"),
            (true, "lock:v", "`dlock show --verbatim lock:v`"),
            (false, "my job", "`dlock show 'my job'`"),
            (false, "a$HOME;b", "`dlock show 'a$HOME;b'`"),
            (false, "it's", r"`dlock show 'it'\''s'`"),
            (true, "-x", "`dlock show --verbatim -- -x`"),
        ] {
            assert_eq!(Verbatim { verbatim }.show_command(key), command);
        }
    }

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
    fn a_key_that_was_probably_meant_otherwise_is_refused_unless_verbatim() {
        let said = |verbatim, text, namespace| {
            let checked = Verbatim { verbatim }.check_key(text, namespace);
            checked.map_err(|failure| failure.message.unwrap_or_default())
        };
        for (text, namespace, instead) in [
            ("item:<id>", "lock:", "write the value itself"),
            ("<user id>", "lock:", "write the value itself"),
            ("a<b>c", "lock:", "write the value itself"),
            ("lock:item:7", "lock:", "write \"item:7\";"),
            (
                "lock:",
                "lock:",
                "left out here: add `--verbatim` if it is the key itself",
            ),
            ("lock:lock:7", "lock:", "write \"lock:7\""),
            ("eu/x", "eu/", "write \"x\";"),
            ("product", "prod", "if it is the key itself, add"),
        ] {
            let refused = said(false, text, namespace).unwrap_err();
            assert!(refused.contains(instead), "{refused}");
            assert_eq!(said(true, text, namespace), Ok(()));
        }
        for (text, namespace) in [
            ("item:7", "lock:"),
            ("lock", "lock:"),
            ("Lock:7", "lock:"),
            ("lock:7", ""),
            ("lock:7", "eu:lock:"),
            ("a<7>", ""),
            ("a<", ""),
            ("b>a", ""),
            ("1<x", ""),
        ] {
            assert_eq!(said(false, text, namespace), Ok(()), "{text}");
        }
        assert!(key("").unwrap_err().contains("the key is empty"));
    }

    #[test]
    fn nothing_is_no_count() {
        assert_eq!(count("1"), Ok(1));
        for text in ["0", "-1", "x", "", "1.5"] {
            assert!(count(text).unwrap_err().contains("at least 1"), "{text}");
        }
    }
}
