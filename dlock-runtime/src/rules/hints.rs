//! Whom a node of a quorum tells that a key is free, in the order in which they were outvoted; but a
//! writer that readers keep out comes first.
//!
//! Nobody queues at a node: a hint says that it is worth asking again. Invariant: a writer that does
//! not ask again keeps nobody out for longer than its time.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::micros;
use crate::rules::ballots::{HINTS_TTL, WRITER_COMES, WRITER_WAITS};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Hints {
    addresses: Vec<Arc<str>>,
    /// The writers that readers keep out, and until when each counts as waiting.
    writers: BTreeSet<(u64, Arc<str>)>,
    /// 0 if nobody is to be told.
    expires: u64,
}

/// The one to tell next.
pub(super) struct NextTold {
    pub(super) address: Arc<str>,
    /// Set for a writer: until when it counts as waiting.
    writer_until: Option<u64>,
}

impl Hints {
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.writers.is_empty()
    }

    pub(super) fn drop_if_lapsed(&mut self, time: u64) {
        if self.expires <= time {
            *self = Self::default();
        }
    }

    /// Adds an address behind all others, or leaves it where it is; returns how many are before it.
    pub(super) fn enter(&mut self, address: &Arc<str>, time: u64) -> usize {
        self.expires = time + micros(HINTS_TTL);
        let known = self.addresses.iter().position(|it| it == address);
        known.unwrap_or_else(|| {
            self.addresses.push(address.clone());
            self.addresses.len() - 1
        })
    }

    /// Keeps new readers out for a while.
    pub(super) fn writer_waits(&mut self, address: &Arc<str>, time: u64) {
        self.expires = time + micros(HINTS_TTL);
        self.writers.retain(|(_, it)| it != address);
        let until = time + micros(WRITER_WAITS);
        self.writers.insert((until, address.clone()));
    }

    /// Until when the last writer counts as waiting, if one does. If the clock was set back since it
    /// asked, that counts as asked now.
    pub(super) fn a_writer_waits_until(&mut self, time: u64) -> Option<u64> {
        let latest = time + micros(WRITER_WAITS);
        if self.writers.last()?.0 > latest {
            let writers = std::mem::take(&mut self.writers).into_iter();
            self.writers = writers.map(|(until, it)| (until.min(latest), it)).collect();
        }
        let (until, _) = self.writers.last()?;
        (*until > time).then_some(*until)
    }

    /// Afterwards the others have their turns: readers that wait, and writers when they ask again.
    pub(super) fn writer_is_in(&mut self) {
        self.writers.clear();
        self.forget_if_empty();
    }

    pub(super) fn forget_lapsed_writers(&mut self, time: u64) {
        self.writers.retain(|(until, _)| *until > time);
        self.forget_if_empty();
    }

    /// A writer comes first, and stays until it has been told.
    pub(super) fn next(&mut self) -> Option<NextTold> {
        let writer = self.writers.first().cloned();
        let next = if let Some((until, address)) = writer {
            self.addresses.retain(|it| *it != address);
            NextTold {
                address,
                writer_until: Some(until),
            }
        } else if self.addresses.is_empty() {
            return None;
        } else {
            NextTold {
                address: self.addresses.remove(0),
                writer_until: None,
            }
        };
        self.forget_if_empty();
        Some(next)
    }

    /// A writer that listens, or that asks so often that it needs no hint, has some time to come.
    /// After that no writer counts as waiting until it asks again.
    pub(super) fn writer_was_told(&mut self, next: &NextTold, comes: bool, time: u64) {
        let Some(until) = next.writer_until else {
            return;
        };
        self.writers.remove(&(until, next.address.clone()));
        if comes {
            let last = time + micros(WRITER_COMES);
            self.writers.retain(|(until, _)| *until <= last);
            self.writers.insert((until.min(last), next.address.clone()));
        }
        self.forget_if_empty();
    }

    #[cfg(test)]
    pub(super) fn writers(&self) -> Vec<(u64, Arc<str>)> {
        self.writers.iter().cloned().collect()
    }

    #[cfg(test)]
    pub(super) fn list(&self) -> Option<(Vec<Arc<str>>, u64)> {
        (!self.is_empty()).then(|| (self.addresses.clone(), self.expires))
    }

    fn forget_if_empty(&mut self) {
        if self.is_empty() {
            self.expires = 0;
        }
    }
}
