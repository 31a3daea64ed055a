//! What becomes due with time: renewals, deadlines, questions about a holder, and the next step of each
//! clean-up.
//!
//! The host's clock comes in as `now`. Invariant: one call ends after a bounded number of passes.

use super::entries::TokenStage;
use super::moves::End;
use super::{Action, Tokens};
use crate::client::lease::{Due, Lease};
use crate::rules::commands::Renewal;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// A token needs at most two checks in one call: one ends its lease, the next sends its `cancel`.
/// More wait for the next call, so that neither a bug nor a forged message keeps the mutex locked.
const CHECKS_AT_MOST: usize = 3;

impl<H: Clone> Tokens<H> {
    /// When to call [`Tokens::due`] next; [`Moment::NEVER`]: nothing is to come.
    pub(crate) fn next_check(&self) -> Moment {
        let first = self.entries.first_check();
        first
            .map_or(Moment::NEVER, |(at, _)| at)
            .min(self.doubts.next_turn())
    }

    /// The host calls [`Tokens::due`] by then, whatever happens: what comes later costs nothing
    /// until then.
    pub(crate) fn looks_by(&mut self, until: Moment) {
        self.entries.looks_by(until);
    }

    /// Whether the host looks by itself before anything is due.
    pub(crate) fn looks_in_time(&self) -> bool {
        let looks_by = self.entries.will_look_by();
        looks_by.is_some_and(|by| by <= self.next_check())
    }

    /// When to call [`Tokens::due_of`] for this token; `None` once it is forgotten.
    pub(crate) fn next_check_at(&self, token: Token) -> Option<Moment> {
        let entry = self.entries.get(token)?;
        Some(entry.next_check().min(self.doubts.turn_of(token)))
    }

    /// All actions that are due now. A renewal takes along those that would be due soon, so that
    /// many leases cost few commands.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<Action<H>> {
        self.entries.looks();
        let (mut actions, mut horizon) = (Vec::new(), None);
        // Before the checks, or a holder with many renewals would always come before the first in line.
        while let Some(token) = self.doubts.take_first(now) {
            actions.extend(self.verify(token, now));
        }
        for _ in 0..CHECKS_AT_MOST {
            let due = self.entries.due(now);
            if due.is_empty() {
                break;
            }
            for token in due {
                if let Some(TokenStage::Holding { lease, .. }) = self.entries.state(token) {
                    horizon = horizon.max(lease.early_renewals_until(now));
                }
                actions.extend(self.due_of(token, now));
            }
        }
        let soon = horizon.map_or_else(Vec::new, |until| self.entries.checks_until(until));
        actions.reserve(soon.len());
        for token in soon {
            actions.extend(self.renew(token, now, |lease| lease.may_renew_early(now)));
        }
        actions
    }

    /// The action that is due now for one token.
    pub(crate) fn due_of(&mut self, token: Token, now: Moment) -> Option<Action<H>> {
        if self.doubts.take(token, now)
            && let Some(question) = self.verify(token, now)
        {
            return Some(question);
        }
        let entry = self.entries.get_mut(token)?;
        let next = match &mut entry.state {
            TokenStage::Holding { lease, .. } => match lease.due(now) {
                Due::Nothing => lease.next(),
                Due::Renewal => return self.renew(token, now, |_| true),
                Due::End(cause) => return self.lose(token, End::Over(cause), now),
            },
            TokenStage::CleaningUp(it) if now >= it.give_up => {
                let (holder, claim) = (it.holder.take(), entry.claim.clone());
                let is_unrecorded = entry.keep.records_a_run();
                self.entries.forget(token);
                return Some(Action::CleanedUp {
                    holder,
                    claim,
                    is_unrecorded,
                    found: None,
                });
            }
            TokenStage::CleaningUp(it) => {
                if let Some(report) = it.waits_until(now) {
                    report
                } else {
                    let (claim, keep) = (entry.claim.clone(), entry.keep);
                    let (not_after, give_up) = (it.not_after, it.give_up);
                    it.expect_report(give_up);
                    self.entries.check_at(token, give_up);
                    return Some(Action::Cancel {
                        token,
                        claim,
                        keep,
                        not_after,
                    });
                }
            }
            TokenStage::Acquiring | TokenStage::Waiting | TokenStage::Releasing { .. } => {
                Moment::NEVER
            }
        };
        self.entries.check_at(token, next);
        None
    }

    /// Asks about a holder that has left the line, if it still is one.
    fn verify(&mut self, token: Token, now: Moment) -> Option<Action<H>> {
        let entry = self.entries.get_mut(token)?;
        let TokenStage::Holding { lease, .. } = &entry.state else {
            entry.doubt_next_holder(false); // after a hand-off
            return None;
        };
        if now >= lease.deadline() {
            return None; // it is lost anyway
        }
        let (claim, within) = (entry.claim.clone(), now.until(lease.deadline()));
        self.doubts.asks(token, now);
        Some(Action::Verify {
            token,
            claim,
            within,
        })
    }

    /// Starts the renewal of a held lease, if `is_due` says so.
    fn renew(
        &mut self,
        token: Token,
        now: Moment,
        is_due: impl FnOnce(&Lease) -> bool,
    ) -> Option<Action<H>> {
        let action = self.entries.change(token, |entry| {
            let TokenStage::Holding { lease, .. } = &mut entry.state else {
                return None;
            };
            if !is_due(lease) {
                return None;
            }
            lease.renewing();
            let within = now.until(lease.deadline()) / 2;
            let (ttl, next) = (lease.ttl(), lease.next());
            entry.check_at(next);
            let claim = entry.claim.clone();
            Some(Action::Renew {
                token,
                renewal: Renewal { claim, ttl },
                within,
            })
        });
        action.flatten()
    }
}
