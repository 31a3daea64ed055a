//! What stands at each key: the value of an exclusive lock, or the set of a kind with many holders.
//!
//! Queues are in `queues`. Invariant: never both, as a key of a real server has one type.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::set::Set;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Locks(BTreeMap<Arc<str>, Lock>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lock {
    One(Held),
    Many(Set),
}

/// One holder, dlock's or a foreign one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) value: Arc<str>,
    /// Server time; `None` for a key without a time to live.
    pub(super) expires: Option<u64>,
}

impl Held {
    /// In whole milliseconds, rounded up, as PTTL never says 0 of an existing key.
    pub(super) fn left(&self, time: u64) -> Option<Duration> {
        self.expires.map(|at| left(at, time))
    }
}

/// In whole milliseconds, rounded up.
pub(super) fn left(until: u64, time: u64) -> Duration {
    Duration::from_millis(until.saturating_sub(time).div_ceil(1000))
}

impl Locks {
    pub(super) fn is_free(&mut self, key: &str, time: u64) -> bool {
        self.live(key, time).is_none()
    }

    pub(super) fn held(&mut self, key: &str, time: u64) -> Option<&mut Held> {
        match self.live(key, time)? {
            Lock::One(held) => Some(held),
            Lock::Many(_) => None,
        }
    }

    pub(super) fn set(&mut self, key: &str, time: u64) -> Option<&mut Set> {
        match self.live(key, time)? {
            Lock::One(_) => None,
            Lock::Many(set) => Some(set),
        }
    }

    pub(super) fn insert(&mut self, key: &Arc<str>, lock: Lock) {
        self.0.insert(key.clone(), lock);
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// The keys that begin with this text, in order.
    pub(super) fn beginning_with(&self, prefix: &str) -> Vec<String> {
        let keys = self.0.keys().filter(|key| key.starts_with(prefix));
        keys.map(ToString::to_string).collect()
    }

    /// How many are stored, lapsed ones included.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn sweep(&mut self, time: u64) {
        self.0.retain(|_, lock| lock.drop_lapsed(time));
    }

    #[cfg(test)]
    pub(super) fn stored(&self, key: &str) -> Option<&Lock> {
        self.0.get(key)
    }

    pub(super) fn live(&mut self, key: &str, time: u64) -> Option<&mut Lock> {
        self.tidy(key, time);
        self.0.get_mut(key)
    }

    /// Drops the lock of a key if it has lapsed or has lost its last holder.
    pub(super) fn tidy(&mut self, key: &str, time: u64) {
        let is_over = |lock: &mut Lock| !lock.drop_lapsed(time);
        if self.0.get_mut(key).is_some_and(is_over) {
            self.0.remove(key);
        }
    }
}

impl Lock {
    /// Drops what has lapsed; whether anything is left.
    fn drop_lapsed(&mut self, time: u64) -> bool {
        match self {
            Lock::One(held) => held.expires.is_none_or(|at| at > time),
            Lock::Many(set) => set.drop_lapsed(time),
        }
    }
}
