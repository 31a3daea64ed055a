//! The operations on the lock of one key, for all kinds: the kinds differ in what fits beside what.
//!
//! Invariant: each operation but `renew` ends with grants to the head of the queue, whatever it
//! found; otherwise a head that fits would sleep until its poll. Nobody fits beside a value, so an
//! operation that finds one is spared the search.

use std::sync::Arc;
use std::time::Duration;

use super::key_state::KeyState;
use super::lock::{self, Lock};
use super::wait_queue::QueueHead;
use super::{Publish, micros};
use crate::rules::commands::{
    Acquire, Acquired, Busy, Cancelled, Claim, GivenBack, Keep, Left, NotDue, Polled, Renewal,
    Renewed, RunNote, RunOutcome,
};
use crate::values::entry::{self, Entry, Letter};
use crate::values::ttl::Ttl;

/// One operation on one key, at one moment.
pub(crate) struct OnKey<'a> {
    pub(super) key: &'a Arc<str>,
    pub(super) state: &'a mut KeyState,
    pub(super) last_epoch: &'a mut u64,
    /// The longest lease of a grant from the queue.
    pub(super) claim: Duration,
    pub(super) time: u64,
    pub(super) publish: &'a mut dyn Publish,
    /// The operation came to the end of its window, and must be run again on the next one.
    pub(super) more: bool,
}

/// What an entry may do at a key as it is, besides waiting.
#[derive(Debug)]
pub(super) enum Admission {
    /// It holds the lock.
    Holds,
    Fits,
    /// Another kind of lock stands there, and it does not wait.
    OtherKind(String),
    Taken,
}

