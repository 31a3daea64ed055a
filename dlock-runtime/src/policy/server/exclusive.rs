//! The operations of the exclusive lock: one value stands at the key.
//!
//! They grant a free lock to the first place in its queue if that is an exclusive one. A place of a kind with
//! many holders is left to the commands of its own kind, of which its poll is one: two kinds at one key are a
//! mistake, and the scripts of the common case stay short.

use std::sync::Arc;
use std::time::Duration;

use super::grant::Heads;
use super::locks::{Held, Lock};
use super::{Publish, Server, micros};
use crate::policy::commands::{Acquire, Acquired, Claim, Left, Polled, Renewal, Renewed};
use crate::values::entry;
use crate::values::holder;

impl Server {
    pub(super) fn acquire_exclusive(
        &mut self,
        command: &Acquire,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Acquired {
        let claim = &command.claim;
        self.grant_if_free(&claim.key, time, publish);
        if let Some((epoch, left)) = self.yours_alone(claim, time) {
            return Acquired::Yours { time, epoch, left };
        }
        let is_free = self.locks.is_free(&claim.key, time);
        if is_free && self.queues.is_empty(&claim.key, time) {
            let epoch = self.draw_epoch(time);
            self.sweep(time);
            self.set(&claim.key, &claim.value, time, command.lease.get());
            return Acquired::Granted { time, epoch };
        }
        if let Some(there) = self.other_than_exclusive(claim, time) {
            return Acquired::WrongKind { time, there };
        }
        if let (Some(held), Some(repair)) = (
            self.locks.held(&claim.key, time),
            command.repair_missing_ttl,
        ) {
            held.expires.get_or_insert(time + micros(repair));
        }
        let busy = self.in_the_way(&claim.key, time);
        if claim.place.is_none()
            || busy.left == Left::Endless
            || holder::is_other_layout(&busy.value)
        {
            return Acquired::Busy(busy);
        }
        let arrival = self.draw_epoch(time);
        self.queues.enter(&claim.key, &claim.entry(), arrival, time);
        Acquired::Queued(busy)
    }

    pub(super) fn poll_exclusive(
        &mut self,
        claim: &Claim,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Polled {
        let entry = claim.entry();
        // Before the sweep: who polls is alive, also when its heartbeat has just lapsed.
        self.queues.beat(&claim.key, &entry, time);
        self.grant_if_free(&claim.key, time, publish);
        if let Some((epoch, left)) = self.yours_alone(claim, time) {
            Polled::Yours { time, epoch, left }
        } else if self.queues.has(&claim.key, &entry, time) {
            Polled::Queued(self.in_the_way(&claim.key, time))
        } else {
            Polled::Gone { time }
        }
    }

    pub(super) fn release_exclusive(
        &mut self,
        claim: &Claim,
        keep_until: u64,
        time: u64,
        publish: &mut dyn Publish,
    ) -> bool {
        let found = self.give_back(claim, keep_until, time);
        self.grant_if_free(&claim.key, time, publish);
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

    fn give_back(&mut self, claim: &Claim, keep_until: u64, time: u64) -> bool {
        let Some(held) = self.locks.held(&claim.key, time) else {
            return false;
        };
        if held.value != claim.value {
            return false;
        }
        if keep_until > time {
            // In whole milliseconds, rounded up, as the server keeps them.
            held.expires = Some(time + (keep_until - time).div_ceil(1000) * 1000);
            held.value = retired(&claim.value).into();
        } else {
            self.locks.remove(&claim.key);
        }
        true
    }

    pub(super) fn grant_if_free(&mut self, key: &Arc<str>, time: u64, publish: &mut dyn Publish) {
        if self.locks.is_free(key, time) {
            self.grant_next(key, Heads::Exclusive, time, publish);
        }
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

    /// Holders of another kind, or the first who waits where nobody holds the lock. Who has a place keeps it.
    fn other_than_exclusive(&mut self, claim: &Claim, time: u64) -> Option<String> {
        if self.queues.has(&claim.key, &claim.entry(), time) {
            return None;
        }
        match self.locks.live(&claim.key, time) {
            Some(Lock::One(_)) => None,
            Some(Lock::Many(set)) => Some(set.meta.to_string()),
            None => {
                let head = self.queues.first(&claim.key, time)?.entry;
                entry::read(&head).map(|_| entry::without_token(&head))
            }
        }
    }

    pub(super) fn set(&mut self, key: &Arc<str>, value: &Arc<str>, time: u64, lease: Duration) {
        let held = Held {
            value: value.clone(),
            expires: Some(time + micros(lease)),
        };
        self.locks.insert(key, Lock::One(held));
    }
}

/// A value that holds the lock and answers to nobody: its description stays, its token is no token.
fn retired(value: &str) -> String {
    format!("1|-{}", value.strip_prefix("1|").unwrap_or(value))
}
