//! Every token of this process, from before its acquire is sent until nothing of it can be left.
//!
//! ```text
//!       ┌──────queued──▶ Waiting ──gone──▶ (forgotten)
//!       │                 │   │
//! Acquiring ──granted──▶ Holding ──release──▶ Releasing ──answered──▶ (forgotten)
//!   │   │                 │   │ │                 │
//!   │   └ not granted     │   │ └ refused: Lost(Gone) ▶ (forgotten)
//!   │     ▶ (forgotten)   │   │                   │
//!   │                     │   ├ deadline, max_hold: Lost; guard dropped
//!   └ unclear, given up ──┴───┴───────┬───────────┘ unclear
//!                                     ▼
//!                                CleaningUp ──conclusive, or its time is over──▶ (forgotten)
//! ```
//! and Holding ──handed on──▶ Waiting, for the next waiter of this process. Over a quorum of nodes
//! a hold that is refused is cleaned up, too: the nodes that did not refuse it may have it.
//!
//! Invariants: a token enters once and never leaves `CleaningUp` for a live state, so no late
//! answer revives it; nothing is renewed once its release may have been sent; everything of ours
//! that may be on the server has an entry here.
//!
//! Never in this folder: the waiters and whose turn it is (`local_queue`).

mod account;
mod action;
mod clean_up;
pub(super) mod doubts;
mod due;
mod entries;
mod moves;
mod timeline;

use std::time::Duration;

use self::clean_up::CleanUp;
use self::doubts::Doubts;
use self::entries::{Entries, TokenEntry, TokenStage};
use self::moves::End;
use super::lease::Lease;
use crate::rules::commands::{Cancelled, Claim, GivenBack, Keep, Renewed, RunOutcome};
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

pub(crate) use self::action::{Action, Census, Extension, ReleaseBy, Standing};

/// One token and what it claims at the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) token: Token,
    pub(crate) claim: Claim,
}

/// The table; through `H` a holder learns what becomes of its lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tokens<H> {
    entries: Entries<H>,
    /// Which holders have to ask the server whether they hold the lock.
    doubts: Doubts,
    /// "Not ours" is what a quorum of nodes says: others may still have the lock as ours.
    is_of_quorum: bool,
}

impl<H> Default for Tokens<H> {
    fn default() -> Self {
        Self {
            entries: Entries::default(),
            doubts: Doubts::default(),
            is_of_quorum: false,
        }
    }
}

impl<H> Tokens<H> {
    /// For a server that is several nodes.
    pub(crate) fn of_quorum() -> Self {
        Self {
            is_of_quorum: true,
            ..Self::default()
        }
    }
}

/// The life of one token.
impl<H: Clone> Tokens<H> {
    /// An acquire is about to be sent.
    pub(crate) fn acquiring(&mut self, token: Token, claim: Claim) {
        self.entries.insert(token, claim);
    }

    /// The acquire was answered: the token stands in the queue.
    pub(crate) fn queued(&mut self, token: Token) {
        if let Some(TokenStage::Acquiring) = self.entries.state(token) {
            self.entries
                .enter(token, Moment::NEVER, TokenStage::Waiting);
        }
    }

    /// What a token claims at the server.
    pub(crate) fn claim(&self, token: Token) -> Option<&Claim> {
        self.entries.get(token).map(|entry| &entry.claim)
    }

    /// The server has nothing of the token: the acquire created nothing, or its queue entry is
    /// gone.
    pub(crate) fn not_granted(&mut self, token: Token) {
        self.entries.forget(token);
    }

    /// The lock is ours, by the acquire's answer or from the queue. `None`: the token was given up
    /// before.
    pub(crate) fn granted(
        &mut self,
        token: Token,
        lease: Lease,
        holder: impl FnOnce(Attempt) -> H,
    ) -> Option<H> {
        let held = self.entries.change(token, |entry| {
            if !matches!(entry.state, TokenStage::Acquiring | TokenStage::Waiting) {
                return None;
            }
            let claim = entry.claim.clone();
            let holder = holder(Attempt { token, claim });
            let (next, held) = (lease.next(), holder.clone());
            entry.enter(next, TokenStage::Holding { lease, holder });
            Some((held, entry.take_doubt()))
        });
        let (held, doubt) = held.flatten()?;
        if let Some(is_proved) = doubt {
            self.doubts.enter(token, is_proved);
        }
        Some(held)
    }

