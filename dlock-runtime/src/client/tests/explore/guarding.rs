//! The watchdog, as in `driver/watchdog`.

use super::mutants::Mutant;
use super::process::{Body, Phase, Process, Turn};
use super::seen::Witness;
use super::world::{Command, What, token_in};
use crate::client::tokens::Action;
use crate::rules::commands::{Keep, Renewed};
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

impl Process {
    /// `thread::watch`: sends what is due, on the watchdog's own connection.
    pub(super) fn guard(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now();
        let known = self.client.tokens.all().len();
        let actions = self.client.tokens.due(now);
        let tokens = &self.client.tokens;
        assert!(tokens.next_check() > now, "all that was due is done");
        let mut deadlines = tokens
            .all()
            .into_iter()
            .filter_map(|it| tokens.deadline(it));
        assert!(deadlines.all(|deadline| deadline > now), "lost in time");
        assert!(actions.len() <= 2 * known, "no more than it is about");
        for action in actions {
            self.announce(turn, Some(action));
        }
    }

    fn send_guarded(&mut self, turn: &Turn<'_>, token: Token, what: What) {
        if turn.run.mutant.is_none() {
            // Of an acquire that was not answered, the cancel behind it may be reported late, while
            // the watchdog's own is on its way: then it sends one more, which does no harm.
            let is_alone = !self.is_guarded(token);
            let is_right = match &what {
                What::Renew(_) => is_alone && !self.is_released(token),
                What::Cancel { not_after, .. } => {
                    self.client.tokens.is_cleaning_up(token) && (is_alone || *not_after != 0)
                }
                _ => false,
            };
            assert!(
                is_right,
                "one command at a time, and for what it is: {what:?}"
            );
        }
        self.watchdog.out.push_back(Command {
            token,
            sent: turn.now(),
            what,
            heard: true,
        });
    }

    /// A command of the watchdog's is awaited.
    pub(super) fn is_guarded(&self, token: Token) -> bool {
        let mut sent = self.watchdog.out.iter().filter(|it| it.heard);
        sent.any(|it| it.token == token) || self.watchdog.back.iter().any(|it| it.token == token)
    }

    fn is_released(&self, token: Token) -> bool {
        let is = |it: &Command| it.token == token && matches!(it.what, What::Release { .. });
        self.commands.out.iter().any(is)
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
            Some(Action::Lost { holder, cause, .. }) => {
                let now = turn.now();
                if let Some(body) = self.body_of(holder) {
                    let is_over = cause == LostCause::Gone || now >= body.deadline;
                    assert!(is_over, "{cause:?} before its deadline");
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
            Some(Action::Verify { .. }) => panic!("no message says that anybody was evicted"),
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
