//! Known-bad servers of the kinds with many holders, made around the shipped one.

use super::kind::{Holds, fits};
use super::mutants::Mutant;
use super::run::Run;
use super::serve::{Air, carry_out};
use super::world::{Answer, KEY, What, token_in};
use crate::rules::Server;
use crate::rules::commands::{Acquired, Busy, Claim, Keep, Left, Polled, Renewed};
use crate::values::entry::{self, Letter};

/// One command, and the server that executes it wrongly.
pub(super) struct Bad<'a, 'b> {
    pub(super) run: &'a Run,
    pub(super) server: &'a mut Server,
    pub(super) what: &'a What,
    pub(super) time: u64,
    pub(super) air: &'a mut Air<'b>,
}

impl Bad<'_, '_> {
    /// `None`: the mutant executes this command correctly.
    pub(super) fn carry_out(&mut self) -> Option<Answer> {
        let mutant = self.run.mutant?;
        match (mutant, self.what) {
            (Mutant::NoHeartbeat, _) => {
                for (entry, _) in self.server.waiting(KEY, self.time) {
                    self.server.beat(KEY, &entry, self.time);
                }
                None
            }
            (Mutant::ReleaseDropsAll, What::Release { claim, .. }) => {
                if self.server.holds(claim, self.time) {
                    self.server.remove(KEY);
                }
                None
            }
            (Mutant::ReleaseGrantsNobody, What::Release { .. }) => Some(self.well_alone()),
            (Mutant::LeavesOtherKinds, what) if !matches!(what, What::Acquire(_)) => {
                let waiting = self.server.waiting(KEY, self.time);
                let is_shared =
                    |entry: &str| entry::letter_of(entry).is_some_and(Letter::is_shared);
                let head = waiting.first().map(|(entry, _)| is_shared(entry));
                let ours = is_shared(&what.claim().value);
                head.is_some_and(|it| it != ours).then(|| self.well_alone())
            }
            (Mutant::CancelGrantsNobody, What::Cancel { claim, .. }) => {
                let left = self.server.leave(KEY, &claim.value, self.time);
                let mut answer = self.well_alone();
                if let (true, Answer::Cancelled(cancelled, _)) = (left, &mut answer) {
                    (cancelled.found, cancelled.conclusive) = (true, true);
                }
                Some(answer)
            }
            (Mutant::OneGrantForEach, _) => {
                let answer = self.well();
                let first = self.air.grants.len().min(1);
                for (_, _, grant) in self.air.grants.split_off(first) {
                    self.server.drop_entry(KEY, &grant.value, self.time);
                    self.server.enter(KEY, &grant.value, self.time);
                }
                Some(answer)
            }
            (Mutant::ReentryQueues, What::Acquire(acquire)) => {
                let waited = !self.server.waiting(KEY, self.time).is_empty();
                let queues = waited && acquire.claim.queues;
                (queues && !self.server.holds(&acquire.claim, self.time))
                    .then(|| self.queued(&acquire.claim))
                    .map(Answer::Acquired)
            }
            (Mutant::ReentryQueues, What::Poll(claim)) => self.polled_in_turn(claim),
            (Mutant::RenewsAll, What::Renew(renewal)) => {
                let answer = self.well();
                let until = self.time + renewal.ttl.as_millis() * 1000;
                if matches!(answer, Answer::Renewed(Renewed::Yes)) {
                    for (member, end) in self.server.members(KEY, self.time) {
                        self.server
                            .put_entry(KEY, &member, end.max(until), self.time);
                    }
                }
                Some(answer)
            }
            (Mutant::DowngradeShortens, What::Downgrade(renewal)) => {
                let answer = self.well();
                let until = self.time + u64::try_from(self.run.tick.as_micros()).expect("short");
                if let (Answer::Downgraded(true), Some(reads)) =
                    (&answer, entry::reader_form(&renewal.claim.value))
                {
                    self.server.put_entry(KEY, &reads, until, self.time);
                }
                Some(answer)
            }
            (Mutant::DowngradeWithGap, What::Downgrade(renewal)) => {
                let claim = &renewal.claim;
                let until = self.server.expires(KEY).unwrap_or_default();
                let found = self
                    .server
                    .release(claim, Keep::NOT, self.time, self.air)
                    .found;
                let reads = entry::reader_form(&claim.value).filter(|it| found && self.fits(it));
                if let Some(reads) = &reads {
                    self.server.put_entry(KEY, reads, until, self.time);
                }
                Some(Answer::Downgraded(reads.is_some()))
            }
            (Mutant::PassesTheHead | Mutant::TakesIfOneIsFree, What::Acquire(acquire)) => {
                let answer = self.well();
                let value = &acquire.claim.value;
                let queued = matches!(answer, Answer::Acquired(Acquired::Queued(_)));
                let room = match mutant {
                    Mutant::PassesTheHead => self.fits(value),
                    _ => self.one_is_free(value),
                };
                if !queued || !room {
                    return Some(answer);
                }
                self.server.leave(KEY, value, self.time);
                let until = self.time + acquire.lease.as_millis() * 1000;
                self.server.put_entry(KEY, value, until, self.time);
                let (time, epoch) = (self.time, self.time);
                Some(Answer::Acquired(Acquired::Granted { time, epoch }))
            }
            (Mutant::LastComerEndsAll, What::Acquire(acquire)) => {
                let answer = self.well();
                if matches!(answer, Answer::Acquired(Acquired::Granted { .. })) {
                    let until = self.time + acquire.lease.as_millis() * 1000;
                    for (member, _) in self.server.members(KEY, self.time) {
                        self.server.put_entry(KEY, &member, until, self.time);
                    }
                }
                Some(answer)
            }
            _ => None,
        }
    }

