//! Durations as people write them: unsigned integers with `ms s m h d`, the largest unit first,
//! each once.
//!
//! Invariant: no spaces, signs or fractions, so that a text has one meaning and an error can say
//! what to write.

use std::{fmt, time::Duration};

/// Unit and its length in milliseconds, largest first: [`parse`] demands this order and [`format`]
/// writes it.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Parses a duration such as `10s`, `250ms` or `1m30s`.
///
/// # Errors
///
/// [`DurationError`], whose text says what to write.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use dlock_grammar::duration::parse;
///
/// assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
/// assert_eq!(parse("10").unwrap_err().to_string(), "duration \"10\" needs a unit, ms, s, m, h or d: write \"10s\"");
/// ```
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let fail = |fault| {
        Err(DurationError {
            text: text.to_owned(),
            fault,
        })
    };
    if text.is_empty() {
        return fail(Fault::Empty);
    }
    if let Some(other) = text.chars().find(|c| !c.is_ascii_alphanumeric()) {
        return fail(Fault::Character(other));
    }
    let mut total: u64 = 0;
    let mut smaller = UNITS.as_slice();
    let mut ordered = true;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit());
        let (unit, after) = split_while(after, |c| c.is_ascii_alphabetic());
        rest = after;
        if number.is_empty() {
            return fail(Fault::NoNumber);
        }
        if unit.is_empty() {
            return fail(Fault::NoUnit);
        }
        let Some((_, millis)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return fail(Fault::UnknownUnit(unit.to_owned()));
        };
        match smaller.iter().position(|(name, _)| *name == unit) {
            Some(position) => smaller = smaller.get(position + 1..).unwrap_or_default(),
            None => ordered = false,
        }
        // The number has only digits, so it fails to parse only if it is too large.
        let sum = number
            .parse()
            .ok()
            .and_then(|n: u64| n.checked_mul(*millis))
            .and_then(|ms| total.checked_add(ms));
        match sum {
            Some(sum) => total = sum,
            None => return fail(Fault::Overflow),
        }
    }
    let total = Duration::from_millis(total);
    if ordered {
        Ok(total)
    } else {
        fail(Fault::Order(total))
    }
}

/// Writes a duration in the notation that [`parse`] reads: `1m30s`; zero is `0s`.
///
/// Anything finer than a millisecond is cut off.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(dlock_grammar::duration::format(Duration::from_millis(90_500)), "1m30s500ms");
/// ```
#[must_use]
pub fn format(duration: Duration) -> String {
    format_in(&UNITS, duration)
}

/// The same in hours, as the limits are written that it is compared with: `48h`.
pub(crate) fn format_in_hours(duration: Duration) -> String {
    format_in(UNITS.get(1..).unwrap_or_default(), duration)
}

fn format_in(units: &[(&str, u64)], duration: Duration) -> String {
    let mut millis = duration.as_millis();
    let mut text = String::new();
    for (name, length) in units {
        let count = millis / u128::from(*length);
        millis %= u128::from(*length);
        if count > 0 {
            text.push_str(&count.to_string());
            text.push_str(name);
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

fn split_while(text: &str, accept: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !accept(c)).unwrap_or(text.len()))
}

/// Why a text is no duration; its `Display` says what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurationError {
    text: String,
    fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Empty,
    Character(char),
    NoNumber,
    NoUnit,
    UnknownUnit(String),
    /// The sum of the parts.
    Order(Duration),
    Overflow,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "duration {:?} ", self.text)?;
        let meant = |text: String| parse(&text).map(|_| text).ok();
        match &self.fault {
            Fault::Empty => f.write_str("is empty: write one such as \"10s\" or \"1m30s\""),
            Fault::Character(c) => {
                let without = match c {
                    // `1.5s` is no `15s`.
                    ' ' | '_' | '+' => meant(self.text.replace(*c, "")),
                    _ => None,
                };
                match without {
                    Some(text) => write!(f, "contains {c:?}: write {text:?}"),
                    None => write!(
                        f,
                        "contains {c:?}: write whole numbers with units and nothing between, such as \"1500ms\" or \"1m30s\""
                    ),
                }
            }
            Fault::NoNumber => f.write_str("needs a number before the unit, such as \"10s\""),
            Fault::NoUnit => {
                let with = |unit: &&str| meant(format!("{}{unit}", self.text));
                let mut texts = next_units(&self.text).iter().filter_map(with);
                let text = texts.next().unwrap_or_else(|| "10s".to_owned());
                write!(f, "needs a unit, ms, s, m, h or d: write {text:?}")?;
                texts.try_for_each(|text| write!(f, " or {text:?}"))
            }
            Fault::UnknownUnit(unit) => {
                write!(f, "has the unknown unit {unit:?}: ")?;
                let text = nearest(unit).and_then(|near| meant(self.text.replace(unit, near)));
                match text {
                    Some(text) => write!(f, "write {text:?}"),
                    None => f.write_str("use ms, s, m, h or d"),
                }
            }
            Fault::Order(total) => write!(
                f,
                "must name the largest unit first and each once: write {:?}",
                self::format(*total)
            ),
            Fault::Overflow => {
                f.write_str("is too long to be counted in milliseconds: write a shorter one")
            }
        }
    }
}

/// The units that a number at the end may have, after the one before it.
fn next_units(text: &str) -> &'static [&'static str] {
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    match before.rsplit(|c: char| c.is_ascii_digit()).next() {
        Some("d") => &["h", "m"],
        Some("h") => &["m", "s"],
        Some("s") => &["ms"],
        _ => &["s"],
    }
}

/// The unit that was meant: written in full, in capitals, or in the words of another library.
fn nearest(unit: &str) -> Option<&'static str> {
    match unit.to_lowercase().as_str() {
        "msec" | "msecs" | "milli" | "millis" | "millisecond" | "milliseconds" => Some("ms"),
        "s" | "sec" | "secs" | "second" | "seconds" => Some("s"),
        "m" | "min" | "mins" | "minute" | "minutes" => Some("m"),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some("h"),
        "d" | "day" | "days" => Some("d"),
        _ => None,
    }
}

impl std::error::Error for DurationError {}

#[cfg(test)]
mod tests;
