//! What the commands of a batch imply about the data, one after the other; the rest becomes a need.
//!
//! It never reads data. Invariant: a batch whose needs all hold can't fail half-way.

use std::collections::HashMap;

use super::{Need, What, Writes, number, wrong};
use crate::values::batch::change::{KeyChange, Type};
use crate::values::error::LockError;

/// The most that a batch may add to one number, signs dropped. With a stored number of at most 18
/// digits the sum stays an `i64`.
const MOST_ADDED: u64 = 8_000_000_000_000_000_000;

/// The entry in `fields` for the value of a string.
const STRING: &[u8] = b"";

/// A batch while it is checked.
#[derive(Debug, Default)]
pub(super) struct Checking<'a> {
    writes: Writes<'a>,
    /// Each key's index in `writes`, and what is known about it.
    keys: HashMap<&'a str, (usize, KnownKey<'a>)>,
}

/// One key, as the commands so far leave it.
#[derive(Debug, Default)]
struct KnownKey<'a> {
    /// Whether the data from before the batch is gone.
    is_new: bool,
    /// Its type, if it exists; `None`: any, or absent.
    is: Option<Type>,
    /// The values of its fields, as far as the commands imply them.
    fields: HashMap<&'a [u8], KnownNumber>,
}

/// A value that may be added to.
#[derive(Clone, Copy, Debug)]
struct KnownNumber {
    is_one: bool,
    added: u64,
}

impl KnownNumber {
    fn of(value: &[u8]) -> Self {
        Self {
            is_one: number(value).is_some(),
            added: 0,
        }
    }

    /// Absent, which counts as 0, or as a need says.
    const ONE: Self = Self {
        is_one: true,
        added: 0,
    };
}

impl<'a> Checking<'a> {
    pub(super) fn finish(self) -> Writes<'a> {
        self.writes
    }

    pub(super) fn add(&mut self, key: &'a str, change: &'a KeyChange) -> Result<(), LockError> {
        let next = self.writes.keys.len();
        let new = || (next, KnownKey::default());
        let (index, known) = self.keys.entry(key).or_insert_with(new);
        if *index == next {
            self.writes.keys.push(key);
        }
        let needs = known
            .after(change)
            .map_err(|why| wrong(format_args!("`{key}` {why}")))?;
        let command = self.writes.commands.len();
        let needs = needs.into_iter().flatten().map(|what| Need {
            key: *index,
            command,
            what,
        });
        self.writes.needs.extend(needs);
        self.writes.commands.push((*index, change));
        Ok(())
    }
}

type Needs<'a> = [Option<What<'a>>; 2];

impl<'a> KnownKey<'a> {
    /// What the data must be like for this command, as far as the commands before it do not imply
    /// it; an error if they imply that it can't work.
    fn after(&mut self, change: &'a KeyChange) -> Result<Needs<'a>, &'static str> {
        let is_type = match change.wants() {
            Some(wanted) => self.become_of(wanted)?,
            None => None,
        };
        let mut is_number = None;
        match change {
            KeyChange::Set { value, .. } => {
                *self = KnownKey {
                    is_new: true,
                    is: Some(Type::String),
                    fields: HashMap::from([(STRING, KnownNumber::of(value))]),
                };
            }
            KeyChange::Del => {
                *self = KnownKey {
                    is_new: true,
                    ..KnownKey::default()
                };
            }
            KeyChange::HSet { field, value } => {
                self.fields.insert(field, KnownNumber::of(value));
            }
            KeyChange::HDel(field) => {
                self.fields.insert(field, KnownNumber::ONE);
            }
            KeyChange::IncrBy(by) => is_number = self.count(STRING, *by)?.then_some(What::Number),
            KeyChange::HIncrBy { field, by } => {
                is_number = self.count(field, *by)?.then_some(What::NumberIn(field));
            }
            KeyChange::Expire(_)
            | KeyChange::SAdd(_)
            | KeyChange::SRem(_)
            | KeyChange::ZAdd { .. }
            | KeyChange::ZRem(_)
            | KeyChange::LPush(_)
            | KeyChange::RPush(_) => {}
        }
        Ok([is_type, is_number])
    }

    fn become_of(&mut self, wanted: Type) -> Result<Option<What<'a>>, &'static str> {
        match self.is.replace(wanted) {
            Some(is) if is == wanted => Ok(None),
            Some(_) => {
                Err("is used as two types in one batch: delete it in between, or use two keys")
            }
            None if self.is_new => Ok(None),
            None => Ok(Some(What::Is(wanted))),
        }
    }

    /// Whether the data must be checked for a number there.
    fn count(&mut self, field: &'a [u8], by: i64) -> Result<bool, &'static str> {
        let is_open = !self.is_new && !self.fields.contains_key(field);
        let number = self.fields.entry(field).or_insert(KnownNumber::ONE);
        if !number.is_one {
            return Err("is set to something that can't be added to, and added to");
        }
        number.added = number.added.saturating_add(by.unsigned_abs());
        if number.added > MOST_ADDED {
            return Err("gets more than 8·10¹⁸ added, which may not fit");
        }
        Ok(is_open)
    }
}
