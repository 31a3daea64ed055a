//! Holders of whom a message says that they were evicted, until the server has been asked about them.
//!
//! ```text
//!            message            its turn
//! (no doubt) ──────▶ InLine ─────────────▶ Asked ──answer──▶ (no doubt)
//!                       ▲                    │ message
//!                       └────── answer ─── Again
//! ```
//! Anybody who may publish can forge such a message. Invariants: nothing here ends a lease; at most
//! [`QUESTIONS`] are sent within any [`WITHIN`], about whichever holders; a holder is in line once, so
//! that each gets its turn, however many messages come about others.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::values::moment::Moment;
use crate::values::token::Token;

/// A pool sends so many questions …
pub(in crate::client) const QUESTIONS: usize = 10;

/// … within any span of this length.
pub(in crate::client) const WITHIN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Doubts {
    stages: BTreeMap<Token, DoubtStage>,
    line: VecDeque<Token>,
    /// When the last [`QUESTIONS`] were sent, the oldest first.
    sent: VecDeque<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DoubtStage {
    InLine,
    /// The question was sent, and not yet answered.
    Asked,
    /// Another message came after it was sent: the answer may be older than what that says.
    Again {
        is_proved: bool,
    },
}

impl Doubts {
    /// A message about a holder came. One whose author knows the fleet's secret comes first, as no
    /// stranger can flood with those. Returns whether the holder's place in line is a new one.
    pub(super) fn enter(&mut self, token: Token, is_proved: bool) -> bool {
        match self.stages.get_mut(&token) {
            None => {}
            Some(DoubtStage::InLine) if is_proved => self.line.retain(|it| *it != token),
            Some(DoubtStage::InLine) => return false,
            Some(stage) => {
                let was_proved = *stage == DoubtStage::Again { is_proved: true };
                *stage = DoubtStage::Again {
                    is_proved: is_proved || was_proved,
                };
                return false;
            }
        }
        self.stages.insert(token, DoubtStage::InLine);
        if is_proved {
            self.line.push_front(token);
        } else {
            self.line.push_back(token);
        }
        true
    }

    /// From when on the next question may be sent; [`Moment::NEVER`]: nobody is in line.
    pub(super) fn next_turn(&self) -> Moment {
        match self.sent.front() {
            _ if self.line.is_empty() => Moment::NEVER,
            Some(first) if self.sent.len() >= QUESTIONS => first.plus(WITHIN),
            _ => Moment::default(),
        }
    }

    /// The same about this holder, for a host that looks at one at a time.
    pub(super) fn turn_of(&self, token: Token) -> Moment {
        match self.stages.get(&token) {
            Some(DoubtStage::InLine) => self.next_turn(),
            _ => Moment::NEVER,
        }
    }

    /// The first holder leaves the line, if a question may be sent now.
    pub(super) fn take_first(&mut self, now: Moment) -> Option<Token> {
        if now < self.next_turn() {
            return None;
        }
        let first = self.line.pop_front()?;
        self.stages.remove(&first);
        Some(first)
    }

    /// The same for this holder.
    pub(super) fn take(&mut self, token: Token, now: Moment) -> bool {
        let is_its_turn = now >= self.turn_of(token);
        if is_its_turn {
            self.stages.remove(&token);
            self.line.retain(|it| *it != token);
        }
        is_its_turn
    }

    /// The question about a holder that has left the line is sent now.
    pub(super) fn asks(&mut self, token: Token, now: Moment) {
        self.stages.insert(token, DoubtStage::Asked);
        if self.sent.len() >= QUESTIONS {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
    }

    /// The question was answered, or never will be.
    pub(super) fn answered(&mut self, token: Token) {
        let stage = self.stages.get(&token).copied();
        if let Some(DoubtStage::Asked | DoubtStage::Again { .. }) = stage {
            self.stages.remove(&token);
        }
        if let Some(DoubtStage::Again { is_proved }) = stage {
            self.enter(token, is_proved);
        }
    }

    /// How many are in line.
    pub(super) fn in_line(&self) -> usize {
        self.line.len()
    }

    /// Those that are not known any more leave the line.
    pub(super) fn retain(&mut self, is_known: impl Fn(Token) -> bool) {
        self.line.retain(|token| is_known(*token));
        let stays = |token: &Token, stage: &mut DoubtStage| {
            *stage != DoubtStage::InLine || is_known(*token)
        };
        self.stages.retain(stays);
    }
}
