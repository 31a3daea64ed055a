//! The operations of the kinds with many holders: read/write, permits, and reentrant with an owner.
//!
//! The kinds differ only in what fits beside what ([`Set::fits`]). Invariant: each public operation
//! but `renew` ends with grants to the head of the queue, whatever it found; otherwise a head that fits
//! would sleep until its poll.

use std::sync::Arc;
use std::time::Duration;

use super::locks::{self, Lock};
use super::set::Set;
use super::{Publish, Server, micros};
use crate::policy::commands::{
    Acquire, Acquired, Busy, Claim, GivenBack, Keep, Left, Polled, Renewal, Renewed,
};
use crate::values::entry::{self, Entry, Letter};
use crate::values::ttl::Ttl;

impl Server {
    pub(super) fn acquire_shared(
        &mut self,
        command: &Acquire,
        entry: &Entry<'_>,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Acquired {
        let (claim, key) = (&command.claim, &command.claim.key);
        let queued = claim.queue_entry();
        let epoch = self.draw_epoch(time);
        self.grant_next(key, time, publish);
        if let Some((epoch, left)) = self.yours_among(claim, time) {
            return Acquired::Yours { time, epoch, left };
        }
        if self.queues.has(key, queued, time) {
            self.queues.beat(key, queued, time);
            return Acquired::Queued(self.before_who_waits(key, time));
        }
        if !claim.queues
            && let Some(there) = self.other_than(entry, key, time)
        {
            return Acquired::WrongKind {
                time,
                there,
                is_open: false,
            };
        }
        let may_enter = self.queues.is_empty(key, time) || self.is_owners(key, entry, time);
        if may_enter && self.fits(key, entry, time) {
            self.sweep(time);
            let lease = command.lease.get();
            let epoch = self.add(key, &claim.value, entry, lease, epoch, time);
            return Acquired::Granted { time, epoch };
        }
        let busy = self.in_the_way(key, time);
        if !claim.queues || self.can_not_be_waited_for(key, &busy, time) {
            return Acquired::Busy(busy);
        }
        self.queues.enter(key, &claim.value, epoch, time);
        Acquired::Queued(self.before_who_waits(key, time))
    }

    pub(super) fn poll_shared(
        &mut self,
        claim: &Claim,
        entry: &Entry<'_>,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Polled {
        let (key, queued) = (&claim.key, claim.queue_entry());
        // Before lapsed entries are dropped: a waiter that polls is alive, even if its heartbeat
        // has just lapsed.
        self.queues.beat(key, queued, time);
        self.grant_next(key, time, publish);
        if self.queues.has(key, queued, time) {
            if !self.is_owners(key, entry, time) {
                return Polled::Queued(self.before_who_waits(key, time));
            }
            self.queues.leave(key, queued, time);
            let (lease, epoch) = (entry.lease.min(self.claim), self.draw_epoch(time));
            self.add(key, &claim.value, entry, lease, epoch, time);
        }
        match self.yours_among(claim, time) {
            Some((epoch, left)) => Polled::Yours { time, epoch, left },
            None => Polled::Gone { time },
        }
    }

    pub(super) fn release_shared(
        &mut self,
        claim: &Claim,
        entry: &Entry<'_>,
        keep: Keep,
        time: u64,
        publish: &mut dyn Publish,
    ) -> GivenBack {
        let given_back = self.give_back_shared(claim, entry, keep, time);
        self.grant_next(&claim.key, time, publish);
        given_back
    }

    pub(super) fn give_back_shared(
        &mut self,
        claim: &Claim,
        entry: &Entry<'_>,
        keep: Keep,
        time: u64,
    ) -> GivenBack {
        let mut given_back = GivenBack::default();
        if let Some(set) = self.locks.set(&claim.key, time) {
            given_back.found = set.give_back(&claim.value, keep, time);
            if given_back.found && entry.letter == Letter::Owner {
                given_back.rest = set.count();
            }
            self.locks.tidy(&claim.key, time);
        }
        given_back
    }

