//! Which local queue a waiter joins.
//!
//! Waiters for an exclusive lock share one queue per key: one queue entry at the server for all of
//! them, and the first waiter takes what is granted. A waiter that needs a queue entry of its own
//! has a queue to itself: one of many simultaneous holders (each entry is one holder's, with its
//! own expiry), and a `fair` waiter, for which the order of arrival at the server counts.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use crate::values::kind::Kind;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey {
    key: Arc<str>,
    /// 0: the shared queue.
    number: u64,
    /// The key's hash: a queue is looked up a dozen times for each lock.
    hash: u64,
}

impl Hash for QueueKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash ^ self.number);
    }
}

fn hash(key: &str) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(key)
}

impl QueueKey {
    /// The queue for this kind of request.
    pub(crate) fn of(key: Arc<str>, kind: &Kind, fair: bool) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        if !fair && !kind.is_shared() {
            return Self::for_all(key);
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self {
            number,
            ..Self::for_all(key)
        }
    }

    pub(crate) fn for_all(key: Arc<str>) -> Self {
        Self {
            hash: hash(&key),
            key,
            number: 0,
        }
    }

    /// The queues of this key that are not shared.
    pub(crate) fn all_own(key: &Arc<str>) -> RangeInclusive<Self> {
        let numbered = |number, hash| Self {
            key: key.clone(),
            number,
            hash,
        };
        numbered(1, 0)..=numbered(u64::MAX, u64::MAX)
    }

    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    pub(crate) fn is_for_all(&self) -> bool {
        self.number == 0
    }
}
