//! What stands at a lock's key and in its queue, for an administrator. It changes nothing, except
//! that it drops what has lapsed.

use super::Server;
use super::locks::{self, Lock};
use crate::values::report::{Part, Stored, StoredLock, StoredSet};

impl Server {
    /// The keys that begin with this text.
    pub(crate) fn keys(&mut self, prefix: &str, time: u64) -> Vec<String> {
        self.locks.sweep(time);
        self.locks.beginning_with(prefix)
    }

    pub(crate) fn inspect(&mut self, key: &str, part: Part, time: u64) -> Stored {
        let queue = self.queues.all(key, time);
        let read = || queue.iter().skip(part.from).take(part.most);
        let bytes = |entry: &str| entry.as_bytes().to_vec();
        Stored {
            time,
            lock: self.stored_lock(key, part, time),
            queue: read().map(|it| (bytes(&it.entry), it.arrival())).collect(),
            silent: read()
                .filter(|it| !it.is_alive(time))
                .map(|it| bytes(&it.entry))
                .collect(),
            queue_len: queue.len(),
            last_epoch: Some(self.last_epoch).filter(|it| *it > 0),
        }
    }

    fn stored_lock(&mut self, key: &str, part: Part, time: u64) -> StoredLock {
        match self.locks.live(key, time) {
            None => StoredLock::Nothing,
            Some(Lock::One(held)) => StoredLock::Value {
                value: held.value.as_bytes().to_vec(),
                left: held.left(time),
            },
            Some(Lock::Many(set)) => {
                let all = set.by_end();
                let read = all.iter().skip(part.from).take(part.most);
                let last_end = all.last().map_or(time, |(_, ends)| *ends);
                StoredLock::Set(StoredSet {
                    members: read
                        .map(|(it, ends)| (it.as_bytes().to_vec(), *ends))
                        .collect(),
                    last: set.to_string().into_bytes(),
                    count: all.len(),
                    left: Some(locks::left(last_end, time)),
                })
            }
        }
    }
}
