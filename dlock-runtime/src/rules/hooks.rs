//! Test hooks: they change and read a server's state outside the protocol.

use std::sync::Arc;
use std::time::Duration;

use super::Server;
use super::key_state::KeyState;
use super::last_run::StoredRecord;
use super::lock::{Held, Lock};
use super::set::Meta;
use super::wait_queue::WaitQueue;
use crate::rules::commands::Keep;
use crate::values::entry;

impl Server {
    /// How many keys are stored, lapsed ones included; a queue counts once.
    pub(crate) fn len(&self) -> usize {
        let of_one =
            |it: &KeyState| usize::from(it.lock.is_some()) + usize::from(!it.queue.is_empty());
        self.keys.values().map(of_one).sum()
    }

    /// Puts a foreign value at a key, as a program without dlock would.
    pub(crate) fn put(&mut self, key: &str, value: &str, expires: Option<u64>) {
        let value = value.into();
        let held = Held {
            value,
            expires,
            epoch: None,
        };
        self.keys.entry(key.into()).or_default().lock = Some(Lock::One(held));
    }

    /// Puts a record beside a key.
    pub(crate) fn put_record(&mut self, key: &str, text: &str, expires: Option<u64>) {
        let text = text.into();
        let record = StoredRecord { text, expires };
        self.keys.entry(key.into()).or_default().record = Some(record);
    }

    /// The record beside a key, if it has not lapsed.
    pub(crate) fn stored_record(&mut self, key: &str, time: u64) -> Option<StoredRecord> {
        self.live(key, time)?.record.clone()
    }

    /// When the value or set at a key lapses; `None`: never, or the key is empty.
    pub(crate) fn expires(&self, key: &str) -> Option<u64> {
        match self.stored(key)? {
            Lock::One(held) => held.expires,
            Lock::Many(set) => set.last_end(),
        }
    }

    /// Each entry at a key and its end, lapsed or not; an endless one is not told.
    pub(crate) fn each_entry(&self, key: &str, mut tell: impl FnMut(&str, u64)) {
        match self.stored(key) {
            None => {}
            Some(Lock::One(held)) => {
                if let Some(end) = held.expires {
                    tell(&held.value, end);
                }
            }
            Some(Lock::Many(set)) => {
                for (entry, end) in set.by_end() {
                    tell(&entry, end);
                }
            }
        }
    }

    /// The epoch of an owner's hold, lapsed or not.
    pub(crate) fn stored_epoch(&self, key: &str) -> Option<u64> {
        self.stored(key)?.epoch()
    }

    /// Gives an owner's hold another epoch, even a lower one.
    pub(crate) fn set_epoch_of_hold(&mut self, key: &str, to: u64, time: u64) {
        if let Some(set) = self.live(key, time).and_then(KeyState::set)
            && let Meta::Owner { epoch, .. } = &mut set.meta
        {
            *epoch = to;
        }
    }

    pub(crate) fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    pub(crate) fn set_last_epoch(&mut self, epoch: u64) {
        self.last_epoch = epoch;
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.change(key, |state| state.lock = None);
    }

    /// Puts a queue entry of any form behind the others, as another version would.
    pub(crate) fn enter(&mut self, key: &str, entry: &str, time: u64) {
        let arrival = self.drawn(time);
        self.change(key, |state| state.queue.enter(&entry.into(), arrival, time));
    }

    /// Puts a queue entry behind the others that the heartbeats don't have.
    pub(crate) fn enter_silently(&mut self, key: &str, entry: &str, time: u64) {
        let arrival = self.drawn(time);
        let enter = |state: &mut KeyState| {
            state.queue.enter_silently(&entry.into(), arrival, time);
        };
        self.change(key, enter);
    }

    /// Makes an entry hold a lock exactly until then, whatever other holders there are.
    pub(crate) fn put_entry(&mut self, key: &str, entry: &str, until: u64, time: u64) {
        let read = entry::read(entry).expect("an entry");
        let at = (self.drawn(time), time);
        let lease = Duration::from_micros(until - time);
        self.change(key, |state| {
            state.tidy(time);
            state.put(&entry.into(), &read, lease, at);
            if let Some(set) = state.set() {
                set.end_at(entry, until);
            }
        });
    }

