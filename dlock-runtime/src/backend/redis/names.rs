//! The keys and channels beside a lock's own, all in the pool's namespace, so that one ACL pattern
//! covers them.
//!
//! Invariant: the queue's keys are in the same slot of a cluster as the lock.

use std::sync::Arc;

use crate::values::slot::hash_tag;

/// The names of one pool.
#[derive(Clone, Debug)]
pub(super) struct Names {
    namespace: Arc<str>,
    counter: Arc<str>,
}

/// What the scripts about one lock touch besides the lock.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    /// The counter of epochs.
    pub(super) counter: &'a str,
    /// W: the queue by arrival.
    pub(super) waiting: String,
    /// A: the queue by heartbeat.
    pub(super) alive: String,
}

impl Names {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            counter: format!("{namespace}@fence").into(),
        }
    }

    /// For the lock at this key, which begins with the namespace.
    pub(super) fn of(&self, lock: &str) -> Keys<'_> {
        let namespace = &*self.namespace;
        let companion = |letter: char| {
            if hash_tag(lock).is_some() {
                let bare = lock.strip_prefix(namespace).unwrap_or(lock);
                format!("{namespace}@{letter}:{bare}")
            } else {
                format!("{namespace}@{letter}:{{{lock}}}")
            }
        };
        Keys {
            counter: &self.counter,
            waiting: companion('w'),
            alive: companion('a'),
        }
    }

    /// The channel of a connection.
    pub(super) fn channel(&self, id: u128) -> String {
        format!("{}@grant:{id:032x}", self.namespace)
    }
}
