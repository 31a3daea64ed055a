//! A batch of writes that may be sent: checked against its lock, and with the conditions on the
//! data under which none of its commands can fail half-way.
//!
//! A script that has written can't undo it. So everything that could stop a batch in the middle is
//! found before its first write: here what the batch alone tells, on the server what only the data
//! tells (see [`Need`]).
//!
//! Never in this folder: a write (`server` and `rules/lua/write.lua` do that).

mod known;

use std::time::Duration;

use self::known::Checking;
use crate::values::batch::change::{KeyChange, Type};
use crate::values::batch::{Batch, MOST_BYTES, MOST_COMMANDS};
use crate::values::error::{LockError, Reason, Refusal};
use crate::values::slot::{hash_tag, slot};

/// A hundred years: far below the value at which the server's milliseconds overflow.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How many digits a number may have to be added to.
const MOST_DIGITS: usize = 18;

/// A batch, and the conditions that must hold before its first command.
#[derive(Debug, Default)]
pub(crate) struct Writes<'a> {
    /// Each data key once.
    pub(crate) keys: Vec<&'a str>,
    pub(crate) needs: Vec<Need<'a>>,
    /// Each with the index of its key in `keys`.
    pub(crate) commands: Vec<(usize, &'a KeyChange)>,
}

/// What the data at a key must be like; if not, no command may run.
#[derive(Debug, PartialEq)]
pub(crate) struct Need<'a> {
    /// The index of its key in [`Writes::keys`].
    pub(crate) key: usize,
    /// The index in [`Writes::commands`] of the command that needs it.
    pub(crate) command: usize,
    pub(crate) what: What<'a>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum What<'a> {
    /// Absent, or of this type.
    Is(Type),
    /// Absent, or a number that [`number`] reads.
    Number,
    /// As [`What::Number`], for this field.
    NumberIn(&'a [u8]),
}

/// The outcome of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// The lock was held, and all is written.
    All,
    /// The lock is not ours. Nothing is written, here and in [`Wrote::Unfit`].
    NotOurs,
    /// The need with this index does not hold.
    Unfit(usize),
    /// The server refused the command with this index, though the checks had found nothing (it is
    /// forbidden or unknown there). The commands before it are written.
    Stopped(usize, Refusal, Reason),
}

impl<'a> Writes<'a> {
    /// # Errors
    /// [`LockError::Config`]: what is wrong with the batch, and what to do.
    pub(crate) fn new(batch: &'a Batch, lock: &str, namespace: &str) -> Result<Self, LockError> {
        let mut checking = Checking::default();
        let mut bytes = 0;
        if batch.commands.len() > MOST_COMMANDS {
            let many = batch.commands.len();
            return Err(wrong(format_args!(
                "{many} commands, of which {MOST_COMMANDS} are the most: all run in one step; write several batches"
            )));
        }
        let lock_slot = slot(lock);
        for (key, change) in &batch.commands {
            if let Some(why) = key.unfilled() {
                return Err(wrong(format_args!("{}: {why}", key.as_str())));
            }
            let key = key.as_str();
            check_key(key, lock, namespace, lock_slot)?;
            check_change(key, change)?;
            bytes += key.len() + change.words().iter().map(|it| it.len()).sum::<usize>();
            checking.add(key, change)?;
        }
        if bytes > MOST_BYTES {
            return Err(wrong(format_args!(
                "{bytes} bytes, of which {MOST_BYTES} are the most: locks travel on the same connection"
            )));
        }
        Ok(checking.finish())
    }

    /// Whether the server, out of memory, could refuse a command after others are written: it
    /// checks only the first write of a script.
    pub(crate) fn may_run_dry(&self) -> bool {
        let mut takes = self
            .commands
            .iter()
            .map(|(_, change)| change.takes_memory());
        takes.next() == Some(false) && takes.any(|takes| takes)
    }

    /// The key of a need, and in which way it does not hold.
    pub(crate) fn unfit(&self, need: usize) -> (&'a str, String) {
        let Some(need) = self.needs.get(need) else {
            return ("", "an unknown condition does not hold".to_owned());
        };
        let key = self.keys.get(need.key).copied().unwrap_or_default();
        let why = match need.what {
            What::Is(wanted) => format!("the value there is no {}", wanted.name()),
            What::Number => {
                format!("the value there is no whole number of at most {MOST_DIGITS} digits")
            }
            What::NumberIn(_) => {
                format!("the field there is no whole number of at most {MOST_DIGITS} digits")
            }
        };
        let which = self.which(need.command);
        (key, format!("{which}: {why}; nothing was written"))
    }

    /// A command, as an error names it.
    pub(crate) fn which(&self, command: usize) -> String {
        let name = self.commands.get(command).map_or("?", |(_, it)| it.name());
        let (nth, all) = (command + 1, self.commands.len());
        format!("{name}, command {nth} of {all}")
    }
}

fn check_key(key: &str, lock: &str, namespace: &str, lock_slot: u16) -> Result<(), LockError> {
    if key.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(wrong(format_args!(
            "{key:?} has a control character, or a value in it whose `Display` failed"
        )));
    }
    let is_ours = |rest: &str| rest.starts_with('@');
    if key == lock || key.strip_prefix(namespace).is_some_and(is_ours) {
        return Err(wrong(format_args!(
            "`{key}` is one of dlock's own keys; write data elsewhere"
        )));
    }
    if slot(key) != lock_slot {
        let tag = hash_tag(lock).unwrap_or(lock);
        return Err(wrong(format_args!(
            "`{key}` is not in the slot of its lock `{lock}`, which a cluster could not write in one step: put `{{{tag}}}` into the key, as its first braces, or write it under a lock that has its tag (of several: `part`)"
        )));
    }
    Ok(())
}

fn check_change(key: &str, change: &KeyChange) -> Result<(), LockError> {
    if let Some(ttl) = change.ttl()
        && (ttl.is_zero() || ttl > LONGEST)
    {
        return Err(wrong(format_args!(
            "`{key}` for {ttl:?}: give it 1 ms to 100 years, or delete it"
        )));
    }
    if matches!(change, KeyChange::ZAdd { score, .. } if score.is_nan()) {
        return Err(wrong(format_args!("a score of `{key}` is not a number")));
    }
    Ok(())
}

/// A number that can be added to: as Redis writes it, without a plus sign or leading zeros.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_plain || digits.len() > MOST_DIGITS {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn wrong(why: impl std::fmt::Display) -> LockError {
    LockError::config(format_args!("a guarded write: {why}"))
}
