//! Which line somebody waits in.
//!
//! Those who want an exclusive lock share one for each key: one place at the server for all, and
//! whoever is first takes what is granted. Whoever needs a place of its own has a line to itself: a
//! holder among many (its entry is one holder's, with its own expiry), and one that is `fair`,
//! because the order of arrival at the server counts.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use crate::values::kind::Kind;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey {
    key: Arc<str>,
    /// 0: the line for all.
    number: u64,
    /// Of the key: a lane is looked up a dozen times for each lock.
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
    /// The line for this kind of request.
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

    pub(in crate::engine) fn for_all(key: Arc<str>) -> Self {
        Self {
            hash: hash(&key),
            key,
            number: 0,
        }
    }

    pub(in crate::engine) fn key(&self) -> &Arc<str> {
        &self.key
    }

    pub(crate) fn is_for_all(&self) -> bool {
        self.number == 0
    }
}
