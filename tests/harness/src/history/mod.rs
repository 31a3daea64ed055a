//! Records which holder had which key from when to when, and checks that each lock was exclusive.
//!
//! The clock is `CLOCK_MONOTONIC`, which all processes of a host share: intervals that several
//! child processes print can be compared as they are. A holder reads `start_ns` *after* its acquire
//! returned and `end_ns` *before* its release began, so an overlap is never an artefact of the
//! measurement.

use std::collections::BTreeMap;
use std::fmt;

use rustix::time::{ClockId, clock_gettime};

/// Starts each line, so that intervals can be picked out of other output.
const TAG: &str = "interval";

/// One hold of one key. Its `Display` is one line that [`Interval::parse`] reads back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a record that tests build by hand"
)]
pub struct Interval {
    /// The key that was held.
    pub key: String,
    /// The fencing token of this hold.
    pub fence: u64,
    /// [`now_ns`], read after the acquire returned.
    pub start_ns: u64,
    /// [`now_ns`], read before the release began; for a killed holder, when it was killed.
    pub end_ns: u64,
    /// The holder, for the message.
    pub who: String,
}

impl Interval {
    /// Reads a line that `Display` wrote; `None` for any other line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim_end_matches(['\r', '\n']).split('\t');
        if fields.next()? != TAG {
            return None;
        }
        let interval = Self {
            key: unescape(fields.next()?)?,
            fence: fields.next()?.parse().ok()?,
            start_ns: fields.next()?.parse().ok()?,
            end_ns: fields.next()?.parse().ok()?,
            who: unescape(fields.next()?)?,
        };
        fields.next().is_none().then_some(interval)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            fence,
            start_ns,
            end_ns,
            who,
        } = self;
        let (key, who) = (escape(key), escape(who));
        write!(f, "{TAG}\t{key}\t{fence}\t{start_ns}\t{end_ns}\t{who}")
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the same for all processes of this host.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the monotonic clock starts at 0");
    let nanos = u64::try_from(now.tv_nsec).expect("nanoseconds are not negative");
    seconds * 1_000_000_000 + nanos
}

/// Checks that no two holds of a key overlap, and that each fencing token is greater than that of
/// the hold before it.
///
/// An interval that begins in the nanosecond in which another one ends does not overlap it.
///
/// # Errors
/// The first violation, with both intervals.
pub fn check_exclusive(intervals: &[Interval]) -> Result<(), String> {
    let mut by_key: BTreeMap<&str, Vec<&Interval>> = BTreeMap::new();
    for interval in intervals {
        if interval.end_ns < interval.start_ns {
            return Err(format!("ends before it starts: {interval:?}"));
        }
        by_key.entry(&interval.key).or_default().push(interval);
    }
    by_key.into_values().try_for_each(check_key)
}

fn check_key(mut holds: Vec<&Interval>) -> Result<(), String> {
    holds.sort_by_key(|hold| (hold.start_ns, hold.end_ns));
    // Checking neighbours is enough: in a sorted list the first overlap is between neighbours, and
    // "greater" is transitive.
    for pair in holds.windows(2) {
        let [before, after] = pair else { continue };
        if after.start_ns < before.end_ns {
            return Err(format!("two holders at once: {before:?} and {after:?}"));
        }
        if after.fence <= before.fence {
            return Err(format!(
                "fencing token did not grow: {before:?}, then {after:?}"
            ));
        }
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('\t', r"\t")
        .replace('\n', r"\n")
        .replace('\r', r"\r")
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next()? {
                '\\' => '\\',
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests;
