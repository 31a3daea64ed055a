//! What a server does only as one node of a quorum: it votes for one claim, and tells those whom it
//! outvoted when its key is free. A vote is an acquire that never queues, with a proposed epoch; a
//! vote is taken back by `cancel`, and a holder downgrades as at any server.
//!
//! Nobody queues at a node, and nothing is granted in turn: a hint says that it is worth asking
//! again. Invariants: `last_epoch` only grows, and is at least every number that a holder of a key
//! holds here; a number is adopted only by a claim that holds the lock here.

use super::Reached;
use super::lock::{self, Lock};
use super::operations::{Admission, OnKey, entry_of};
use crate::rules::ballots::{Adopted, Ballot, HINTS_AT_ONCE, Outvoted, Vote};
use crate::rules::commands::{Claim, Left};
use crate::values::entry::{self, Letter};

impl OnKey<'_> {
    /// Gives this node's vote to the claim, if it may hold the lock beside those that do.
    pub(super) fn vote(&mut self, ballot: &Ballot) -> Vote {
        let (claim, time) = (&ballot.claim, self.time);
        if time > ballot.not_after {
            return Vote::Late { time };
        }
        let entry = entry_of(claim);
        let held_back = match self.admission(claim, &entry, ballot.waits()) {
            Admission::Holds => {
                // The command was duplicated on its way; what was drawn for it is not above this.
                let of_hold = self.state.lock.as_ref().and_then(Lock::epoch);
                let epoch = of_hold.unwrap_or(*self.last_epoch);
                return Vote::Granted { time, epoch };
            }
            Admission::OtherKind(there) => return Vote::WrongKind { time, there },
            Admission::Taken => None,
            Admission::Fits => {
                // A reader that would fit leaves the turn to a writer, even if the lock is free:
                // otherwise readers that come one after the other would keep it out for ever.
                let is_reader = entry.letter == Letter::Reader;
                let until = is_reader.then(|| self.state.hints.a_writer_waits_until(time));
                let Some(until) = until.flatten() else {
                    let at = (self.draw_from(ballot.proposal), time);
                    let epoch = (self.state).put(&claim.value, &entry, ballot.lease.get(), at);
                    match entry.letter {
                        Letter::Exclusive => {}
                        Letter::Writer => self.state.hints.writer_is_in(),
                        _ => self.hint(), // the next one may fit beside it
                    }
                    return Vote::Granted { time, epoch };
                };
                Some(until)
            }
        };
        Vote::Busy(self.outvoted(ballot, held_back))
    }

    /// `held_back`: until when a writer has the turn.
    fn outvoted(&mut self, ballot: &Ballot, held_back: Option<u64>) -> Outvoted {
        let (hint_to, time) = (&ballot.hint_to, self.time);
        let mut busy = self.state.busy(time);
        if let Some(until) = held_back.filter(|_| self.state.is_free()) {
            busy.left = Left::For(lock::left(until, time));
            entry::LEFT_TO_A_WRITER.clone_into(&mut busy.value);
        }
        let rank = if hint_to.is_empty() {
            0
        } else {
            self.state.hints.enter(hint_to, time)
        };
        let is_read = entry::letter_of(&busy.value) == Some(Letter::Reader);
        if ballot.waits() && ballot.claim.kind() == Letter::Writer && is_read {
            self.state.hints.writer_waits(hint_to, time);
        }
        Outvoted {
            busy,
            last_epoch: *self.last_epoch,
            rank: u32::try_from(rank).unwrap_or(u32::MAX),
        }
    }

    /// Makes this node draw only higher epochs from now on, if the claim holds the lock here. What
    /// it has drawn since for others, who hold the lock too or another one, is no obstacle: later
    /// holders get a higher epoch all the same.
    pub(super) fn adopt(&mut self, claim: &Claim, epoch: u64) -> Adopted {
        if !self.state.holds(&claim.value) {
            return Adopted::Gone;
        }
        *self.last_epoch = (*self.last_epoch).max(epoch);
        if let Some(set) = self.state.set() {
            set.meta.adopt(epoch);
        }
        Adopted::Yes
    }

    /// Tells the first address that listens that the key is free; a writer that readers kept out
    /// comes before all others. At a server with queues nobody wants a hint.
    pub(super) fn hint(&mut self) {
        self.state.hints.forget_lapsed_writers(self.time);
        for _ in 0..HINTS_AT_ONCE {
            let Some(next) = self.state.hints.next() else {
                return;
            };
            let comes = next.address.is_empty()
                || self.publish.hint(&next.address, self.key) != Reached::Nobody;
            self.state.hints.writer_was_told(&next, comes, self.time);
            if comes {
                return;
            }
        }
    }
}
