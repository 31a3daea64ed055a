//! The entries of the token table, each with the time of its next check.
//!
//! What a check does is in `super::due`. Invariant: the timeline has each entry with a next check
//! at that moment, and nothing else.
//!
//! Never in this folder: what a state means, a clock.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::clean_up::CleanUp;
use super::timeline::Timeline;
use crate::client::lease::Lease;
use crate::policy::commands::{Claim, Keep};
use crate::values::hashed::HashedMap;
use crate::values::moment::Moment;
use crate::values::token::Token;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entries<H> {
    /// Boxed: an entry is large, and most slots of a table are empty.
    by_token: HashedMap<Token, Box<TokenEntry<H>>>,
    timeline: Timeline,
}

/// A table with fewer slots is not shrunk.
const SHRINK_ABOVE: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenEntry<H> {
    pub(super) claim: Claim,
    pub(super) state: TokenStage<H>,
    pub(super) keep: Keep,
    /// The next check; [`Moment::NEVER`]: none.
    next_check: Moment,
}

/// The state of a token; `super` draws the transitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TokenStage<H> {
    Acquiring,
    /// In the server's queue, or granted and not yet taken; the local queue knows which.
    Waiting,
    Holding {
        lease: Lease,
        holder: H,
    },
    Releasing {
        longest: Duration,
        holder: H,
    },
    CleaningUp(CleanUp<H>),
}

impl<H> Default for Entries<H> {
    fn default() -> Self {
        Self {
            by_token: HashedMap::default(),
            timeline: Timeline::default(),
        }
    }
}

impl<H> Entries<H> {
    pub(super) fn insert(&mut self, token: Token, claim: Claim) {
        let entry = TokenEntry {
            claim,
            state: TokenStage::Acquiring,
            keep: Keep::NOT,
            next_check: Moment::NEVER,
        };
        // A token enters once; if it ever came twice, nothing of the first may stay in the
        // timeline.
        if let Some(before) = self.by_token.insert(token, Box::new(entry)) {
            self.timeline.remove(before.next_check, token);
        }
    }

    pub(super) fn get(&self, token: Token) -> Option<&TokenEntry<H>> {
        self.by_token.get(&token).map(|entry| &**entry)
    }

    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut TokenEntry<H>> {
        self.by_token.get_mut(&token).map(|entry| &mut **entry)
    }

    pub(super) fn state(&self, token: Token) -> Option<&TokenStage<H>> {
        self.get(token).map(|entry| &entry.state)
    }

    /// Changes an entry, and the time of its next check.
    pub(super) fn change<T>(
        &mut self,
        token: Token,
        change: impl FnOnce(&mut TokenEntry<H>) -> T,
    ) -> Option<T> {
        let entry = self.by_token.get_mut(&token)?;
        let before = entry.next_check;
        let changed = change(entry);
        let next_check = entry.next_check;
        if next_check != before {
            self.timeline.remove(before, token);
            self.timeline.insert(next_check, token);
        }
        Some(changed)
    }

    pub(super) fn enter(&mut self, token: Token, next_check: Moment, state: TokenStage<H>) {
        self.change(token, |entry| entry.enter(next_check, state));
    }

    pub(super) fn check_at(&mut self, token: Token, next_check: Moment) {
        self.change(token, |entry| entry.check_at(next_check));
    }

    pub(super) fn forget(&mut self, token: Token) {
        if let Some(entry) = self.by_token.remove(&token) {
            self.timeline.remove(entry.next_check, token);
        }
        // Give back the memory of a peak. The table at most halves each time, so a removal costs
        // one or two moves on average.
        if self.by_token.capacity() > SHRINK_ABOVE.max(8 * self.by_token.len()) {
            self.by_token.shrink_to(4 * self.by_token.len());
        }
    }

    /// The earliest check, and its token.
    pub(super) fn first_check(&self) -> Option<(Moment, Token)> {
        self.timeline.first()
    }

    /// The tokens whose check is due. A slot whose token has no entry, or has its check at another
    /// time, is dropped here: so a caller that repeats this until nothing is due comes to an end,
    /// whatever the timeline holds.
    pub(super) fn due(&mut self, now: Moment) -> Vec<Token> {
        let mut due = Vec::new();
        for (at, token) in self.timeline.until(now) {
            if self.get(token).is_some_and(|entry| entry.next_check == at) {
                due.push(token);
            } else {
                self.timeline.remove(at, token);
            }
        }
        due
    }

    /// The tokens whose check is due by `horizon`.
    pub(super) fn checks_until(&self, horizon: Moment) -> Vec<Token> {
        let checks = self.timeline.until(horizon);
        checks.into_iter().map(|(_, token)| token).collect()
    }

    /// In the order in which they were drawn.
    pub(super) fn tokens(&self) -> Vec<Token> {
        let mut tokens: Vec<Token> = self.by_token.keys().copied().collect();
        tokens.sort_unstable();
        tokens
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TokenEntry<H>> {
        self.by_token.values().map(|entry| &**entry)
    }
}

/// For the explorer, which looks up states that it has seen.
impl<H: Hash> Hash for Entries<H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        for token in self.tokens() {
            (token, self.get(token)).hash(state);
        }
        self.timeline.hash(state);
    }
}

impl<H> TokenEntry<H> {
    pub(super) fn next_check(&self) -> Moment {
        self.next_check
    }

    pub(super) fn check_at(&mut self, next_check: Moment) {
        self.next_check = next_check;
    }

    pub(super) fn enter(&mut self, next_check: Moment, state: TokenStage<H>) {
        (self.next_check, self.state) = (next_check, state);
    }
}

#[cfg(test)]
mod tests;
