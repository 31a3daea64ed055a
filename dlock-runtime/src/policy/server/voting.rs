//! The operations of a server that is one node of a quorum: it votes for one claim, and tells those
//! whom it outvoted when its key is free.
//!
//! Nobody queues at a node, and nothing is granted in turn: a hint says that it is worth asking
//! again. Invariants: `last_epoch` only grows, and is at least every number that a holder of a key
//! holds here; a number is adopted only by a claim that holds the lock here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Publish, Reached, Server, locks, micros, shared};
use crate::policy::commands::{Cancelled, Claim, GivenBack, Keep, Left};
use crate::policy::quorum::commands::{
    Adopted, Ballot, HINTS_AT_ONCE, HINTS_TTL, Outvoted, Vote, WRITER_COMES, WRITER_WAITS,
};
use crate::values::entry::{self, Entry, Letter};

/// Whom to give a hint, for each key, in the order in which they were outvoted; but a writer that
/// readers keep out comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Hints(BTreeMap<Arc<str>, Wanting>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wanting {
    addresses: Vec<Arc<str>>,
    /// The writers that readers keep out, and until when each counts as waiting.
    writers: BTreeSet<(u64, Arc<str>)>,
    expires: u64,
}

/// The one to tell next.
struct NextTold {
    address: Arc<str>,
    /// Set for a writer: until when it counts as waiting.
    writer_until: Option<u64>,
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
            writers: BTreeSet::new(),
            expires: 0,
        });
        wanting.expires = time + micros(HINTS_TTL);
        wanting
    }

    /// Keeps new readers out for a while.
    fn writer_waits(&mut self, key: &Arc<str>, address: &Arc<str>, time: u64) {
        let wanting = self.prolonged(key, time);
        wanting.writers.retain(|(_, it)| it != address);
        let until = time + micros(WRITER_WAITS);
        wanting.writers.insert((until, address.clone()));
    }

    /// Until when the last writer counts as waiting, if one does. If the clock was set back since it
    /// asked, that counts as asked now.
    fn a_writer_waits_until(&mut self, key: &str, time: u64) -> Option<u64> {
        let wanting = self.live(key, time)?;
        let latest = time + micros(WRITER_WAITS);
        if wanting.writers.last()?.0 > latest {
            let writers = std::mem::take(&mut wanting.writers).into_iter();
            wanting.writers = writers.map(|(until, it)| (until.min(latest), it)).collect();
        }
        let (until, _) = wanting.writers.last()?;
        (*until > time).then_some(*until)
    }

    /// Afterwards the others have their turns: readers that wait, and writers when they ask again.
    fn writer_is_in(&mut self, key: &str) {
        if let Some(wanting) = self.0.get_mut(key) {
            wanting.writers.clear();
            self.forget_if_empty(key);
        }
    }

    fn forget_if_empty(&mut self, key: &str) {
        let is_empty = |it: &Wanting| it.addresses.is_empty() && it.writers.is_empty();
        if self.0.get(key).is_some_and(is_empty) {
            self.0.remove(key);
        }
    }

    fn forget_lapsed_writers(&mut self, key: &str, time: u64) {
        if let Some(wanting) = self.live(key, time) {
            wanting.writers.retain(|(until, _)| *until > time);
            self.forget_if_empty(key);
        }
    }

    /// A writer comes first, and stays until it has been told.
    fn next(&mut self, key: &str, time: u64) -> Option<NextTold> {
        let wanting = self.live(key, time)?;
        let next = if let Some((until, address)) = wanting.writers.first().cloned() {
            wanting.addresses.retain(|it| *it != address);
            NextTold {
                address,
                writer_until: Some(until),
            }
        } else {
            let address = wanting.addresses.first()?.clone();
            wanting.addresses.remove(0);
            NextTold {
                address,
                writer_until: None,
            }
        };
        self.forget_if_empty(key);
        Some(next)
    }

    /// A writer that listens, or that asks so often that it needs no hint, has some time to come.
    /// After that no writer counts as waiting until it asks again.
    fn writer_was_told(&mut self, key: &str, next: &NextTold, comes: bool, time: u64) {
        let (Some(until), Some(wanting)) = (next.writer_until, self.live(key, time)) else {
            return;
        };
        wanting.writers.remove(&(until, next.address.clone()));
        if comes {
            let last = time + micros(WRITER_COMES);
            wanting.writers.retain(|(until, _)| *until <= last);
            wanting
                .writers
                .insert((until.min(last), next.address.clone()));
        }
        self.forget_if_empty(key);
    }

    #[cfg(test)]
    pub(super) fn writers(&mut self, key: &str, time: u64) -> Vec<Arc<str>> {
        let wanting = self.live(key, time);
        let writers = wanting.iter().flat_map(|it| &it.writers);
        writers.map(|(_, address)| address.clone()).collect()
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
            Some(entry) => self.fits(key, entry, time),
        };
        let held_back = match &entry {
            Some(entry) if fits => self.held_back_until(key, entry, time),
            _ => None,
        };
        if !fits || held_back.is_some() {
            let mut outvoted = self.outvoted(key, hint_to, time);
            if let Some(until) = held_back.filter(|_| self.locks.is_free(key, time)) {
                outvoted.busy.left = Left::For(locks::left(until, time));
                entry::LEFT_TO_A_WRITER.clone_into(&mut outvoted.busy.value);
            }
            let is_read = entry::read(&outvoted.busy.value)
                .is_some_and(|holder| holder.letter == Letter::Reader);
            if ballot.waits() && claim.kind() == Letter::Writer && is_read {
                self.hints.writer_waits(key, hint_to, time);
            }
            return Vote::Busy(outvoted);
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

    /// Until when a reader that would fit leaves the turn to a writer, also if the lock is free:
    /// otherwise readers that come one after the other would keep it out for ever.
    fn held_back_until(&mut self, key: &str, entry: &Entry<'_>, time: u64) -> Option<u64> {
        let is_reader = entry.letter == Letter::Reader;
        is_reader.then(|| self.hints.a_writer_waits_until(key, time))?
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
        Some(set.to_string())
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

    /// Takes the vote back: the lock is released, or was not won. If it is to be kept, what stood
    /// there stays without an owner. Conclusive: nothing of the claim is here, nor can appear later.
    pub(crate) fn take_back_vote(
        &mut self,
        claim: &Claim,
        (keep, not_after): (Keep, u64),
        time: u64,
        publish: &mut dyn Publish,
    ) -> Cancelled {
        let GivenBack { found, rest, .. } = match shared(claim) {
            None => GivenBack {
                found: self.give_back(claim, keep, time),
                ..GivenBack::default()
            },
            Some(entry) => self.give_back_shared(claim, &entry, keep, time),
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

    /// Tells the first address that listens that the key is free; a writer that readers kept out
    /// comes before all others.
    pub(super) fn hint(&mut self, key: &Arc<str>, time: u64, publish: &mut dyn Publish) {
        self.hints.forget_lapsed_writers(key, time);
        for _ in 0..HINTS_AT_ONCE {
            let Some(next) = self.hints.next(key, time) else {
                return;
            };
            let comes =
                next.address.is_empty() || publish.hint(&next.address, key) != Reached::Nobody;
            self.hints.writer_was_told(key, &next, comes, time);
            if comes {
                return;
            }
        }
    }

    fn draw_proposed(&mut self, proposal: u64) -> u64 {
        self.last_epoch = proposal.max(self.last_epoch.saturating_add(1));
        self.last_epoch
    }
}