    /// Removes the entry of a holder that still counts on it.
    pub(crate) fn drop_entry(&mut self, key: &str, entry: &str, time: u64) {
        self.change(key, |state| {
            state.tidy(time);
            if state.set().is_some() {
                state.remove(entry, Keep::NOT, time);
            }
        });
    }

    pub(crate) fn beat(&mut self, key: &str, entry: &str, time: u64) {
        self.change(key, |state| {
            state.tidy(time);
            state.queue.beat(entry, time);
        });
    }

    pub(crate) fn leave(&mut self, key: &str, entry: &str, time: u64) -> bool {
        self.change(key, |state| {
            state.tidy(time);
            state.queue.leave(entry)
        })
    }

    /// Replaces all queues by those of another server.
    pub(crate) fn take_queue_of(&mut self, other: &Self) {
        let keys: Vec<_> = self.keys.keys().chain(other.keys.keys()).cloned().collect();
        for key in keys {
            let queue = other.keys.get(&key).map(|it| it.queue.clone());
            self.change(&key, |state| state.queue = queue.unwrap_or_default());
        }
    }

    /// Drops a queue, as if its keys had been evicted.
    pub(crate) fn lose_queue(&mut self, key: &str) {
        self.change(key, |state| state.queue = WaitQueue::default());
    }

    /// When the queue of a key lapses.
    pub(crate) fn queue_ends(&mut self, key: &str, time: u64) -> Option<u64> {
        self.live(key, time)?.queue.ends()
    }

    /// Who wants to be told that the key is free, in order, and until when that is known.
    pub(crate) fn hints(&mut self, key: &str, time: u64) -> Option<(Vec<Arc<str>>, u64)> {
        self.live(key, time)?.hints.list()
    }

    /// The writers that readers keep out of the lock, each behind the end of its time.
    pub(crate) fn writers_kept_out(&mut self, key: &str, time: u64) -> Vec<(u64, Arc<str>)> {
        let state = self.live(key, time);
        state.map(|it| it.hints.writers()).unwrap_or_default()
    }

    /// The queue of a key, in order, each entry with the time until which it counts as alive.
    pub(crate) fn waiting(&mut self, key: &str, time: u64) -> Vec<(Arc<str>, u64)> {
        let Some(state) = self.live(key, time) else {
            return Vec::new();
        };
        let entries = state.queue.all().iter();
        entries
            .map(|it| (it.entry.clone(), it.alive_until()))
            .collect()
    }

    /// The members of the set at a key without the meta, each with its end, as a real server has
    /// them.
    pub(crate) fn members(&mut self, key: &str, time: u64) -> Vec<(String, u64)> {
        let set = self.live(key, time).and_then(KeyState::set);
        set.map(|set| set.members()).unwrap_or_default()
    }

    /// As [`meta`](Self::meta), without dropping what has lapsed.
    pub(crate) fn stored_meta(&self, key: &str) -> Option<String> {
        match self.stored(key)? {
            Lock::One(_) => None,
            Lock::Many(set) => Some(set.to_string()),
        }
    }

    /// The meta of the set at a key: what all its holders have in common.
    pub(crate) fn meta(&mut self, key: &str, time: u64) -> Option<String> {
        let set = self.live(key, time).and_then(KeyState::set);
        set.map(|set| set.to_string())
    }

    fn stored(&self, key: &str) -> Option<&Lock> {
        self.keys.get(key)?.lock.as_ref()
    }

    fn drawn(&mut self, time: u64) -> u64 {
        self.last_epoch = time.max(self.last_epoch + 1);
        self.last_epoch
    }

    fn change<T>(&mut self, key: &str, change: impl FnOnce(&mut KeyState) -> T) -> T {
        let state = self.keys.entry(key.into()).or_default();
        let done = change(state);
        if state.is_empty() {
            self.keys.remove(key);
        }
        done
    }
}
