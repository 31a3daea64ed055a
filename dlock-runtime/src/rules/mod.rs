//! The server's side of the protocol: what the Lua scripts do, as a pure machine.
//!
//! `memory://` runs it, a model checker explores it, and `rules/lua` is tested against it
//! operation by operation. `key_state` is what is stored about a key: `lock` (a value, or a `set` of
//! holders), `wait_queue`, `last_run` and `hints`. `operations` has what is done with it, for all kinds at once,
//! and `grant` what each operation ends with; `acquire_all` takes several keys; `window` loads a key's
//! state from elsewhere, `row` from the row of a table; `voting` has what only a node of a quorum does,
//! whose locks nobody queues for;
//! `inspect` reads. A client says what it wants by `commands`, of a node by `ballots`; `queue` has the
//! times of the queue. `lua` is all of it once more, for a server that runs scripts.
//!
//! Invariants: a key has one value or one set of holders; `last_epoch` only grows; nothing is
//! created for a claim after its `not_after`; only `acquire` creates, and a grant only out of the
//! queue; nothing shortens a lease; an operation that finds room grants to the head of the queue
//! first.
//!
//! Never in this folder: `await`, reading a clock, I/O, a mutex; a rule that the scripts of `lua` do not
//! have too.

mod acquire_all;
pub(crate) mod ballots;
pub(crate) mod commands;
mod grant;
mod hints;
#[cfg(test)]
mod hooks;
mod inspect;
mod key_state;
pub(crate) mod last_run;
mod lock;
pub(crate) mod lua;
pub(crate) mod operations;
pub(crate) mod queue;
#[cfg(any(test, feature = "postgres"))]
pub(crate) mod row;
mod set;
#[cfg(test)]
pub(crate) mod tests;
mod voting;
mod wait_queue;
pub(crate) mod window;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::key_state::KeyState;
use self::operations::OnKey;
use crate::rules::ballots::{Adopted, Ballot, Vote};
use crate::rules::commands::{
    Acquire, Acquired, Cancelled, Claim, GivenBack, Keep, NotDue, Polled, PushedGrant, Renewal,
    Renewed, RunNote,
};
use crate::values::ttl::{self, Ttl};

/// Delivers a grant to its waiter.
pub(crate) trait Publish {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached;

    /// Tells a waiter that its entry was taken out of the queue, so that it asks why.
    fn taken_out(&mut self, _address: &str, _key: &Arc<str>, _entry: &Arc<str>) {}

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
    /// The server can't tell, or refuses to publish: the waiter's poll will find the grant.
    Unknown,
}

