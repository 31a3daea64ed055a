//! The operations of a server that is one node of a quorum: it votes for one claim, and tells those
//! whom it outvoted when its key is free.
//!
//! Nobody queues at a node, and nothing is granted in turn: a hint says that it is worth asking
//! again. Invariants: `last_epoch` only grows, and is at least every number that a holder of a key
//! holds here; a number is adopted only by a claim that holds the lock here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Publish, Reached, Server, micros, shared};
use crate::policy::commands::{Cancelled, Claim, GivenBack};
use crate::policy::quorum::commands::{
    Adopted, Ballot, HINTS_AT_ONCE, HINTS_TTL, Outvoted, Vote, WRITER_WAITS,
};
use crate::values::entry::{Entry, Letter};

/// Whom to give a hint, for each key, in the order in which they were outvoted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Hints(BTreeMap<Arc<str>, Wanting>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wanting {
    addresses: Vec<Arc<str>>,
    /// Until when a writer counts as waiting.
    writer_until: u64,
    expires: u64,
}

impl Hints {
    fn live(&mut self, key: &str, time: u64) -> Option<&mut Wanting> {
        if self.0.get(key).is_some_and(|it| it.expires <= time) {
            self.0.remove(key);
        }
        self.0.get_mut(key)
    }

    /// Adds an address behind all others, or leaves it where it is; returns how many are before it.
    fn enter(&mut self, key: &Arc<str>, address: &Arc<str>, time: u64) -> usize {
        let wanting = self.prolonged(key, time);
        let known = wanting.addresses.iter().position(|it| it == address);
        known.unwrap_or_else(|| {
            wanting.addresses.push(address.clone());
            wanting.addresses.len() - 1
        })
    }

    fn prolonged(&mut self, key: &Arc<str>, time: u64) -> &mut Wanting {
        self.live(key, time);
        let wanting = self.0.entry(key.clone()).or_insert(Wanting {
            addresses: Vec::new(),
            writer_until: 0,
            expires: 0,
        });
        wanting.expires = time + micros(HINTS_TTL);
        wanting
    }

    /// Keeps new readers out for a while.
    fn writer_waits(&mut self, key: &Arc<str>, time: u64) {
        self.prolonged(key, time).writer_until = time + micros(WRITER_WAITS);
    }

    fn does_a_writer_wait(&mut self, key: &str, time: u64) -> bool {
        self.live(key, time)
            .is_some_and(|wanting| wanting.writer_until > time)
    }

    fn writer_is_in(&mut self, key: &str) {
        if let Some(wanting) = self.0.get_mut(key) {
            wanting.writer_until = 0;
            self.forget_if_empty(key);
        }
    }

    fn forget_if_empty(&mut self, key: &str) {
        let is_empty = |it: &Wanting| it.addresses.is_empty() && it.writer_until == 0;
        if self.0.get(key).is_some_and(is_empty) {
            self.0.remove(key);
        }
    }

    fn next(&mut self, key: &str, time: u64) -> Option<Arc<str>> {
        let wanting = self.live(key, time)?;
        let next = (!wanting.addresses.is_empty()).then(|| wanting.addresses.remove(0));
        if next.is_none() {
            wanting.writer_until = 0; // as in the scripts, where it is the last one in the list
        }
        self.forget_if_empty(key);
        next
    }

    #[cfg(test)]
    pub(super) fn list(&mut self, key: &str, time: u64) -> Option<(Vec<Arc<str>>, u64)> {
        let wanting = self.live(key, time)?;
        Some((wanting.addresses.clone(), wanting.expires))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn sweep(&mut self, time: u64) {
        self.0.retain(|_, wanting| wanting.expires > time);
    }
}

impl Server {
    /// Gives this node's vote to the claim, if it may hold the lock beside those that do.
    pub(crate) fn vote(&mut self, ballot: &Ballot, time: u64, publish: &mut dyn Publish) -> Vote {
        let Ballot {
            claim,
            lease,
            not_after,
            proposal,
            hint_to,
        } = ballot;
        if time > *not_after {
            return Vote::Late { time };
        }
        let key = &claim.key;
        if self.holds(claim, time) {
            // The command was duplicated on its way; what was drawn for it is not above this.
            let epoch = self.epoch_of_hold(key, time).unwrap_or(self.last_epoch);
            return Vote::Granted { time, epoch };
        }
        if !ballot.waits()
            && let Some(there) = self.another_kind(claim, time)
        {
            return Vote::WrongKind { time, there };
        }
        let entry = shared(claim);
        let fits = match &entry {
            None => self.locks.is_free(key, time),
            Some(entry) => self.fits(key, entry, time) && !self.is_held_back(key, entry, time),
        };
        if !fits {
            if ballot.waits() && claim.kind() == Letter::Writer {
                self.hints.writer_waits(key, time);
            }
            return Vote::Busy(self.outvoted(key, hint_to, time));
        }
        let epoch = self.draw_proposed(*proposal);
        self.sweep(time);
        let Some(entry) = entry else {
            self.set(key, &claim.value, time, lease.get());
            return Vote::Granted { time, epoch };
        };
        let epoch = self.add(key, &claim.value, &entry, lease.get(), epoch, time);
        if entry.letter == Letter::Writer {
            self.hints.writer_is_in(key);
        } else {
            self.hint(key, time, publish); // the next one may fit beside it
        }
        Vote::Granted { time, epoch }
    }

