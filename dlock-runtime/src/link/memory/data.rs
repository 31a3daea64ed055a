//! The data that guarded writes change, as a pure machine: what Redis does with the commands of a
//! batch.
//!
//! `memory://` runs it beside the locks, so that tests see what was written; tests compare it with
//! a real server, batch by batch. Invariant: a batch with a need that does not hold changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::extras::writes::{What, Writes, number};
use crate::values::batch::change::{KeyChange, Type, whole_millis};
use crate::values::memory_value::MemoryValue;

/// All data keys of one server.
#[derive(Debug, Default)]
pub(crate) struct Data {
    keys: BTreeMap<String, DataEntry>,
    /// At this number of keys, the lapsed ones are dropped.
    sweep_at: usize,
}

#[derive(Debug)]
struct DataEntry {
    stored: MemoryValue,
    /// Server time, µs.
    expires: Option<u64>,
}

impl Data {
    /// Applies the whole batch, or nothing: then it returns the index of the first need that does
    /// not hold.
    pub(crate) fn write(&mut self, writes: &Writes<'_>, time: u64) -> Result<(), usize> {
        for key in &writes.keys {
            self.drop_lapsed(key, time);
        }
        let holds = |need: &crate::extras::writes::Need<'_>| {
            let key = writes.keys.get(need.key).copied().unwrap_or_default();
            self.keys
                .get(key)
                .is_none_or(|entry| fits(&entry.stored, &need.what))
        };
        if let Some(unfit) = writes.needs.iter().position(|need| !holds(need)) {
            return Err(unfit);
        }
        for (key, change) in &writes.commands {
            if let Some(key) = writes.keys.get(*key) {
                self.apply(key, change, time);
            }
        }
        self.sweep(time);
        Ok(())
    }

    /// The value at a key.
    pub(crate) fn get(&mut self, key: &str, time: u64) -> Option<&MemoryValue> {
        self.drop_lapsed(key, time);
        self.keys.get(key).map(|entry| &entry.stored)
    }

    fn apply(&mut self, key: &str, change: &KeyChange, time: u64) {
        let until = change.ttl().map(|ttl| time + whole_millis(ttl) * 1000);
        match change {
            KeyChange::Set { value, .. } => {
                let entry = DataEntry {
                    stored: MemoryValue::Bytes(value.clone()),
                    expires: until,
                };
                self.keys.insert(key.to_owned(), entry);
            }
            KeyChange::Del => drop(self.keys.remove(key)),
            KeyChange::Expire(_) => {
                if let Some(entry) = self.keys.get_mut(key) {
                    entry.expires = until;
                }
            }
            _ => self.alter(key, change),
        }
    }

    /// A change inside the value at a key; an empty value is removed.
    fn alter(&mut self, key: &str, change: &KeyChange) {
        let Some(stored) = change.wants().map(empty) else {
            return;
        };
        let entry = self.keys.entry(key.to_owned()).or_insert(DataEntry {
            stored,
            expires: None,
        });
        alter(&mut entry.stored, change);
        if is_empty(&entry.stored) {
            self.keys.remove(key);
        }
    }

    fn drop_lapsed(&mut self, key: &str, time: u64) {
        let lapsed = |entry: &DataEntry| entry.expires.is_some_and(|at| at <= time);
        if self.keys.get(key).is_some_and(lapsed) {
            self.keys.remove(key);
        }
    }

    /// Whenever the number of keys has doubled: constant cost for each new one.
    fn sweep(&mut self, time: u64) {
        if self.keys.len() >= self.sweep_at.max(64) {
            self.keys
                .retain(|_, entry| entry.expires.is_none_or(|at| at > time));
            self.sweep_at = self.keys.len() * 2;
        }
    }
}

#[cfg(test)]
impl Data {
    /// How many keys are stored, lapsed ones included.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// How long the value at a key still lives, in µs; `None`: for ever, or the key is empty.
    pub(crate) fn left(&self, key: &str, time: u64) -> Option<u64> {
        Some(self.keys.get(key)?.expires?.saturating_sub(time))
    }
}

fn empty(of: Type) -> MemoryValue {
    match of {
        Type::String => MemoryValue::Bytes(Vec::new()),
        Type::Hash => MemoryValue::Hash(BTreeMap::new()),
        Type::Set => MemoryValue::Set(BTreeSet::new()),
        Type::SortedSet => MemoryValue::SortedSet(BTreeMap::new()),
        Type::List => MemoryValue::List(Vec::new()),
    }
}

fn type_of(stored: &MemoryValue) -> Type {
    match stored {
        MemoryValue::Bytes(_) => Type::String,
        MemoryValue::Hash(_) => Type::Hash,
        MemoryValue::Set(_) => Type::Set,
        MemoryValue::SortedSet(_) => Type::SortedSet,
        MemoryValue::List(_) => Type::List,
    }
}

fn fits(stored: &MemoryValue, what: &What<'_>) -> bool {
    match (what, stored) {
        (What::Is(wanted), _) => type_of(stored) == *wanted,
        (What::Number, MemoryValue::Bytes(value)) => number(value).is_some(),
        (What::NumberIn(field), MemoryValue::Hash(fields)) => fields
            .get(*field)
            .is_none_or(|value| number(value).is_some()),
        _ => false,
    }
}

fn alter(stored: &mut MemoryValue, change: &KeyChange) {
    match (stored, change) {
        (MemoryValue::Bytes(value), KeyChange::IncrBy(by)) => *value = sum(value, *by),
        (MemoryValue::Hash(fields), KeyChange::HSet { field, value }) => {
            fields.insert(field.clone(), value.clone());
        }
        (MemoryValue::Hash(fields), KeyChange::HDel(field)) => drop(fields.remove(field)),
        (MemoryValue::Hash(fields), KeyChange::HIncrBy { field, by }) => {
            let value = fields.entry(field.clone()).or_default();
            *value = sum(value, *by);
        }
        (MemoryValue::Set(members), KeyChange::SAdd(member)) => {
            members.insert(member.clone());
        }
        (MemoryValue::Set(members), KeyChange::SRem(member)) => drop(members.remove(member)),
        (MemoryValue::SortedSet(members), KeyChange::ZAdd { member, score }) => {
            members.insert(member.clone(), *score);
        }
        (MemoryValue::SortedSet(members), KeyChange::ZRem(member)) => drop(members.remove(member)),
        (MemoryValue::List(items), KeyChange::LPush(value)) => items.insert(0, value.clone()),
        (MemoryValue::List(items), KeyChange::RPush(value)) => items.push(value.clone()),
        _ => {} // of another type: a need would not have held
    }
}

/// The value is a number, as a need says, or new. Its sum with what a batch may add fits.
fn sum(value: &[u8], by: i64) -> Vec<u8> {
    let before = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    before.unwrap_or(0).saturating_add(by).to_string().into()
}

/// Whether the value counts as absent. A string may be empty.
fn is_empty(stored: &MemoryValue) -> bool {
    match stored {
        MemoryValue::Bytes(_) => false,
        MemoryValue::Hash(fields) => fields.is_empty(),
        MemoryValue::Set(members) => members.is_empty(),
        MemoryValue::SortedSet(members) => members.is_empty(),
        MemoryValue::List(items) => items.is_empty(),
    }
}
