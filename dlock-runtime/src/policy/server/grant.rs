//! Granting a lock to the head of its queue.
//!
//! It removes from the queue and adds holders; new entries come from `exclusive` and `shared`.
//! Invariant: no entry passes a head that is alive.

use std::sync::Arc;

use super::locks::Lock;
use super::{Publish, Reached, Server};
use crate::policy::commands::{Keep, PushedGrant};
use crate::values::entry::{self, Entry};

impl Server {
    /// [`grant_next`](Self::grant_next), unless one value stands at the key: no other holder fits
    /// beside that, so commands of the exclusive lock are spared the search.
    pub(super) fn grant_unless_taken(
        &mut self,
        key: &Arc<str>,
        time: u64,
        publish: &mut dyn Publish,
    ) {
        if !matches!(self.locks.live(key, time), Some(Lock::One(_))) {
            self.grant_next(key, time, publish);
        }
    }

    /// Grants to the first entry, and to the next ones of whatever kind, as long as they fit beside
    /// the holders: all readers at the head, all permits that are free, one writer, one exclusive
    /// holder.
    ///
    /// An entry that is not alive is dropped, and a grant whose push reached no client is taken
    /// back. Lapsed entries go first, so that they do not pile up behind a head that can't be read
    /// or does not fit. A head that can't be read counts only while its client shows signs of life.
    pub(super) fn grant_next(&mut self, key: &Arc<str>, time: u64, publish: &mut dyn Publish) {
        self.queues.drop_lapsed(key, time);
        while let Some(head) = self.queues.first(key, time) {
            if !self.queues.is_alive(key, &head, time) {
                self.queues.leave(key, &head.entry, time);
                continue;
            }
            let Some(entry) = entry::read(&head.entry) else {
                return; // of a later kind or version: its own clients handle it
            };
            if !self.fits(key, &entry, time) {
                return; // no entry passes the head
            }
            self.queues.leave(key, &head.entry, time);
            let grant = self.grant(key, &head.entry, &entry, time);
            let address = entry.address;
            // A waiter without an address polls, and will find the grant.
            if address.is_empty() || publish.publish(address, &grant) != Reached::Nobody {
                if !entry.letter.is_shared() {
                    return;
                }
            } else {
                self.take_back(key, &grant.value, time);
            }
        }
    }

    fn grant(
        &mut self,
        key: &Arc<str>,
        head: &Arc<str>,
        entry: &Entry<'_>,
        time: u64,
    ) -> PushedGrant {
        let (epoch, lease) = (self.draw_epoch(time), entry.lease.min(self.claim));
        let epoch = if entry.letter.is_shared() {
            self.add(key, head, entry, lease, epoch, time)
        } else {
            self.set(key, head, time, lease);
            epoch
        };
        PushedGrant {
            key: key.clone(),
            value: head.clone(),
            epoch,
            time,
            lease,
        }
    }

    fn take_back(&mut self, key: &Arc<str>, value: &str, time: u64) {
        match self.locks.set(key, time) {
            Some(set) => {
                set.give_back(value, Keep::NOT, time);
                self.locks.tidy(key, time);
            }
            None => self.locks.remove(key),
        }
    }
}
