//! The actions that the table asks for, their outcomes, and what it tells.

use super::{Account, Command, Phase};
use crate::client::tokens::Action;
use crate::rules::commands::{Cancelled, Renewed};
use crate::rules::tests::ms;
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

impl Account {
    pub(super) fn answer_nth(&mut self, index: usize, how: u8) {
        let Some(token) = self
            .under_way
            .keys()
            .copied()
            .nth(index % self.under_way.len().max(1))
        else {
            return;
        };
        self.answer(token, how);
    }

    fn answer(&mut self, token: Token, how: u8) {
        let now = self.now();
        let news = match (self.under_way.remove(&token), how) {
            (Some(Command::Renew { sent }), _) => {
                let outcome = [Renewed::Failed, Renewed::NotOurs, Renewed::Yes][usize::from(how)];
                self.table.renewed(token, sent, outcome, now)
            }
            (Some(Command::Cancel { .. }), 0) => {
                self.table.cancel_failed(token, now);
                None
            }
            (Some(Command::Cancel { behind_acquire }), _) => {
                let answer = Cancelled {
                    time: u64::MAX - 1000,
                    found: how == 2,
                    conclusive: how == 2,
                    rest: 0,
                };
                self.table.cancelled(token, answer, behind_acquire, now)
            }
            (None, _) => None,
        };
        self.hear(news);
    }

    pub(super) fn look(&mut self, after: u64) {
        self.now += after;
        let (entries, actions) = (self.phases.len(), self.table.due(self.now()));
        assert!(actions.len() <= 2 * entries, "a bounded number of steps");
        for action in actions {
            self.hear(Some(action));
        }
        assert!(
            self.table.next_check() > self.now(),
            "all that was due is done"
        );
        // The next look may come sooner or later than that; what it finds is the same.
        if after > 0 {
            self.looks_by = self.now().plus(ms(after));
            self.table.looks_by(self.looks_by);
        }
        for phase in self.phases.values() {
            assert!(
                !matches!(phase, Phase::Held { deadline, .. } if *deadline <= self.now()),
                "told in time"
            );
        }
    }

    pub(super) fn hear(&mut self, news: Option<Action<Token>>) {
        let now = self.now();
        match news {
            Some(Action::Renew { token, .. }) => {
                let held =
                    matches!(self.phases[&token], Phase::Held { deadline, .. } if deadline > now);
                assert!(held, "renewed after its release or its end");
                assert!(
                    self.under_way
                        .insert(token, Command::Renew { sent: now })
                        .is_none()
                );
            }
            Some(Action::Cancel { token, keep, .. }) => {
                assert_eq!(keep, self.kept(token));
                assert_eq!(
                    self.phases[&token],
                    Phase::CleaningUp,
                    "a live lock was cancelled"
                );
                let cancel = Command::Cancel {
                    behind_acquire: false,
                };
                assert!(
                    self.under_way.insert(token, cancel).is_none(),
                    "one command at a time"
                );
            }
            Some(Action::Extended {
                holder,
                deadline: told,
                cause,
                ..
            }) => match self.phases.get_mut(&holder) {
                Some(Phase::Held { deadline, ends }) => {
                    assert!(told > *deadline && told <= *ends);
                    assert_eq!(cause == LostCause::MaxHold, told == *ends);
                    *deadline = told;
                }
                other => panic!("extended although {other:?}"),
            },
            Some(Action::Lost { holder, cause, .. }) => {
                let Some(Phase::Held { deadline, ends }) = self.phases.remove(&holder) else {
                    panic!("lost what was not held");
                };
                assert!(cause == LostCause::Gone || now >= deadline);
                assert!(
                    cause == LostCause::Gone || (cause == LostCause::MaxHold) == (deadline == ends)
                );
                if cause != LostCause::Gone {
                    self.phases.insert(holder, Phase::CleaningUp);
                }
            }
            Some(Action::CleanedUp { claim, .. }) => {
                let number: u64 = claim.value.parse().unwrap();
                let token = Token::of_test(number - 1);
                assert_eq!(self.phases.remove(&token), Some(Phase::CleaningUp));
                self.under_way.remove(&token); // given up: its answer means nothing any more
            }
            None => {}
        }
    }

    /// All holders and waiters leave and time passes: nothing stays, whether commands are answered
    /// (`how` as in [`Event::Answer`]) or never (3).
    pub(in crate::client::tests::token_storm) fn run_dry(mut self, how: u8) {
        for token in self.phases.keys().copied().collect::<Vec<_>>() {
            match self.phases[&token] {
                Phase::Acquiring => {
                    self.table.not_granted(token);
                    self.phases.remove(&token);
                }
                Phase::Waiting => {
                    let now = self.now();
                    self.table.give_up(token, now.plus(ms(4000)), now);
                    self.phases.insert(token, Phase::CleaningUp);
                }
                _ => self.leave_to_clean_up(token),
            }
        }
        let end = self.now + 12_000;
        loop {
            for token in self.under_way.keys().copied().collect::<Vec<_>>() {
                if how < 3 {
                    self.answer(token, how);
                }
            }
            self.check();
            if self.phases.is_empty() {
                break;
            }
            self.look(0); // then nothing is to come later
            let next = self.table.next_check().as_nanos().div_ceil(1_000_000);
            assert!(next <= end, "left behind: {:?}", self.phases);
            self.look(next.saturating_sub(self.now));
        }
        assert_eq!(
            (self.table.all(), self.table.next_check()),
            (vec![], Moment::NEVER)
        );
    }
}
