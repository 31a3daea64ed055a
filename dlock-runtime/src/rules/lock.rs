//! What is stored at one key: the value of an exclusive lock, or the set of a kind with many holders.
//!
//! It does not know who waits. Invariant: never both, as a key of a real server has one type.

use std::sync::Arc;
use std::time::Duration;

use super::set::Set;
use crate::rules::commands::{Busy, Left};
use crate::values::entry::{self, Entry};

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
    /// That of its grant, if the store keeps it.
    pub(super) epoch: Option<u64>,
}

impl Held {
    /// In whole milliseconds, rounded up.
    pub(super) fn left(&self, time: u64) -> Option<Duration> {
        self.expires.map(|at| left(at, time))
    }
}

/// In whole milliseconds, rounded up.
pub(super) fn left(until: u64, time: u64) -> Duration {
    Duration::from_millis(until.saturating_sub(time).div_ceil(1000))
}

impl Lock {
    /// Whether one more entry may hold the lock beside its holders.
    pub(super) fn fits(&self, entry: &Entry<'_>) -> bool {
        match self {
            Lock::One(_) => false,
            Lock::Many(set) => set.fits(entry),
        }
    }

    pub(super) fn holds(&self, value: &str) -> bool {
        match self {
            Lock::One(held) => *held.value == *value,
            Lock::Many(set) => set.held_as(value).is_some(),
        }
    }

    /// How long a claim that holds the lock still does; of a set rounded down, because the holder
    /// counts on it.
    pub(super) fn left_of(&self, value: &str, time: u64) -> Option<Duration> {
        match self {
            Lock::One(held) if *held.value == *value => Some(held.left(time).unwrap_or_default()),
            Lock::One(_) => None,
            Lock::Many(set) => Some(Duration::from_millis((set.ends(value)? - time) / 1000)),
        }
    }

    /// The epoch that all entries of an owner's hold share, or that of the one holder.
    pub(super) fn epoch(&self) -> Option<u64> {
        match self {
            Lock::One(held) => held.epoch,
            Lock::Many(set) => set.meta.epoch(),
        }
    }

    /// Extends a claim's lease to then, and never shortens it; whether the claim holds the lock.
    pub(super) fn renew(&mut self, value: &str, until: u64, time: u64) -> bool {
        match self {
            Lock::One(held) if *held.value == *value => {
                held.expires = Some(held.expires.map_or(until, |before| before.max(until)));
                true
            }
            Lock::One(_) => false,
            Lock::Many(set) => set.renew(value, until, time),
        }
    }

    /// What stands there, if it is of another kind. Of a value only its kind: whoever knows the value
    /// may release it.
    pub(super) fn other_kind(&self, entry: &Entry<'_>) -> Option<String> {
        match self {
            Lock::One(held) => {
                let of_any_kind =
                    entry::is_other_layout(&held.value) || *held.value == *entry::KEPT;
                let is_other = entry.letter.is_shared() && !of_any_kind;
                is_other.then(|| "1|x|".to_owned())
            }
            Lock::Many(set) => (!set.meta.is_kind_of(entry)).then(|| set.to_string()),
        }
    }

    /// Whether the lock can't be waited for: its value has no end, or is of a layout unknown to this
    /// version.
    pub(super) fn is_endless(&self) -> bool {
        match self {
            Lock::One(held) => held.expires.is_none() || entry::is_other_layout(&held.value),
            Lock::Many(_) => false,
        }
    }

    /// Who is in the way, and for how long.
    pub(super) fn busy(&self, time: u64) -> Busy {
        let left = match self {
            Lock::One(held) => held.left(time).map_or(Left::Endless, Left::For),
            Lock::Many(set) => Left::For(left(set.next_end().unwrap_or(time), time)),
        };
        let value = self.named().map(|it| it.to_string()).unwrap_or_default();
        Busy { time, left, value }
    }

    /// The holder to name.
    pub(super) fn named(&self) -> Option<Arc<str>> {
        match self {
            Lock::One(held) => Some(held.value.clone()),
            Lock::Many(set) => set.named(),
        }
    }

    /// Drops holders that have lapsed; whether any is left.
    pub(super) fn drop_lapsed(&mut self, time: u64) -> bool {
        match self {
            Lock::One(held) => held.expires.is_none_or(|at| at > time),
            Lock::Many(set) => set.drop_lapsed(time),
        }
    }
}
