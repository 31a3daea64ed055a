//! The operations of the exclusive lock: one value stands at the key.
//!
//! Invariant: an operation that finds no value at the key first grants the lock to the head of its
//! queue, whatever its kind.

use std::sync::Arc;
use std::time::Duration;

use super::locks::{Held, Lock};
use super::{Publish, Server, micros};
use crate::policy::commands::{
    Acquire, Acquired, Busy, Claim, Keep, Left, Polled, Renewal, Renewed,
};
use crate::values::entry;

impl Server {
    pub(super) fn acquire_exclusive(
        &mut self,
        command: &Acquire,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Acquired {
        let claim = &command.claim;
        // If a set of another kind stands at the key, the epoch is drawn first, so that a server
        // that is out of memory refuses the script as a whole.
        let is_shared = self.locks.set(&claim.key, time).is_some();
        let drawn = is_shared.then(|| self.draw_epoch(time));
        self.grant_unless_taken(&claim.key, time, publish);
        if let Some((epoch, left)) = self.yours_alone(claim, time) {
            return Acquired::Yours { time, epoch, left };
        }
        let is_free = self.locks.is_free(&claim.key, time);
        if is_free && self.queues.is_empty(&claim.key, time) {
            let epoch = drawn.unwrap_or_else(|| self.draw_epoch(time));
            self.sweep(time);
            self.set(&claim.key, &claim.value, time, command.lease.get());
            return Acquired::Granted { time, epoch };
        }
        if !claim.queues
            && let Some(set) = self.locks.set(&claim.key, time)
        {
            let there = set.to_string();
            return Acquired::WrongKind {
                time,
                there,
                is_open: false,
            };
        }
        if let (Some(held), Some(repair)) = (
            self.locks.held(&claim.key, time),
            command.repair_missing_ttl,
        ) {
            held.expires.get_or_insert(time + micros(repair));
        }
        let busy = self.in_the_way(&claim.key, time);
        if !claim.queues || busy.left == Left::Endless || entry::is_other_layout(&busy.value) {
            return Acquired::Busy(busy);
        }
        let arrival = drawn.unwrap_or_else(|| self.draw_epoch(time));
        self.queues.enter(&claim.key, &claim.value, arrival, time);
        Acquired::Queued(busy)
    }

    pub(super) fn poll_exclusive(
        &mut self,
        claim: &Claim,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Polled {
        let entry = claim.queue_entry();
        // Before lapsed entries are dropped: a waiter that polls is alive, even if its heartbeat
        // has just lapsed.
        self.queues.beat(&claim.key, entry, time);
        self.grant_unless_taken(&claim.key, time, publish);
        if let Some((epoch, left)) = self.yours_alone(claim, time) {
            Polled::Yours { time, epoch, left }
        } else if self.queues.has(&claim.key, entry, time) {
            Polled::Queued(self.in_the_way(&claim.key, time))
        } else {
            Polled::Gone { time }
        }
    }

    pub(super) fn release_exclusive(
        &mut self,
        claim: &Claim,
        keep: Keep,
        time: u64,
        publish: &mut dyn Publish,
    ) -> bool {
        let found = self.give_back(claim, keep, time);
        self.grant_unless_taken(&claim.key, time, publish);
        found
    }

    pub(super) fn renew_exclusive(&mut self, item: &Renewal, time: u64) -> Renewed {
        match self.locks.held(&item.claim.key, time) {
            Some(held) if held.value == item.claim.value => {
                let until = time + item.ttl.as_millis() * 1000;
                held.expires = Some(held.expires.map_or(until, |before| before.max(until)));
                Renewed::Yes
            }
            _ => Renewed::NotOurs,
        }
    }

    pub(super) fn give_back(&mut self, claim: &Claim, keep: Keep, time: u64) -> bool {
        let Some(held) = self.locks.held(&claim.key, time) else {
            return false;
        };
        if held.value != claim.value {
            return false;
        }
        if let Some(left) = keep.left(time) {
            // In whole milliseconds, rounded up, as the server keeps them.
            held.expires = Some(time + left.div_ceil(1000) * 1000);
            held.value = entry::retired(&claim.value).into();
        } else {
            self.locks.remove(&claim.key);
        }
        true
    }

    /// Whether the key's value has no end, or is of a layout unknown to this version.
    pub(super) fn can_not_be_waited_for(&mut self, key: &str, busy: &Busy, time: u64) -> bool {
        self.locks.held(key, time).is_some()
            && (busy.left == Left::Endless || entry::is_other_layout(&busy.value))
    }

    /// A new epoch for a claim that holds the lock, and how long it still does.
    pub(super) fn yours_alone(&mut self, claim: &Claim, time: u64) -> Option<(u64, Duration)> {
        let held = self.locks.held(&claim.key, time)?;
        if held.value != claim.value {
            return None;
        }
        let left = held.left(time).unwrap_or(Duration::ZERO);
        Some((self.draw_epoch(time), left))
    }

    pub(super) fn set(&mut self, key: &Arc<str>, value: &Arc<str>, time: u64, lease: Duration) {
        let held = Held {
            value: value.clone(),
            expires: Some(time + micros(lease)),
        };
        self.locks.insert(key, Lock::One(held));
    }
}
