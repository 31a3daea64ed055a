//! What must hold of a process's token table in every state of a fleet: its looks are in step with
//! its entries, and once nobody waits or holds it runs dry, however its commands are answered.
//!
//! Asked of copies; the fleet itself goes on. `drain` shows rest with a server that answers.

use std::time::Duration;

use super::process::Process;
use crate::client::tokens::{Action, Tokens};
use crate::rules::commands::Cancelled;
use crate::rules::queue;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// What the server says to every command, for good.
#[derive(Clone, Copy, Debug)]
pub(super) enum EveryAnswer {
    Fails,
    No,
    Yes,
    Never,
}

pub(super) const EVERY_ANSWER: [EveryAnswer; 4] = [
    EveryAnswer::Fails,
    EveryAnswer::No,
    EveryAnswer::Yes,
    EveryAnswer::Never,
];

/// How late a host looks.
const LATE: Duration = Duration::from_millis(250);

/// What is given up may stay for this long.
const STAYS: Duration = Duration::from_secs(4);

/// How much later than it is sent the last command about a lease may be executed.
const EXECUTED_WITHIN: Duration = Duration::from_secs(6);

impl Process {
    /// The next look of the table is the first of all tokens'.
    pub(super) fn looks_in_step(&self) -> Option<&'static str> {
        let is_wrong = !is_in_step(&self.client.tokens, Moment::NEVER); // none may be late
        is_wrong.then_some("a token that is looked at too early or too late")
    }

    /// All holders and waiters leave, and time passes. `longest`: of all leases.
    pub(super) fn runs_dry(
        &self,
        now: Moment,
        longest: Duration,
        answer: EveryAnswer,
    ) -> Option<&'static str> {
        let mut tokens = self.client.tokens.clone();
        let end = now.plus(queue::longest_stay(longest) + EXECUTED_WITHIN);
        let mut now = now;
        let mut looks_by = now.plus(LATE);
        tokens.looks_by(looks_by);
        for token in tokens.all() {
            tokens.give_up(token, now.plus(STAYS), now);
            tokens.leave_to_clean_up(token, now);
        }
        while !tokens.all().is_empty() {
            if !is_in_step(&tokens, looks_by) {
                return Some("a token that a late look would miss");
            }
            if now > end {
                return Some("something is left for good");
            }
            let actions = tokens.due(now);
            if tokens.next_check() <= now {
                return Some("a look that leaves something undone");
            }
            looks_by = now.plus(LATE);
            tokens.looks_by(looks_by);
            for action in actions {
                match action {
                    Action::Cancel {
                        token, not_after, ..
                    } => {
                        answered(&mut tokens, (token, not_after), answer, now);
                    }
                    Action::CleanedUp { .. } => {}
                    _ => return Some("a command for nobody"),
                }
            }
            now = looks_by;
        }
        (tokens.next_check() != Moment::NEVER).then_some("a look at nothing")
    }
}

fn is_in_step(tokens: &Tokens<Token>, looks_by: Moment) -> bool {
    let all = tokens.all();
    let looks = all.iter().filter_map(|token| tokens.next_check_at(*token));
    let (next, first) = (tokens.next_check(), looks.min().unwrap_or(Moment::NEVER));
    next == first || next > first && first > looks_by
}

fn answered(
    tokens: &mut Tokens<Token>,
    (token, not_after): (Token, u64),
    answer: EveryAnswer,
    now: Moment,
) {
    let conclusive = match answer {
        EveryAnswer::Never => return,
        EveryAnswer::Fails => return tokens.cancel_failed(token, now),
        EveryAnswer::No => false,
        EveryAnswer::Yes => true,
    };
    let answer = Cancelled {
        is_recorded: false,
        time: not_after.saturating_sub(1000),
        found: conclusive,
        conclusive,
        rest: 0,
    };
    tokens.cancelled(token, answer, false, now);
}