    /// As the shipped server does it.
    fn well(&mut self) -> Answer {
        let run = Run {
            mutant: None,
            ..self.run.clone()
        };
        carry_out(&run, self.server, self.what, self.time, self.air)
    }

    /// As the shipped server does it, with an empty queue.
    fn well_alone(&mut self) -> Answer {
        let queues = self.server.clone();
        self.server.lose_queue(KEY);
        let answer = self.well();
        self.server.take_queue_of(&queues);
        answer
    }

    fn fits(&mut self, value: &str) -> bool {
        let members = self.server.members(KEY, self.time);
        let members: Vec<_> = members.into_iter().map(|(it, _)| it).collect();
        let is_taken = members.is_empty() && self.server.read(KEY, self.time).is_some();
        let is_shared = entry::letter_of(value).is_some_and(Letter::is_shared);
        !is_taken && is_shared && fits(Holds::of(value), &members)
    }

    fn one_is_free(&mut self, value: &str) -> bool {
        let used = self.server.members(KEY, self.time).len();
        let of = entry::read(value).map_or(0, |entry| entry.of);
        u32::try_from(used).expect("few") < of
    }

    fn queued(&mut self, claim: &Claim) -> Acquired {
        self.server.enter(KEY, &claim.value, self.time);
        Acquired::Queued(self.somebody())
    }

    /// In the queue, a waiter that is not the first keeps its position.
    fn polled_in_turn(&mut self, claim: &Claim) -> Option<Answer> {
        let waiting = self.server.waiting(KEY, self.time);
        let (first, _) = waiting.first()?;
        let waits = waiting.iter().any(|(it, _)| *it == claim.value);
        if !waits || token_in(first) == token_in(&claim.value) {
            return None;
        }
        self.server.beat(KEY, &claim.value, self.time);
        Some(Answer::Polled(Polled::Queued(self.somebody())))
    }

    fn somebody(&self) -> Busy {
        Busy {
            time: self.time,
            left: Left::For(self.run.tick),
            value: String::new(),
        }
    }
}
