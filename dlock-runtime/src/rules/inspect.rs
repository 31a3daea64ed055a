//! What stands at a lock's key and in its queue, for an administrator. It changes nothing, except
//! that it drops what has lapsed.

use super::Server;
use super::key_state::KeyState;
use super::lock::{self, Lock};
use crate::values::report::{Part, Sought, Stored, StoredLock, StoredSet};

impl Server {
    /// The keys that begin with this text.
    pub(crate) fn keys(&mut self, sought: Sought, prefix: &str, time: u64) -> Vec<String> {
        self.drop_lapsed(time);
        let stored = self.keys.iter().filter(|(_, it)| match sought {
            Sought::Locks => it.lock.is_some(),
            Sought::Records => it.record.is_some(),
        });
        let keys = stored.filter(|(key, _)| key.starts_with(prefix));
        keys.map(|(key, _)| key.to_string()).collect()
    }

    pub(crate) fn inspect(&mut self, key: &str, part: Part, time: u64) -> Stored {
        let last_epoch = Some(self.last_epoch).filter(|it| *it > 0);
        let nothing = KeyState::default();
        let state = self.live(key, time).map_or(&nothing, |it| &*it);
        let queue = state.queue.all();
        let read = || queue.iter().skip(part.from).take(part.most);
        let bytes = |entry: &str| entry.as_bytes().to_vec();
        let silent = read().filter(|it| !it.is_alive(time));
        Stored {
            time,
            lock: stored_lock(state.lock.as_ref(), part, time),
            queue: read().map(|it| (bytes(&it.entry), it.arrival())).collect(),
            silent: silent.map(|it| bytes(&it.entry)).collect(),
            queue_len: queue.len(),
            last_epoch,
            kept_by: None,
        }
    }
}

fn stored_lock(lock: Option<&Lock>, part: Part, time: u64) -> StoredLock {
    match lock {
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
                left: Some(lock::left(last_end, time)),
            })
        }
    }
}