    pub(super) fn renew_shared(&mut self, item: &Renewal, time: u64) -> Renewed {
        let until = time + item.ttl.as_millis() * 1000;
        let set = self.locks.set(&item.claim.key, time);
        if set.is_some_and(|set| set.renew(&item.claim.value, until, time)) {
            Renewed::Yes
        } else {
            Renewed::NotOurs
        }
    }

    /// Turns a writer's entry into a reader's, and grants to waiters that fit now, or tells one of
    /// them at a node of a quorum.
    pub(crate) fn downgrade(
        &mut self,
        claim: &Claim,
        ttl: Ttl,
        time: u64,
        publish: &mut dyn Publish,
    ) -> bool {
        let until = time + ttl.as_millis() * 1000;
        let set = self.locks.set(&claim.key, time);
        let reads = set.is_some_and(|set| set.downgrade(&claim.value, until, time));
        self.grant_next(&claim.key, time, publish);
        if reads {
            self.hint(&claim.key, time, publish);
        }
        reads
    }

    /// Adds a holder; returns its epoch. All entries of an owner's hold share one.
    pub(super) fn add(
        &mut self,
        key: &Arc<str>,
        value: &Arc<str>,
        entry: &Entry<'_>,
        lease: Duration,
        epoch: u64,
        time: u64,
    ) -> u64 {
        let until = time.saturating_add(micros(lease));
        if let Some(set) = self.locks.set(key, time) {
            set.put(value.clone(), entry.take, until, time);
            return set.meta.epoch().unwrap_or(epoch);
        }
        let mut set = Set::new(entry, epoch);
        set.put(value.clone(), entry.take, until, time);
        self.locks.insert(key, Lock::Many(set));
        epoch
    }

    /// What is in the way of a queue entry: a holder, or the head of the queue, which may be dead.
    /// When either ends, polling again makes sense.
    fn before_who_waits(&mut self, key: &str, time: u64) -> Busy {
        let mut busy = self.in_the_way(key, time);
        if let (Left::For(left), Some(head)) = (busy.left, self.queues.first(key, time)) {
            busy.left = Left::For(left.min(locks::left(head.alive_until(), time)));
        }
        busy
    }

    pub(super) fn fits(&mut self, key: &str, entry: &Entry<'_>, time: u64) -> bool {
        match self.locks.live(key, time) {
            None => true,
            Some(Lock::One(_)) => false,
            Some(Lock::Many(set)) => set.fits(entry),
        }
    }

    /// Whether the requesting owner holds the lock already. Then it passes the queue, for it would
    /// wait behind waiters that wait for it.
    fn is_owners(&mut self, key: &str, entry: &Entry<'_>, time: u64) -> bool {
        let set = self.locks.set(key, time);
        entry.letter == Letter::Owner && set.is_some_and(|set| set.fits(entry))
    }

    fn yours_among(&mut self, claim: &Claim, time: u64) -> Option<(u64, Duration)> {
        let set = self.locks.set(&claim.key, time)?;
        // Rounded down: the holder counts on it.
        let left = Duration::from_millis((set.ends(&claim.value)? - time) / 1000);
        let epoch = set.meta.epoch();
        Some((epoch.unwrap_or_else(|| self.draw_epoch(time)), left))
    }

    /// What stands there, if it is another kind. Of a value only its kind: whoever knows the value
    /// may release it.
    pub(super) fn other_than(&mut self, entry: &Entry<'_>, key: &str, time: u64) -> Option<String> {
        match self.locks.live(key, time)? {
            Lock::One(held) => {
                let is_known = !entry::is_other_layout(&held.value);
                is_known.then(|| "1|x|".to_owned())
            }
            Lock::Many(set) => {
                let is_other = !set.meta.is_kind_of(entry);
                is_other.then(|| set.to_string())
            }
        }
    }
}
