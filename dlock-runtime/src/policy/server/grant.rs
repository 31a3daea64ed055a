//! Giving a lock to the head of its queue.

use std::sync::Arc;
use std::time::Duration;

use super::{Publish, Reached, Server};
use crate::policy::commands::Grant;
use crate::policy::queue;
use crate::values::entry;

/// Which places a command may grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heads {
    Exclusive,
    All,
}

/// A place, of whatever kind.
enum Place<'a> {
    One(queue::Entry<'a>),
    Many(entry::Entry<'a>),
}

impl Server {
    /// Grants to the first place, and the next, as long as they fit beside those who hold the lock: all
    /// readers at the head, all permits that are free, one writer.
    ///
    /// A place that is not alive is dropped, one that nobody hears of loses its grant again. The lapsed go
    /// first, so that they do not pile up behind a head that can't be read or does not fit.
    pub(super) fn grant_next(
        &mut self,
        key: &Arc<str>,
        heads: Heads,
        time: u64,
        publish: &mut dyn Publish,
    ) {
        self.queues.drop_lapsed(key, time);
        while let Some(head) = self.queues.first(key, time) {
            let Some(place) = Place::read(&head.entry, heads) else {
                return; // of another kind or version: its own clients know what to do with it
            };
            if !head.is_alive(time) {
                self.queues.leave(key, &head.entry, time);
                continue;
            }
            if !self.has_room(key, &place, time) {
                return; // nobody passes the head
            }
            self.queues.leave(key, &head.entry, time);
            let grant = self.grant(key, &head.entry, &place, time);
            let address = place.address();
            // Without an address it has to poll, and will find the grant.
            if address.is_empty() || publish.publish(address, &grant) != Reached::Nobody {
                if matches!(place, Place::One(_)) {
                    return;
                }
            } else {
                self.take_back(key, &grant.value, time);
            }
        }
    }

    fn has_room(&mut self, key: &str, place: &Place<'_>, time: u64) -> bool {
        match place {
            Place::One(_) => self.locks.is_free(key, time),
            Place::Many(entry) => self.fits(key, entry, time),
        }
    }

    fn grant(&mut self, key: &Arc<str>, head: &Arc<str>, place: &Place<'_>, time: u64) -> Grant {
        let (epoch, lease) = (self.draw_epoch(time), place.lease().min(self.claim));
        let (value, epoch) = match place {
            Place::One(entry) => {
                let value = entry.value.into();
                self.set(key, &value, time, lease);
                (value, epoch)
            }
            Place::Many(entry) => {
                let epoch = self.add(key, head, entry, lease, epoch, time);
                (head.clone(), epoch)
            }
        };
        Grant {
            key: key.clone(),
            value,
            epoch,
            time,
            lease,
        }
    }

    fn take_back(&mut self, key: &Arc<str>, value: &str, time: u64) {
        match self.locks.set(key, time) {
            Some(set) => {
                set.give_back(value, None);
                self.locks.tidy(key, time);
            }
            None => self.locks.remove(key),
        }
    }
}

impl<'a> Place<'a> {
    fn read(entry: &'a str, heads: Heads) -> Option<Self> {
        if let Some(entry) = queue::read(entry) {
            return Some(Place::One(entry));
        }
        let entry = entry::read(entry).filter(|_| heads == Heads::All);
        entry.map(Place::Many)
    }

    fn address(&self) -> &'a str {
        match self {
            Place::One(entry) => entry.address,
            Place::Many(entry) => entry.address,
        }
    }

    fn lease(&self) -> Duration {
        match self {
            Place::One(entry) => entry.lease,
            Place::Many(entry) => entry.lease,
        }
    }
}