    /// The holder is done, and another waiter of this process gets the lock as it is: the token
    /// waits to be taken again. `false`: the lease is lost, or not as it was granted.
    pub(crate) fn hand_on(&mut self, token: Token, now: Moment) -> bool {
        let handed_on = self.entries.change(token, |entry| {
            let may_be = matches!(&entry.state, TokenStage::Holding { lease, .. } if entry.keep == Keep::NOT && lease.is_as_granted(now));
            if may_be {
                entry.enter(Moment::NEVER, TokenStage::Waiting);
            }
            may_be
        });
        handed_on.unwrap_or(false)
    }

    /// The acquire got no clear answer, or its caller stopped waiting for one. `cancelled_by`: the
    /// acquire's connection sends a `cancel` behind it, and reports like the host. If no report
    /// comes by then (the connection's runtime may not be running), the host sends one too.
    pub(crate) fn abandoned(
        &mut self,
        token: Token,
        not_after: u64,
        give_up: Moment,
        cancelled_by: Option<Moment>,
        now: Moment,
    ) {
        let mut clean_up = CleanUp::new(token, not_after, give_up, None);
        if let Some(by) = cancelled_by {
            clean_up.expect_report(by);
        }
        self.clean_up(token, clean_up, now);
    }

    /// Nobody here wants what the server has of it. `timeout`: of the clean-up's command.
    pub(crate) fn unwanted(&mut self, token: Token, timeout: Duration, now: Moment) {
        if let Some(claim) = self.claim(token) {
            let give_up = now.plus(timeout + claim.longest_stay());
            self.give_up(token, give_up, now);
        }
    }

    /// Its acquire was answered, but no waiter wants the result: a queue entry, or the lock.
    pub(crate) fn give_up(&mut self, token: Token, give_up: Moment, now: Moment) {
        if let Some(TokenStage::Acquiring | TokenStage::Waiting) = self.entries.state(token) {
            self.clean_up(token, CleanUp::new(token, 0, give_up, None), now);
        }
    }

    /// The server granted a token of this process that is not in the table: it is cleaned up.
    pub(crate) fn stray(&mut self, token: Token, claim: Claim, give_up: Moment, now: Moment) {
        if self.entries.get(token).is_none() {
            self.entries.insert(token, claim);
            self.give_up(token, give_up, now);
        }
    }

    /// The body begins: from here on the key is kept, whatever ends the hold. `false`: the lock is no
    /// longer held.
    pub(crate) fn keep(&mut self, token: Token, keep: Keep) -> bool {
        match self.entries.get_mut(token) {
            Some(entry) if matches!(entry.state, TokenStage::Holding { .. }) => {
                entry.keep = keep;
                true
            }
            _ => false,
        }
    }

    /// The run under a lock of a job that runs once per period has ended so. `false`: the lock is no
    /// longer held, or its job runs whenever it is called.
    pub(crate) fn run_ended(&mut self, token: Token, outcome: RunOutcome) -> bool {
        let entry = self.entries.get_mut(token);
        let entry = entry.filter(|it| matches!(it.state, TokenStage::Holding { .. }));
        let entry = entry.filter(|it| it.keep.run().is_some());
        entry.map(|it| it.keep = it.keep.ended(outcome)).is_some()
    }

