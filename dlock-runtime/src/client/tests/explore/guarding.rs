//! The watchdog, as in `driver/watchdog`.

use super::mutants::Mutant;
use super::process::{Body, Phase, Process, Turn};
use super::seen::Witness;
use super::world::{Command, What, token_in};
use crate::client::tokens::Action;
use crate::rules::commands::{Keep, Renewed};
use crate::values::moment::Moment;
use crate::values::token::Token;

impl Process {
    /// `thread::watch`: sends what is due, on the watchdog's own connection.
    pub(super) fn guard(&mut self, turn: &mut Turn<'_>) {
        for action in self.client.tokens.due(turn.now()) {
            self.announce(turn, Some(action));
        }
    }

    fn send_guarded(&mut self, turn: &Turn<'_>, token: Token, what: What) {
        self.watchdog.out.push_back(Command {
            token,
            sent: turn.now(),
            what,
            heard: true,
        });
    }

    pub(super) fn announce(&mut self, turn: &mut Turn<'_>, news: Option<Action<Token>>) {
        match news {
            Some(Action::Renew { token, renewal, .. }) => {
                self.send_guarded(turn, token, What::Renew(renewal));
            }
            Some(Action::Cancel {
                token,
                claim,
                keep,
                not_after,
            }) => {
                let cancel = What::Cancel {
                    claim,
                    keep: kept(turn, keep),
                    not_after,
                    behind: false,
                };
                self.send_guarded(turn, token, cancel);
            }
            Some(Action::Lost { holder, .. }) => {
                if let Some(body) = self.body_of(holder) {
                    body.lost = true;
                }
            }
            Some(Action::Extended {
                token,
                holder,
                deadline,
                ..
            }) => {
                turn.seen.saw(Witness::Renewed);
                let now = turn.now();
                match self.body_of(holder) {
                    Some(body) if !body.lost && now < body.deadline => {
                        body.deadline = body.deadline.max(deadline);
                    }
                    // Its holder has seen the deadline pass: nothing is to be renewed any more.
                    Some(_) => self.client.tokens.leave_to_clean_up(token, now),
                    None => {}
                }
            }
            Some(Action::CleanedUp {
                claim, found: None, ..
            }) => {
                let (_, token) = token_in(&claim.value).expect("the model's values");
                self.given_up.insert(token);
            }
            Some(Action::CleanedUp { .. }) | None => {}
        }
    }

    fn body_of(&mut self, token: Token) -> Option<&mut Body> {
        self.contenders
            .iter_mut()
            .find_map(|it| match &mut it.phase {
                Phase::Body(body) | Phase::Confirming { body, .. } if body.token == token => {
                    Some(body)
                }
                _ => None,
            })
    }

    /// The watchdog's command took too long, or its connection broke.
    pub(super) fn watchdog_failed(
        &mut self,
        turn: &mut Turn<'_>,
        token: Token,
        renews: bool,
        sent: Moment,
    ) {
        let now = turn.now();
        if renews {
            let news = self
                .client
                .tokens
                .renewed(token, sent, Renewed::Failed, now);
            self.announce(turn, news);
        } else {
            self.client.tokens.cancel_failed(token, now);
        }
    }
}

pub(super) fn kept(turn: &Turn<'_>, keep: Keep) -> Keep {
    if turn.run.is(Mutant::MinHoldForgotten) {
        Keep::NOT
    } else {
        keep
    }
}
