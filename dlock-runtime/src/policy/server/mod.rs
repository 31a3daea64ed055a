//! The server's side of the protocol: what the Lua scripts do, as a pure machine.
//!
//! `memory://` runs it, a model checker explores it, and `backend/redis/lua` is tested against it
//! operation by operation. `exclusive` has the operations of the lock with one holder, `shared`
//! those of the other kinds, `grant` what they share; `voting` has those of a node of a quorum, whose
//! locks nobody queues for; `inspect` reads.
//!
//! Invariants: a key has one value or one set of holders; `last_epoch` only grows; nothing is
//! created for a claim after its `not_after`; only `acquire` creates, and a grant only out of the
//! queue; nothing shortens a lease; an operation that finds room grants to the head of the queue
//! first.
//!
//! Never in this folder: a rule that the scripts of `backend/redis/lua` do not have too.

mod acquire_all;
mod exclusive;
mod grant;
#[cfg(test)]
mod hooks;
mod inspect;
mod locks;
mod queues;
mod set;
mod shared;
mod voting;

use std::sync::Arc;
use std::time::Duration;

use self::locks::{Lock, Locks};
use self::queues::ServerQueues;
use self::voting::Hints;
use super::commands::{
    Acquire, Acquired, Busy, Cancelled, Claim, GivenBack, Keep, Left, Polled, PushedGrant, Renewal,
    Renewed,
};
use super::queue;
use crate::values::entry::{self, Entry};
use crate::values::ttl;

/// Delivers a grant to its waiter.
pub(crate) trait Publish {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached;

    /// Tells a client that was outvoted that the key is free at this node.
    fn hint(&mut self, _address: &str, _key: &Arc<str>) -> Reached {
        Reached::Nobody
    }
}

/// Who received a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reached {
    /// The waiter is dead, or its connection, and with it its entry, is lost: the next one is
    /// granted.
    Nobody,
    Somebody,
    /// The server refuses to publish: the waiter's poll will find the grant.
    #[cfg_attr(not(test), allow(dead_code, reason = "`memory://` always knows"))]
    Unknown,
}

/// All locks of one server, and their queues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    locks: Locks,
    queues: ServerQueues,
    hints: Hints,
    last_epoch: u64,
    /// The longest lease of a grant from the queue.
    claim: Duration,
    /// At this number of keys, the lapsed ones are dropped.
    sweep_at: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            locks: Locks::default(),
            queues: ServerQueues::default(),
            hints: Hints::default(),
            last_epoch: 0,
            claim: queue::CLAIM,
            sweep_at: 0,
        }
    }
}

impl Server {
    /// A server inside the process of its waiters, which grants whole leases. A short claim
    /// protects against processes that have stopped; here it would only be lost by a body that
    /// blocks the runtime which has to extend it.
    pub(crate) fn in_process() -> Self {
        Self {
            claim: Duration::MAX,
            ..Self::default()
        }
    }

    pub(crate) fn acquire(
        &mut self,
        command: &Acquire,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Acquired {
        if time > command.not_after {
            return Acquired::Late { time };
        }
        match shared(&command.claim) {
            None => self.acquire_exclusive(command, time, publish),
            Some(entry) => self.acquire_shared(command, &entry, time, publish),
        }
    }

    /// What became of a claim in the queue; counts as a sign of life.
    pub(crate) fn poll(&mut self, claim: &Claim, time: u64, publish: &mut dyn Publish) -> Polled {
        match shared(claim) {
            None => self.poll_exclusive(claim, time, publish),
            Some(entry) => self.poll_shared(claim, &entry, time, publish),
        }
    }

    /// Gives the lock back; if it is to be kept, the entry stays without an owner instead.
    pub(crate) fn release(
        &mut self,
        claim: &Claim,
        keep: Keep,
        time: u64,
        publish: &mut dyn Publish,
    ) -> GivenBack {
        match shared(claim) {
            None => GivenBack {
                found: self.release_exclusive(claim, keep, time, publish),
                rest: 0,
                is_open: false,
            },
            Some(entry) => self.release_shared(claim, &entry, keep, time, publish),
        }
    }

    /// As `release`, for a claim that may be in the queue, or whose acquire may not have arrived
    /// yet.
    pub(crate) fn cancel(
        &mut self,
        claim: &Claim,
        keep: Keep,
        not_after: u64,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Cancelled {
        let waited = self.queues.leave(&claim.key, claim.queue_entry(), time);
        let given_back = self.release(claim, keep, time, publish);
        let found = waited || given_back.found;
        Cancelled {
            time,
            found,
            conclusive: found || time > not_after,
            rest: given_back.rest,
        }
    }

    pub(crate) fn renew(&mut self, item: &Renewal, time: u64) -> Renewed {
        if item.claim.kind().is_shared() {
            self.renew_shared(item, time)
        } else {
            self.renew_exclusive(item, time)
        }
    }

    pub(crate) fn holds(&mut self, claim: &Claim, time: u64) -> bool {
        match self.locks.live(&claim.key, time) {
            None => false,
            Some(Lock::One(held)) => held.value == claim.value,
            Some(Lock::Many(set)) => set.held_as(&claim.value).is_some(),
        }
    }

    /// The value at the key, or the entry of the first holder.
    pub(crate) fn read(&mut self, key: &str, time: u64) -> Option<String> {
        match self.locks.live(key, time)? {
            Lock::One(held) => Some(held.value.to_string()),
            Lock::Many(set) => set.named().map(|entry| entry.to_string()),
        }
    }

    fn in_the_way(&mut self, key: &str, time: u64) -> Busy {
        let (left, value) = match self.locks.live(key, time) {
            Some(Lock::One(held)) => (
                held.left(time).map_or(Left::Endless, Left::For),
                held.value.to_string(),
            ),
            Some(Lock::Many(set)) => (
                Left::For(locks::left(set.next_end().unwrap_or(time), time)),
                set.named().map(|it| it.to_string()).unwrap_or_default(),
            ),
            // Behind a queue entry that can't be read, or a writer that was told at a node.
            None => (Left::For(Duration::ZERO), String::new()),
        };
        Busy { time, left, value }
    }

    /// Above all earlier epochs, and above the clock, so that epochs grow even after `last_epoch`
    /// is lost.
    fn draw_epoch(&mut self, time: u64) -> u64 {
        self.last_epoch = time.max(self.last_epoch + 1);
        self.last_epoch
    }

    /// Drops what has lapsed whenever the number of keys has doubled: constant cost for each
    /// insert.
    fn sweep(&mut self, time: u64) {
        let stored = |it: &Self| it.locks.len() + it.queues.len() + it.hints.len();
        if stored(self) >= self.sweep_at.max(64) {
            self.locks.sweep(time);
            self.queues.sweep(time);
            self.hints.sweep(time);
            self.sweep_at = stored(self) * 2;
        }
    }
}

/// The entry of a claim of a kind with many holders.
fn shared(claim: &Claim) -> Option<Entry<'_>> {
    entry::read(&claim.value).filter(|entry| entry.letter.is_shared())
}

fn micros(duration: Duration) -> u64 {
    ttl::millis(duration).saturating_mul(1000)
}