    /// The holder gives the lock back; returns who sends the release.
    pub(crate) fn release(&mut self, token: Token, now: Moment) -> ReleaseBy {
        let by = self.entries.change(token, |entry| {
            match std::mem::replace(&mut entry.state, TokenStage::Waiting) {
                TokenStage::Holding { lease, holder } if !lease.is_renewing() => {
                    let longest = lease.longest();
                    entry.enter(Moment::NEVER, TokenStage::Releasing { longest, holder });
                    ReleaseBy::Caller { keep: entry.keep }
                }
                kept => {
                    let is_held = matches!(kept, TokenStage::Holding { .. });
                    entry.state = kept;
                    if is_held {
                        ReleaseBy::Host
                    } else {
                        ReleaseBy::Nobody
                    }
                }
            }
        });
        let by = by.unwrap_or(ReleaseBy::Nobody);
        if by == ReleaseBy::Host {
            self.leave_to_clean_up(token, now);
        }
        by
    }

    /// The release was answered.
    pub(crate) fn released(&mut self, token: Token) {
        self.entries.forget(token);
    }

    /// No caller is left to send the release: the guard was dropped, or the release got no clear
    /// answer.
    pub(crate) fn leave_to_clean_up(&mut self, token: Token, now: Moment) {
        match self.entries.state(token) {
            Some(TokenStage::Holding { lease, holder }) => {
                let (longest, busy, holder) =
                    (lease.longest(), lease.is_renewing(), holder.clone());
                self.clean_up_after(token, longest, busy, Some(holder), now);
            }
            Some(TokenStage::Releasing { longest, holder }) => {
                let (longest, holder) = (*longest, holder.clone());
                self.clean_up_after(token, longest, false, Some(holder), now);
            }
            _ => {}
        }
    }

    /// A renewal sent at `sent` was answered, or failed.
    pub(crate) fn renewed(
        &mut self,
        token: Token,
        sent: Moment,
        outcome: Renewed,
        now: Moment,
    ) -> Option<Action<H>> {
        let answered = self.entries.change(token, |entry| match &mut entry.state {
            TokenStage::Holding { lease, holder } => {
                let (before, cause_before) = (lease.deadline(), lease.cause());
                match outcome {
                    Renewed::Yes if now < before => lease.renewed(sent),
                    Renewed::TooFew => lease.at_too_few_nodes(now),
                    _ => lease.renewal_failed(now), // either way none is under way
                }
                if outcome == Renewed::NotOurs {
                    return Err(End::NotOurs);
                }
                if now >= before {
                    return Err(End::Over(lease.cause()));
                }
                let (deadline, next, cause) = (lease.deadline(), lease.next(), lease.cause());
                let is_news = deadline > before || cause != cause_before;
                let news = is_news.then(|| Action::Extended {
                    token,
                    holder: holder.clone(),
                    deadline,
                    cause,
                });
                entry.check_at(next);
                Ok(news)
            }
            TokenStage::CleaningUp(it) => {
                it.reported(); // sent before the release, answered now
                entry.check_at(now);
                Ok(None)
            }
            TokenStage::Acquiring | TokenStage::Waiting | TokenStage::Releasing { .. } => Ok(None),
        });
        answered?.unwrap_or_else(|end| self.lose(token, end, now))
    }

    /// The holder is about to ask for a lease that lasts `by`; `false`: it holds none any more and
    /// must not ask.
    pub(crate) fn extending(&mut self, token: Token, by: Ttl) -> bool {
        let Some(TokenEntry {
            state: TokenStage::Holding { lease, .. },
            ..
        }) = self.entries.get_mut(token)
        else {
            return false;
        };
        lease.extending(by);
        true
    }

    /// The holder asked for a lease that lasts `by` from `sent` on, and was answered.
    pub(crate) fn extended(
        &mut self,
        token: Token,
        (sent, by): (Moment, Ttl),
        answer: Renewed,
        now: Moment,
    ) -> Extension {
        match answer {
            Renewed::Yes => {
                let until = self.lasts(token, (sent, by), now);
                until.map_or(Extension::Over, |(end, cause)| Extension::Until(end, cause))
            }
            Renewed::NotOurs => Extension::NotOurs,
            Renewed::TooFew => Extension::AtTooFew,
            Renewed::Failed => Extension::Failed,
        }
    }