impl OnKey<'_> {
    pub(crate) fn acquire(&mut self, command: &Acquire) -> Acquired {
        let (claim, time) = (&command.claim, self.time);
        if time > command.not_after {
            return Acquired::Late { time };
        }
        let entry = entry_of(claim);
        // Drawn first, so that a server that is out of memory refuses a script as a whole; where a
        // value stands, nothing is created unless the claim enters the queue.
        let drawn = (!self.state.is_taken()).then(|| self.draw_epoch());
        self.grant_next();
        if let Some((epoch, left)) = self.yours(claim) {
            return Acquired::Yours { time, epoch, left };
        }
        if self.more {
            return Acquired::Busy(self.state.busy(time)); // which is not looked at
        }
        if self.state.queue.has(claim.queue_entry()) {
            self.state.queue.beat(&claim.value, time);
            return Acquired::Queued(self.before_who_waits());
        }
        if let Some(not_due) = self.not_due(claim) {
            return Acquired::NotDue(not_due);
        }
        match self.admission(claim, &entry, claim.queues) {
            Admission::OtherKind(there) => {
                return Acquired::WrongKind {
                    time,
                    there,
                    is_open: false,
                };
            }
            Admission::Fits if self.state.queue.is_empty() || self.is_owners(&entry) => {
                let epoch = drawn.unwrap_or_else(|| self.draw_epoch());
                let at = (epoch, time);
                let epoch = (self.state).put(&claim.value, &entry, command.lease.get(), at);
                return Acquired::Granted { time, epoch };
            }
            _ => {}
        }
        self.repair(command);
        let is_endless = self.state.lock.as_ref().is_some_and(Lock::is_endless);
        if !claim.queues || is_endless {
            return Acquired::Busy(self.state.busy(time));
        }
        let arrival = drawn.unwrap_or_else(|| self.draw_epoch());
        self.state.queue.enter(&claim.value, arrival, time);
        Acquired::Queued(self.before_who_waits())
    }

    /// Gives a value without an end one, if the command may.
    pub(crate) fn repair(&mut self, command: &Acquire) {
        if let (Some(Lock::One(held)), Some(repair)) =
            (&mut self.state.lock, command.repair_missing_ttl)
        {
            held.expires.get_or_insert(self.time + micros(repair));
        }
    }

    pub(crate) fn poll(&mut self, claim: &Claim) -> Polled {
        let (time, queued, entry) = (self.time, claim.queue_entry(), entry_of(claim));
        // Before lapsed entries are dropped: a waiter that polls is alive, even if its heartbeat
        // has just lapsed.
        self.state.queue.beat(queued, time);
        self.grant_next();
        if let Some((epoch, left)) = self.yours(claim) {
            return Polled::Yours { time, epoch, left };
        } else if !self.state.queue.has(queued) {
            let not_due = self.not_due(claim);
            return not_due.map_or(Polled::Gone { time }, Polled::NotDue);
        } else if self.more {
            return Polled::Queued(self.state.busy(time)); // which is not looked at
        } else if !self.is_owners(&entry) {
            return Polled::Queued(self.before_who_waits());
        }
        self.state.queue.leave(queued);
        let lease = entry.lease.min(self.claim);
        let at = (self.draw_epoch(), time);
        self.state.put(&claim.value, &entry, lease, at);
        match self.yours(claim) {
            Some((epoch, left)) => Polled::Yours { time, epoch, left },
            None => Polled::Gone { time },
        }
    }

    /// Gives the lock back; if it is to be kept, the entry stays without an owner instead. Then others
    /// have their turn: the head of the queue, or at a node of a quorum who wants to be told.
    pub(crate) fn release(&mut self, claim: &Claim, keep: Keep) -> GivenBack {
        let found = self.state.remove(&claim.value, keep, self.time);
        let is_recorded = keep.run().is_some_and(|run| {
            // A release that is repeated may have found the lock the first time.
            let noted = found && self.state.note_run(&claim.value, run, self.time);
            noted || run.outcome == RunOutcome::Succeeded && self.state.is_of_run(run)
        });
        let is_owners = found && claim.kind() == Letter::Owner;
        let rest = self.state.set().filter(|_| is_owners);
        let rest = rest.map_or(0, |set| set.count());
        self.grant_next();
        if found && self.state.is_free() {
            self.hint();
        }
        GivenBack {
            found,
            rest,
            is_open: false,
            is_recorded,
        }
    }

    /// As `release`, for a claim that may be in the queue, or whose acquire may not have arrived
    /// yet.
    pub(crate) fn cancel(&mut self, claim: &Claim, keep: Keep, not_after: u64) -> Cancelled {
        let waited = self.state.queue.leave(claim.queue_entry());
        let given_back = self.release(claim, keep);
        let found = waited || given_back.found;
        Cancelled {
            time: self.time,
            found,
            conclusive: found || self.time > not_after,
            rest: given_back.rest,
            is_recorded: given_back.is_recorded,
        }
    }

    /// Turns a writer's entry into a reader's, and grants to waiters that fit now, or tells one of
    /// them at a node of a quorum.
    pub(crate) fn downgrade(&mut self, claim: &Claim, ttl: Ttl) -> bool {
        let (time, until) = (self.time, self.time + ttl.as_millis() * 1000);
        let set = self.state.set();
        let reads = set.is_some_and(|set| set.downgrade(&claim.value, until, time));
        self.grant_next();
        if reads {
            self.hint();
        }
        reads
    }

    /// Why a claim may not run now.
    pub(crate) fn not_due(&mut self, claim: &Claim) -> Option<NotDue> {
        let entry = entry_of(claim);
        self.state.not_due(&claim.value, &entry, self.time)
    }

    /// Notes before its body that a claim runs, if it holds the lock; whether it does.
    pub(crate) fn note_run(&mut self, claim: &Claim, run: RunNote) -> bool {
        let holds = self.state.holds(&claim.value);
        if holds {
            self.state.record_run(&claim.value, run, 0, self.time);
        }
        holds
    }

    /// Extends a claim's lease, and never shortens it.
    pub(crate) fn renew(&mut self, renewal: &Renewal) -> Renewed {
        self.state.renew(renewal, self.time)
    }

    pub(super) fn admission(&self, claim: &Claim, entry: &Entry<'_>, waits: bool) -> Admission {
        let other = || self.state.lock.as_ref()?.other_kind(entry);
        if self.state.holds(&claim.value) {
            Admission::Holds
        } else if self.state.fits(entry) {
            Admission::Fits
        } else if !waits && let Some(there) = other() {
            Admission::OtherKind(there)
        } else {
            Admission::Taken
        }
    }

    /// The epoch of a claim that holds the lock, and how long it still does. All entries of an
    /// owner's hold share one epoch; each other claim gets a new one.
    pub(super) fn yours(&mut self, claim: &Claim) -> Option<(u64, Duration)> {
        let lock = self.state.lock.as_ref()?;
        let left = lock.left_of(&claim.value, self.time)?;
        let epoch = lock.epoch().unwrap_or_else(|| self.draw_epoch());
        Some((epoch, left))
    }

    /// What is in the way of a queue entry: a holder, or where others fit the head of the queue, which
    /// may be dead. When either ends, polling again makes sense.
    fn before_who_waits(&self) -> Busy {
        let mut busy = self.state.busy(self.time);
        if let (false, Left::For(left), QueueHead::Entry(head)) =
            (self.state.is_taken(), busy.left, self.state.queue.first())
        {
            busy.left = Left::For(left.min(lock::left(head.alive_until(), self.time)));
        }
        busy
    }

    /// Whether the requesting owner holds the lock already. Then it passes the queue, for it would
    /// wait behind waiters that wait for it.
    fn is_owners(&mut self, entry: &Entry<'_>) -> bool {
        let is_owner = entry.letter == Letter::Owner;
        is_owner && self.state.set().is_some_and(|set| set.fits(entry))
    }

    /// Above all earlier epochs, and above the clock, so that epochs grow even after `last_epoch`
    /// is lost.
    pub(super) fn draw_epoch(&mut self) -> u64 {
        self.draw_from(self.time)
    }

    /// Above all earlier epochs, and at least this.
    pub(super) fn draw_from(&mut self, least: u64) -> u64 {
        *self.last_epoch = least.max(self.last_epoch.saturating_add(1));
        *self.last_epoch
    }
}

/// The entry of a claim. A value that can't be read is that of an exclusive lock, as any that is SET
/// at a key.
pub(super) fn entry_of(claim: &Claim) -> Entry<'_> {
    entry::read(&claim.value).unwrap_or(Entry {
        letter: Letter::Exclusive,
        token: "",
        address: "",
        lease: Duration::ZERO,
        take: 1,
        of: 0,
        once_per: None,
        owner: "",
        description: "",
    })
}