/// All locks of one server, and their queues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    keys: BTreeMap<Arc<str>, KeyState>,
    last_epoch: u64,
    /// The longest lease of a grant from the queue.
    claim: Duration,
    /// At this number of keys, the lapsed ones are dropped.
    sweep_at: usize,
    /// An operation came to the end of a window, and must be run again on a whole queue.
    more: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            last_epoch: 0,
            claim: queue::CLAIM,
            sweep_at: 0,
            more: false,
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
        self.on(&command.claim.key, time, publish, |it| it.acquire(command))
    }

    /// What became of a claim in the queue; counts as a sign of life.
    pub(crate) fn poll(&mut self, claim: &Claim, time: u64, publish: &mut dyn Publish) -> Polled {
        self.on(&claim.key, time, publish, |it| it.poll(claim))
    }

    /// Gives the lock back; if it is to be kept, the entry stays without an owner instead.
    pub(crate) fn release(
        &mut self,
        claim: &Claim,
        keep: Keep,
        time: u64,
        publish: &mut dyn Publish,
    ) -> GivenBack {
        self.on(&claim.key, time, publish, |it| it.release(claim, keep))
    }

    /// As `release`, for a claim that may be in the queue, or whose acquire may not have arrived
    /// yet. At a node of a quorum it takes the vote back.
    pub(crate) fn cancel(
        &mut self,
        claim: &Claim,
        keep: Keep,
        not_after: u64,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Cancelled {
        let cancel = |it: &mut OnKey<'_>| it.cancel(claim, keep, not_after);
        self.on(&claim.key, time, publish, cancel)
    }

    /// Turns a writer into a reader; whether the claim is a reader now.
    pub(crate) fn downgrade(
        &mut self,
        claim: &Claim,
        ttl: Ttl,
        time: u64,
        publish: &mut dyn Publish,
    ) -> bool {
        self.on(&claim.key, time, publish, |it| it.downgrade(claim, ttl))
    }

    /// Asks a node of a quorum for its vote.
    pub(crate) fn vote(&mut self, ballot: &Ballot, time: u64, publish: &mut dyn Publish) -> Vote {
        self.on(&ballot.claim.key, time, publish, |it| it.vote(ballot))
    }

    /// Raises the epoch of a node to that of the quorum.
    pub(crate) fn adopt(&mut self, claim: &Claim, epoch: u64, time: u64) -> Adopted {
        self.on(&claim.key, time, &mut ToNobody, |it| it.adopt(claim, epoch))
    }

    pub(crate) fn renew(&mut self, renewal: &Renewal, time: u64) -> Renewed {
        let state = self.live(&renewal.claim.key, time);
        state.map_or(Renewed::NotOurs, |it| it.renew(renewal, time))
    }

    /// Notes before its body that a claim runs, if it holds the lock; whether it does.
    pub(crate) fn note_run(&mut self, claim: &Claim, run: RunNote, time: u64) -> bool {
        self.on(&claim.key, time, &mut ToNobody, |it| {
            it.note_run(claim, run)
        })
    }

    /// The record beside the lock, and how long it forbids another run by its own period.
    pub(crate) fn last_run(&mut self, key: &str, time: u64) -> Option<NotDue> {
        Some(self.live(key, time)?.record.as_ref()?.told(time))
    }

    /// Removes it; whether there was one.
    pub(crate) fn clear_record(&mut self, key: &str, time: u64) -> bool {
        let state = self.live(key, time);
        let cleared = state.is_some_and(|it| it.record.take().is_some());
        let _ = self.live(key, time); // what is empty is not stored
        cleared
    }

    pub(crate) fn holds(&mut self, claim: &Claim, time: u64) -> bool {
        let state = self.live(&claim.key, time);
        state.is_some_and(|it| it.holds(&claim.value))
    }

    /// The value at the key, or the entry of the first holder.
    pub(crate) fn read(&mut self, key: &str, time: u64) -> Option<String> {
        let lock = self.live(key, time)?.lock.as_ref()?;
        lock.named().map(|it| it.to_string())
    }

    /// Runs an operation on a key, of which nothing is lapsed.
    fn on<T>(
        &mut self,
        key: &Arc<str>,
        time: u64,
        publish: &mut dyn Publish,
        run: impl FnOnce(&mut OnKey<'_>) -> T,
    ) -> T {
        self.sweep(time);
        let state = self.keys.entry(key.clone()).or_default();
        state.tidy_at(self.last_epoch, time);
        let mut on_key = OnKey {
            key,
            state: &mut *state,
            last_epoch: &mut self.last_epoch,
            claim: self.claim,
            time,
            publish,
            more: false,
        };
        let answer = run(&mut on_key);
        self.more |= on_key.more;
        if state.is_empty() {
            self.keys.remove(key);
        }
        answer
    }

    /// What is stored about a key and has not lapsed.
    fn live(&mut self, key: &str, time: u64) -> Option<&mut KeyState> {
        self.keys.get_mut(key)?.tidy(time);
        if self.keys.get(key)?.is_empty() {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    /// Drops what has lapsed whenever the number of keys has doubled: constant cost for each
    /// insert.
    fn sweep(&mut self, time: u64) {
        if self.keys.len() >= self.sweep_at.max(64) {
            self.drop_lapsed(time);
            self.sweep_at = self.keys.len() * 2;
        }
    }

    fn drop_lapsed(&mut self, time: u64) {
        self.keys.retain(|_, state| {
            state.tidy(time);
            !state.is_empty()
        });
    }
}

/// Where nobody is told of anything.
struct ToNobody;

impl Publish for ToNobody {
    fn publish(&mut self, _: &str, _: &PushedGrant) -> Reached {
        Reached::Nobody
    }
}

fn micros(duration: Duration) -> u64 {
    ttl::millis(duration).saturating_mul(1000)
}