    /// A lease lasts `by` from `sent` on. Returns its new deadline and what ends it then, if it
    /// still holds.
    fn lasts(
        &mut self,
        token: Token,
        (sent, by): (Moment, Ttl),
        now: Moment,
    ) -> Option<(Moment, LostCause)> {
        let TokenStage::Holding { lease, .. } = &mut self.entries.get_mut(token)?.state else {
            return None;
        };
        if now >= lease.deadline() {
            return None;
        }
        lease.extended(sent, by);
        let (deadline, next, cause) = (lease.deadline(), lease.next(), lease.cause());
        self.entries.check_at(token, next);
        Some((deadline, cause))
    }

    /// The server said that the token does not hold the lock: its lease ended, or the lock was
    /// taken away.
    pub(crate) fn refused(&mut self, token: Token, now: Moment) -> Option<Action<H>> {
        self.lose(token, End::NotOurs, now)
    }

    /// A message says that the holder of this token was evicted; `is_proved`: by somebody who knows the
    /// fleet's secret. Returns the holder if its host has to look at it. A grant that nobody has taken
    /// yet can be evicted, too.
    pub(crate) fn doubted(&mut self, token: Token, key: &str, is_proved: bool) -> Option<H> {
        let entry = self.entries.get_mut(token)?;
        if *entry.claim.key != *key {
            return None;
        }
        let TokenStage::Holding { holder, .. } = &entry.state else {
            entry.doubt_next_holder(is_proved);
            return None;
        };
        let holder = holder.clone();
        if self.doubts.in_line() > 2 * self.entries.len() {
            // Also those that are being handed on.
            self.doubts
                .retain(|token| self.entries.get(token).is_some());
        }
        self.doubts.enter(token, is_proved).then_some(holder)
    }

    /// The server was asked whether the token holds the lock; `None`: it did not say.
    pub(crate) fn verified(
        &mut self,
        token: Token,
        is_ours: Option<bool>,
        now: Moment,
    ) -> Option<Action<H>> {
        self.doubts.answered(token);
        if is_ours != Some(false) {
            return None;
        }
        if let Some(entry) = self.entries.get_mut(token) {
            entry.doubt_next_holder(false); // it was handed on meanwhile
        }
        self.refused(token, now)
    }

    /// A `cancel` was answered. `behind_acquire`: it was sent on the acquire's connection, after
    /// it, so nothing of the token can appear any more.
    pub(crate) fn cancelled(
        &mut self,
        token: Token,
        answer: Cancelled,
        behind_acquire: bool,
        now: Moment,
    ) -> Option<Action<H>> {
        let entry = self.entries.get_mut(token)?;
        let TokenStage::CleaningUp(it) = &mut entry.state else {
            return None;
        };
        if answer.conclusive || (behind_acquire && !self.is_of_quorum) {
            let (holder, claim) = (it.holder.take(), entry.claim.clone());
            let is_unrecorded = entry.keep.records_a_run() && !answer.is_recorded;
            self.entries.forget(token);
            return Some(Action::CleanedUp {
                holder,
                claim,
                is_unrecorded,
                found: Some(GivenBack {
                    found: answer.found,
                    rest: answer.rest,
                    is_open: false,
                    is_recorded: answer.is_recorded,
                }),
            });
        }
        let (next, freed) = if self.is_of_quorum {
            // A quorum of nodes has it no more, so it is free; the others are asked again.
            (it.failed(now), it.holder.take())
        } else {
            (it.inconclusive(answer, now), None)
        };
        let claim = entry.claim.clone();
        self.entries.check_at(token, next);
        freed.map(|holder| Action::CleanedUp {
            holder: Some(holder),
            claim,
            is_unrecorded: false, // no quorum records one
            found: Some(GivenBack {
                found: answer.found,
                rest: answer.rest,
                is_open: true,
                is_recorded: answer.is_recorded,
            }),
        })
    }

    /// A `cancel` got no clear answer.
    pub(crate) fn cancel_failed(&mut self, token: Token, now: Moment) {
        if let Some(TokenEntry {
            state: TokenStage::CleaningUp(it),
            ..
        }) = self.entries.get_mut(token)
        {
            let next = it.failed(now);
            self.entries.check_at(token, next);
        }
    }
}
