//! Transitions that several events lead to: the loss of a lease, and the start of a clean-up.
//!
//! It decides nothing about when; `due` and the methods of `super` do.

use std::time::Duration;

use super::clean_up::CleanUp;
use super::entries::TokenStage;
use super::{Action, Tokens};
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// How a lease ends under its holder.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// By our clock or our own decision, without an answer of the server.
    Over(LostCause),
    /// The server says that the token does not hold the lock. After the deadline that is expected,
    /// and no loss of its own.
    NotOurs,
}

/// How much later a renewal may still be executed, from the buffer of a closed connection.
const LATE: Duration = Duration::from_secs(6);

impl<H: Clone> Tokens<H> {
    /// Ends a lease under its holder, for one cause that everybody is told. Cleans up what may be
    /// left on the server, unless the server itself said that nothing is. A quorum of nodes says so
    /// only of itself.
    pub(super) fn lose(&mut self, token: Token, end: End, now: Moment) -> Option<Action<H>> {
        let entry = self.entries.get(token)?;
        let TokenStage::Holding { lease, holder } = &entry.state else {
            return None;
        };
        let (longest, busy) = (lease.longest(), lease.is_renewing());
        let cause = match end {
            End::Over(cause) => cause,
            End::NotOurs if now >= lease.deadline() => lease.cause(),
            End::NotOurs => LostCause::Gone,
        };
        let (holder, claim) = (holder.clone(), entry.claim.clone());
        match end {
            End::NotOurs if !self.is_of_quorum => self.entries.forget(token),
            _ => self.clean_up_after(token, longest, busy, None, now),
        }
        Some(Action::Lost {
            holder,
            claim,
            cause,
        })
    }

    pub(super) fn clean_up_after(
        &mut self,
        token: Token,
        longest: Duration,
        busy: bool,
        holder: Option<H>,
        now: Moment,
    ) {
        // The last command that lengthened the lease was sent before now.
        let give_up = now.plus(longest + LATE);
        let mut clean_up = CleanUp::new(token, 0, give_up, holder);
        if busy {
            clean_up.expect_report(give_up);
        }
        self.clean_up(token, clean_up, now);
    }

    pub(super) fn clean_up(&mut self, token: Token, clean_up: CleanUp<H>, now: Moment) {
        let next_check = clean_up.next_check(now);
        self.entries
            .enter(token, next_check, TokenStage::CleaningUp(clean_up));
    }
}