    /// Whether a reader that would fit leaves the turn to a writer: otherwise readers that come one
    /// after the other would keep it out for ever.
    fn is_held_back(&mut self, key: &str, entry: &Entry<'_>, time: u64) -> bool {
        entry.letter == Letter::Reader
            && !self.locks.is_free(key, time)
            && self.hints.does_a_writer_wait(key, time)
    }

    fn outvoted(&mut self, key: &Arc<str>, hint_to: &Arc<str>, time: u64) -> Outvoted {
        let busy = self.in_the_way(key, time);
        let rank = if hint_to.is_empty() {
            0
        } else {
            self.hints.enter(key, hint_to, time)
        };
        Outvoted {
            busy,
            last_epoch: self.last_epoch,
            rank: u32::try_from(rank).unwrap_or(u32::MAX),
        }
    }

    /// What stands there, if it is another kind.
    fn another_kind(&mut self, claim: &Claim, time: u64) -> Option<String> {
        if let Some(entry) = shared(claim) {
            return self.other_than(&entry, &claim.key, time);
        }
        let set = self.locks.set(&claim.key, time)?;
        Some(set.meta.to_string())
    }

    /// The epoch that all entries of an owner share.
    fn epoch_of_hold(&mut self, key: &str, time: u64) -> Option<u64> {
        self.locks.set(key, time)?.meta.epoch()
    }

    /// Makes this node draw only higher epochs from now on, if the claim holds the lock here. What
    /// it has drawn since for others, who hold the lock too or another one, is no obstacle: later
    /// holders get a higher epoch all the same.
    pub(crate) fn adopt(&mut self, claim: &Claim, epoch: u64, time: u64) -> Adopted {
        if !self.holds(claim, time) {
            return Adopted::Gone;
        }
        self.last_epoch = self.last_epoch.max(epoch);
        if let Some(set) = self.locks.set(&claim.key, time) {
            set.meta.adopt(epoch);
        }
        Adopted::Yes
    }

    /// Takes the vote back: the lock is released, or was not won. Before `keep_until` what stood
    /// there stays without an owner. Conclusive: nothing of the claim is here, nor can appear later.
    pub(crate) fn take_back_vote(
        &mut self,
        claim: &Claim,
        (keep_until, not_after): (u64, u64),
        time: u64,
        publish: &mut dyn Publish,
    ) -> Cancelled {
        let GivenBack { found, rest, .. } = match shared(claim) {
            None => GivenBack {
                found: self.give_back(claim, keep_until, time),
                ..GivenBack::default()
            },
            Some(entry) => self.give_back_shared(claim, &entry, keep_until, time),
        };
        if found && self.locks.is_free(&claim.key, time) {
            self.hint(&claim.key, time, publish);
        }
        Cancelled {
            time,
            found,
            conclusive: found || time > not_after,
            rest,
        }
    }

    /// Tells the first address that listens that the key is free.
    pub(super) fn hint(&mut self, key: &Arc<str>, time: u64, publish: &mut dyn Publish) {
        for _ in 0..HINTS_AT_ONCE {
            let Some(address) = self.hints.next(key, time) else {
                return;
            };
            if publish.hint(&address, key) != Reached::Nobody {
                return;
            }
        }
    }

    fn draw_proposed(&mut self, proposal: u64) -> u64 {
        self.last_epoch = proposal.max(self.last_epoch.saturating_add(1));
        self.last_epoch
    }
}
