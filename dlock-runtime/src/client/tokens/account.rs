//! What the token table reports about itself, and the loss of leases that nothing renews any more.
//!
//! It sends nothing; `super` has the life of a token.

use std::sync::Arc;

use super::entries::TokenStage;
use super::moves::End;
use super::{Action, Census, Standing, Tokens};
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

impl<H: Clone> Tokens<H> {
    /// The watchdog, or the runtime whose timer replaced it, has ended: nothing renews this lease
    /// or ends it in time, so it is lost.
    pub(crate) fn unguarded(&mut self, token: Token, now: Moment) -> Option<Action<H>> {
        self.lose(token, End::Over(LostCause::Watchdog), now)
    }

    /// What a value of this token at the server means.
    pub(crate) fn standing(&self, token: Token, now: Moment) -> Standing {
        match self.entries.state(token) {
            Some(TokenStage::Holding { lease, .. }) if now < lease.deadline() => Standing::Holds,
            Some(_) => Standing::Open,
            None => Standing::Over,
        }
    }

    /// All tokens, for a host that shuts down.
    pub(crate) fn all(&self) -> Vec<Token> {
        self.entries.tokens()
    }

    /// Whether this token is being cleaned up.
    #[cfg(test)]
    pub(crate) fn is_cleaning_up(&self, token: Token) -> bool {
        matches!(self.entries.state(token), Some(TokenStage::CleaningUp(_)))
    }

    /// How many holders wait for their turn to be asked about.
    #[cfg(test)]
    pub(crate) fn in_doubt(&self) -> usize {
        self.doubts.in_line()
    }

    /// When the lease of a held token ends without a renewal.
    #[cfg(test)]
    pub(crate) fn deadline(&self, token: Token) -> Option<Moment> {
        match self.entries.state(token)? {
            TokenStage::Holding { lease, .. } => Some(lease.deadline()),
            _ => None,
        }
    }

    pub(crate) fn census(&self) -> Census {
        let mut census = Census::default();
        for entry in self.entries.iter() {
            *match entry.state {
                TokenStage::Acquiring => &mut census.acquiring,
                TokenStage::Waiting => &mut census.waiting,
                TokenStage::Holding { .. } => &mut census.held,
                TokenStage::Releasing { .. } => &mut census.releasing,
                TokenStage::CleaningUp(_) => &mut census.cleaning_up,
            } += 1;
        }
        census
    }

    /// The holders of all held locks.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &H> {
        self.entries.iter().filter_map(|entry| match &entry.state {
            TokenStage::Holding { holder, .. } => Some(holder),
            _ => None,
        })
    }

    /// The keys of all held locks.
    pub(crate) fn held(&self) -> Vec<Arc<str>> {
        let all = self.entries.iter();
        let held = all.filter(|entry| matches!(entry.state, TokenStage::Holding { .. }));
        held.map(|entry| entry.claim.key.clone()).collect()
    }
}
