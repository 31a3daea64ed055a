//! When each token has to be checked next.
//!
//! Leases renewed by one command are due at the same moment, so each moment has one slot, and
//! another token in it costs little more than its own size. Never in this folder: what a token
//! stands for.

use std::collections::{BTreeMap, VecDeque};

use crate::values::moment::Moment;
use crate::values::token::Token;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Timeline {
    slots: BTreeMap<Moment, TokensAt>,
}

/// The tokens of a moment, in order. They come and go in about that order, so mostly at the ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TokensAt {
    One(Token),
    /// Two at least.
    More(VecDeque<Token>),
}

impl TokensAt {
    fn tokens(&self) -> impl Iterator<Item = Token> {
        let (one, more) = match self {
            TokensAt::One(token) => (Some(*token), None),
            TokensAt::More(tokens) => (None, Some(tokens.iter().copied())),
        };
        one.into_iter().chain(more.into_iter().flatten())
    }

    fn insert(&mut self, token: Token) {
        match self {
            TokensAt::One(one) => {
                *self = TokensAt::More([token.min(*one), token.max(*one)].into());
            }
            TokensAt::More(tokens) => {
                let at = tokens.partition_point(|it| *it < token);
                tokens.insert(at, token);
            }
        }
    }

    /// `false`: it was the only one.
    fn remove(&mut self, token: Token) -> bool {
        match self {
            TokensAt::One(one) => *one != token,
            TokensAt::More(tokens) => {
                if let Ok(at) = tokens.binary_search(&token) {
                    tokens.remove(at);
                }
                if tokens.len() == 1 {
                    *self = TokensAt::One(tokens[0]);
                }
                true
            }
        }
    }
}

impl Timeline {
    /// Adds a token, at most once, and never at [`Moment::NEVER`].
    pub(super) fn insert(&mut self, at: Moment, token: Token) {
        if at == Moment::NEVER {
            return;
        }
        self.slots
            .entry(at)
            .and_modify(|slot| slot.insert(token))
            .or_insert(TokensAt::One(token));
    }

    pub(super) fn remove(&mut self, at: Moment, token: Token) {
        if let Some(slot) = self.slots.get_mut(&at)
            && !slot.remove(token)
        {
            self.slots.remove(&at);
        }
    }

    /// The earliest moment, and the first token there.
    pub(super) fn first(&self) -> Option<(Moment, Token)> {
        let (at, slot) = self.slots.first_key_value()?;
        slot.tokens().next().map(|token| (*at, token))
    }

    /// All tokens up to `horizon`, each with its moment.
    pub(super) fn until(&self, horizon: Moment) -> Vec<(Moment, Token)> {
        let slots = self.slots.range(..=horizon);
        let each = slots.flat_map(|(at, slot)| slot.tokens().map(|token| (*at, token)));
        each.collect()
    }
}

#[cfg(test)]
mod tests;
