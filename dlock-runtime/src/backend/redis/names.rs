//! The keys and channels beside a lock's own, all in the pool's namespace, so that one ACL pattern
//! covers them.
//!
//! Invariants: the queue's keys are in the same slot of a cluster as the lock; a name belongs to one lock of one
//! namespace, and says which it is: no namespace contains an `@`, and `dlock_grammar::key` refuses the keys that
//! would be another namespace's companion or counter. Names that are kept for a later version (counters by hash slot, and those
//! of a lock's named slots: `@fence:{…}`, `@s:{…}`, `@s#…`) are told apart from all of these by `tests/names.rs` already.

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
pub(super) struct LockKeys<'a> {
    /// The counter of epochs.
    pub(super) counter: &'a str,
    /// The waiting entries by arrival.
    pub(super) queue: Companion<'a>,
    /// The same by their last heartbeat.
    pub(super) heartbeats: Companion<'a>,
}

/// The name of a key beside a lock's, written where it is needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Companion<'a> {
    namespace: &'a str,
    letter: &'static str,
    lock: &'a str,
    /// The lock's name says its slot.
    is_tagged: bool,
}

impl<'a> Companion<'a> {
    /// Its parts, in their order.
    fn parts(self) -> [&'a str; 6] {
        let Self {
            namespace,
            letter,
            lock,
            is_tagged,
        } = self;
        if is_tagged {
            let bare = lock.strip_prefix(namespace).unwrap_or(lock);
            // Not behind a colon: `{<lock>}` is a key too, and that one's companions are named after `<lock>`.
            [namespace, "@", letter, "#", bare, ""]
        } else {
            [namespace, "@", letter, ":{", lock, "}"]
        }
    }

    pub(super) fn text(self) -> String {
        self.parts().concat()
    }

    /// In a text that others were written in before.
    pub(super) fn text_in(self, room: &mut String) -> &str {
        room.clear();
        for part in self.parts() {
            room.push_str(part);
        }
        room
    }
}

impl Names {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            counter: format!("{namespace}@fence").into(),
        }
    }

    /// For the lock at this key, which begins with the namespace.
    pub(super) fn of<'a>(&'a self, lock: &'a str) -> LockKeys<'a> {
        let is_tagged = hash_tag(lock).is_some();
        let companion = |letter| Companion {
            namespace: &self.namespace,
            letter,
            lock,
            is_tagged,
        };
        LockKeys {
            counter: &self.counter,
            queue: companion("w"),
            heartbeats: companion("a"),
        }
    }

    /// The bytes of a lock's name and of its companions'.
    pub(super) fn room(&self, lock: &str) -> usize {
        3 * lock.len() + 2 * self.counter.len()
    }

    /// The channel of a connection.
    pub(super) fn channel(&self, id: u128) -> String {
        format!("{}@grant:{id:032x}", self.namespace)
    }
}
