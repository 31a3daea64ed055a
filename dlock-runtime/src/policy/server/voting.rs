//! The operations of a server that is one node of a quorum: it votes for one claim, and tells those
//! whom it outvoted when its key is free.
//!
//! Nobody queues at a node, and nothing is granted in turn: a hint says that it is worth asking
//! again. Invariants: `last_epoch` only grows, and is at least every number that a holder of a key
//! holds here; a number is adopted only by the claim that has the key.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::locks::Lock;
use super::{Publish, Reached, Server, micros};
use crate::policy::commands::{Cancelled, Claim};
use crate::policy::quorum::commands::{Adopted, Ballot, HINTS_AT_ONCE, HINTS_TTL, Outvoted, Vote};

/// Whom to give a hint, for each key, in the order in which they were outvoted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Hints(BTreeMap<Arc<str>, Wanting>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wanting {
    addresses: Vec<Arc<str>>,
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
        self.live(key, time);
        let wanting = self.0.entry(key.clone()).or_insert(Wanting {
            addresses: Vec::new(),
            expires: 0,
        });
        wanting.expires = time + micros(HINTS_TTL);
        let known = wanting.addresses.iter().position(|it| it == address);
        known.unwrap_or_else(|| {
            wanting.addresses.push(address.clone());
            wanting.addresses.len() - 1
        })
    }

    fn next(&mut self, key: &str, time: u64) -> Option<Arc<str>> {
        let wanting = self.live(key, time)?;
        let next = (!wanting.addresses.is_empty()).then(|| wanting.addresses.remove(0));
        if wanting.addresses.is_empty() {
            self.0.remove(key);
        }
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
    /// Gives this node's vote to the claim, if nobody has its key.
    pub(crate) fn vote(&mut self, ballot: &Ballot, time: u64) -> Vote {
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
        match self.locks.live(&claim.key, time) {
            None => {
                let epoch = self.draw_proposed(*proposal);
                self.sweep(time);
                self.set(&claim.key, &claim.value, time, lease.get());
                Vote::Granted { time, epoch }
            }
            // The command was duplicated on its way; what this node drew for it is not above this.
            Some(Lock::One(held)) if held.value == claim.value => Vote::Granted {
                time,
                epoch: self.last_epoch,
            },
            Some(Lock::Many(set)) => {
                let there = set.meta.to_string();
                Vote::WrongKind { time, there }
            }
            Some(Lock::One(_)) => {
                let busy = self.in_the_way(&claim.key, time);
                let rank = if hint_to.is_empty() {
                    0
                } else {
                    self.hints.enter(&claim.key, hint_to, time)
                };
                Vote::Busy(Outvoted {
                    busy,
                    last_epoch: self.last_epoch,
                    rank: u32::try_from(rank).unwrap_or(u32::MAX),
                })
            }
        }
    }

    /// Makes this node draw only higher epochs from now on, if the claim has its key.
    pub(crate) fn adopt(&mut self, claim: &Claim, epoch: u64, time: u64) -> Adopted {
        if !self.holds(claim, time) {
            return Adopted::Gone;
        }
        if epoch < self.last_epoch {
            return Adopted::Behind {
                last_epoch: self.last_epoch,
            };
        }
        self.last_epoch = epoch;
        Adopted::Yes
    }

    /// Takes the vote back: the lock is released, or was not won. Before `keep_until` the key stays
    /// without an owner. Conclusive: nothing of the claim is here, nor can appear later.
    pub(crate) fn take_back_vote(
        &mut self,
        claim: &Claim,
        (keep_until, not_after): (u64, u64),
        time: u64,
        publish: &mut dyn Publish,
    ) -> Cancelled {
        let found = self.give_back(claim, keep_until, time);
        if found && self.locks.is_free(&claim.key, time) {
            self.hint(&claim.key, time, publish);
        }
        Cancelled {
            time,
            found,
            conclusive: found || time > not_after,
            rest: 0,
        }
    }

    /// Tells the first address that listens that the key is free.
    fn hint(&mut self, key: &Arc<str>, time: u64, publish: &mut dyn Publish) {
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
