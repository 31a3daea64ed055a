//! The entries of the token table, each with the time of its next check.
//!
//! What a check does is in `super::due`. Invariant: each entry with a next check is in the timeline
//! at that moment, or, if the host looks before it, in `later`.
//!
//! Never in this folder: what a state means, a clock.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::clean_up::CleanUp;
use super::timeline::Timeline;
use crate::client::lease::Lease;
use crate::rules::commands::{Claim, Keep};
use crate::values::hashed::HashedMap;
use crate::values::moment::Moment;
use crate::values::token::Token;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entries<H> {
    /// Boxed: an entry is large, and most slots of a table are empty.
    by_token: HashedMap<Token, Box<TokenEntry<H>>>,
    timeline: Timeline,
    /// Checks that come after the host's next look: most leases end before it, and never enter the
    /// timeline. Some are of entries that have gone.
    later: Vec<(Moment, Token)>,
    /// At this length, those are dropped.
    sift_at: usize,
    /// The host looks by then, whatever happens; `None`: it looks now, or has not said.
    looks_by: Option<Moment>,
}

/// A table with fewer slots is not shrunk.
const SHRINK_ABOVE: usize = 1024;

/// With fewer checks that come later, none is dropped before the host looks.
const SIFT_AT_LEAST: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenEntry<H> {
    pub(super) claim: Claim,
    pub(super) state: TokenStage<H>,
    pub(super) keep: Keep,
    /// Its next holder has to ask whether it holds the lock; `true`: because of a message that is
    /// proved.
    next_is_doubted: Option<bool>,
    /// The next check; [`Moment::NEVER`]: none.
    next_check: Moment,
    is_in_timeline: bool,
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
            later: Vec::new(),
            sift_at: SIFT_AT_LEAST,
            looks_by: None,
        }
    }
}

impl<H> Entries<H> {
    pub(super) fn insert(&mut self, token: Token, claim: Claim) {
        let entry = TokenEntry {
            claim,
            state: TokenStage::Acquiring,
            keep: Keep::NOT,
            next_is_doubted: None,
            next_check: Moment::NEVER,
            is_in_timeline: false,
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
        let at = entry.next_check;
        if at != before {
            if std::mem::take(&mut entry.is_in_timeline) {
                self.timeline.remove(before, token);
            }
            match self.looks_by {
                _ if at == Moment::NEVER => {}
                Some(looks_by) if at > looks_by => self.comes_later(at, token),
                _ => {
                    entry.is_in_timeline = true;
                    self.timeline.insert(at, token);
                }
            }
        }
        Some(changed)
    }

    /// The host looks for what is due by then at the latest, and tells it by [`looks`](Self::looks).
    pub(super) fn looks_by(&mut self, until: Moment) {
        self.looks_by = Some(until);
    }

    /// When the host looks at the latest; `None`: nobody knows.
    pub(super) fn will_look_by(&self) -> Option<Moment> {
        self.looks_by
    }

    /// The host looks now: what was to come later has its place in the timeline.
    pub(super) fn looks(&mut self) {
        self.looks_by = None;
        for (at, token) in std::mem::take(&mut self.later) {
            if let Some(entry) = self.by_token.get_mut(&token)
                && entry.next_check == at
                && !std::mem::replace(&mut entry.is_in_timeline, true)
            {
                self.timeline.insert(at, token);
            }
        }
    }

    fn comes_later(&mut self, at: Moment, token: Token) {
        self.later.push((at, token));
        if self.later.len() >= self.sift_at {
            let mut later = std::mem::take(&mut self.later);
            later.retain(|(at, token)| self.is_at(*at, *token));
            self.sift_at = SIFT_AT_LEAST.max(later.len() * 2);
            self.later = later;
        }
    }

    fn is_at(&self, at: Moment, token: Token) -> bool {
        self.get(token).is_some_and(|entry| entry.next_check == at)
    }

    pub(super) fn enter(&mut self, token: Token, next_check: Moment, state: TokenStage<H>) {
        self.change(token, |entry| entry.enter(next_check, state));
    }

    pub(super) fn check_at(&mut self, token: Token, next_check: Moment) {
        self.change(token, |entry| entry.check_at(next_check));
    }

    pub(super) fn forget(&mut self, token: Token) {
        if let Some(entry) = self.by_token.remove(&token)
            && entry.is_in_timeline
        {
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
            if self.is_at(at, token) {
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

    pub(super) fn len(&self) -> usize {
        self.by_token.len()
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

    /// Nobody holds the lock by it at the moment, but the server may have granted it.
    pub(super) fn doubt_next_holder(&mut self, is_proved: bool) {
        if let TokenStage::Acquiring | TokenStage::Waiting = self.state {
            self.next_is_doubted = self.next_is_doubted.max(Some(is_proved));
        }
    }

    /// There is a holder now, who is told.
    pub(super) fn take_doubt(&mut self) -> Option<bool> {
        self.next_is_doubted.take()
    }
}

#[cfg(test)]
mod tests;
