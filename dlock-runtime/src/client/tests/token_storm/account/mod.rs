//! A simple model of the states that the table may have for each token, kept beside it.

use super::Event;
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::tokens::{Census, Extension, ReleaseBy, Tokens};
use crate::rules::commands::{Claim, Keep, Renewed};
use crate::rules::tests::ms;
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::{Margin, Ttl};
mod news;

use std::collections::BTreeMap;

/// The state of a token, as the table may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Acquiring,
    Waiting,
    Held { deadline: Moment, ends: Moment },
    Releasing,
    CleaningUp,
}

impl Phase {
    /// Acquired or queued, and without a holder yet.
    fn is_unowned(self) -> bool {
        matches!(self, Phase::Acquiring | Phase::Waiting)
    }
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Renew { sent: Moment },
    Cancel { behind_acquire: bool },
}

#[derive(Default)]
pub(super) struct Account {
    table: Tokens<Token>,
    now: u64,
    started: u64,
    phases: BTreeMap<Token, Phase>,
    /// Until when the key of each token stays, as far as its holder said so in time.
    kept: BTreeMap<Token, Keep>,
    /// When the host looks next, unless it is late.
    looks_by: Moment,
    /// At most one for each token, as it is the map's key.
    under_way: BTreeMap<Token, Command>,
}

impl Account {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.now * 1_000_000)
    }

    /// Any token that ever was, dead ones included: late messages must not hurt.
    fn any(&self, index: usize) -> Token {
        Token::of_test(self.any_number(index))
    }

    fn any_number(&self, index: usize) -> u64 {
        u64::try_from(index).unwrap() % self.started.max(1)
    }

    fn kept(&self, token: Token) -> Keep {
        self.kept.get(&token).copied().unwrap_or(Keep::NOT)
    }

    fn nth_in(&self, index: usize, fits: impl Fn(Phase) -> bool) -> Option<Token> {
        let all: Vec<Token> = self
            .phases
            .iter()
            .filter(|(_, phase)| fits(**phase))
            .map(|(token, _)| *token)
            .collect();
        (!all.is_empty()).then(|| all[index % all.len()])
    }

    pub(super) fn take(&mut self, event: &Event) {
        let now = self.now();
        match *event {
            Event::Start => {
                let token = Token::of_test(self.started);
                self.started += 1;
                self.table.acquiring(token, claim(self.started));
                self.phases.insert(token, Phase::Acquiring);
                // A stray of this number was cleaned up; the outcome means nothing any more.
                self.under_way.remove(&token);
                self.kept.remove(&token);
            }
            Event::Queued(who) => {
                let token = self.any(who);
                self.table.queued(token);
                if let Some(phase @ Phase::Acquiring) = self.phases.get_mut(&token) {
                    *phase = Phase::Waiting;
                }
            }
            Event::PushedGrant {
                who,
                ttl,
                given,
                renew,
                bounds,
            } => {
                let ttl = ms(ttl);
                let renew = renew.then_some(ttl / 3);
                let terms = LeaseTerms {
                    ttl: Ttl::new(ttl).unwrap(),
                    renew,
                    bounds,
                    margin: Margin::DEFAULT,
                };
                self.grant(self.any(who), given, &terms);
            }
            Event::GiveUp(who) => {
                let token = self.any(who);
                self.table.give_up(token, now.plus(ms(4000)), now);
                if let Some(phase) = self.phases.get_mut(&token)
                    && phase.is_unowned()
                {
                    *phase = Phase::CleaningUp;
                }
            }
            Event::Stray(who) => {
                let number = self.any_number(who);
                self.started = self.started.max(number + 1);
                self.stray(number);
            }
            Event::StrayAhead(ahead) => self.stray(self.started + ahead),
            Event::Keep { who, keep } => {
                let token = self.any(who);
                let held = matches!(self.phases.get(&token), Some(Phase::Held { .. }));
                assert_eq!(self.table.keep(token, keep), held, "its holder's to say");
                if held {
                    self.kept.insert(token, keep);
                }
            }
            Event::NotGranted(who) => {
                if let Some(token) = self.nth_in(who, Phase::is_unowned) {
                    self.table.not_granted(token);
                    self.phases.remove(&token);
                }
            }
            Event::Abandon { who, behind } => {
                if let Some(token) = self.nth_in(who, |phase| phase == Phase::Acquiring) {
                    let give_up = now.plus(ms(4000));
                    let cancelled_by = behind.then_some(give_up);
                    self.table
                        .abandoned(token, u64::MAX, give_up, cancelled_by, now);
                    self.phases.insert(token, Phase::CleaningUp);
                    if behind {
                        self.under_way.insert(
                            token,
                            Command::Cancel {
                                behind_acquire: true,
                            },
                        );
                    }
                }
            }
            Event::Release(who) => self.release(self.any(who)),
            Event::Released(who) => {
                if let Some(token) = self.nth_in(who, |phase| phase == Phase::Releasing) {
                    self.table.released(token);
                    self.phases.remove(&token);
                }
            }
            Event::HandOver(who) => self.leave_to_clean_up(self.any(who)),
            Event::Extend { who, by } => self.extend(self.any(who), by),
            Event::Refuse(who) => {
                let news = self.table.refused(self.any(who), now);
                self.hear(news);
            }
            Event::Answer { command, how } => self.answer_nth(command, how),
            Event::Check { after } => self.look(after),
            Event::LookAtOne(who) => {
                let news = self.table.due_of(self.any(who), now);
                self.hear(news);
            }
        }
    }

    /// The server gave that many thousandths of the lease.
    fn grant(&mut self, token: Token, given: u64, terms: &LeaseTerms) {
        let given = terms.lease().get() * u32::try_from(given).unwrap() / 1000;
        let lease = Lease::granted(self.now(), given, terms);
        let granted = self.table.granted(token, lease, |_| token).is_some();
        let expected = self.phases.get(&token).is_some_and(|it| it.is_unowned());
        assert_eq!(granted, expected, "a token holds once");
        if granted {
            let max_hold = terms.bounds.max_hold;
            let held = Phase::Held {
                deadline: lease.deadline(),
                ends: max_hold.map_or(Moment::NEVER, |most| self.now().plus(most)),
            };
            self.phases.insert(token, held);
        }
    }

    /// A known token is left alone; an unknown one, dead or never there, has to be cleaned up.
    /// (While a renewal of a dead token is under way there may be two commands; one more cancel
    /// does no harm.)
    fn stray(&mut self, number: u64) {
        let token = Token::of_test(number);
        let is_known = self.phases.contains_key(&token);
        if !is_known && self.under_way.contains_key(&token) {
            return;
        }
        let (now, give_up) = (self.now(), self.now().plus(ms(4000)));
        self.table.stray(token, claim(number + 1), give_up, now);
        if !is_known {
            self.phases.insert(token, Phase::CleaningUp);
            self.kept.remove(&token);
        }
    }

    fn release(&mut self, token: Token) {
        let by = self.table.release(token, self.now());
        let held = matches!(self.phases.get(&token), Some(Phase::Held { .. }));
        let renewing = self.under_way.contains_key(&token);
        match by {
            ReleaseBy::Nobody => assert!(!held),
            ReleaseBy::Caller { keep } => {
                assert_eq!(keep, self.kept(token));
                assert!(
                    held && !renewing,
                    "a renewal could arrive behind this release"
                );
                self.phases.insert(token, Phase::Releasing);
            }
            ReleaseBy::Host => {
                assert!(held && renewing);
                self.phases.insert(token, Phase::CleaningUp);
            }
        }
    }

    fn leave_to_clean_up(&mut self, token: Token) {
        self.table.leave_to_clean_up(token, self.now());
        if let Some(phase @ (Phase::Held { .. } | Phase::Releasing)) = self.phases.get_mut(&token) {
            *phase = Phase::CleaningUp;
        }
    }

    fn extend(&mut self, token: Token, by: u64) {
        let now = self.now();
        let by = Ttl::new(ms(by)).unwrap();
        let told = self.table.extended(token, (now, by), Renewed::Yes, now);
        match (told, self.phases.get_mut(&token)) {
            (Extension::Until(told, cause), Some(Phase::Held { deadline, ends })) => {
                let given = now.plus(Margin::DEFAULT.validity(by.get())).min(*ends);
                assert!(now < *deadline && told == (*deadline).max(given));
                assert_eq!(cause == LostCause::MaxHold, told == *ends);
                *deadline = told;
            }
            (Extension::Over, Some(Phase::Held { deadline, .. })) => assert!(now >= *deadline),
            (told, _) => assert_eq!(told, Extension::Over, "only what is held can be extended"),
        }
    }

    pub(super) fn check(&self) {
        let mut census = Census::default();
        for phase in self.phases.values() {
            *match phase {
                Phase::Acquiring => &mut census.acquiring,
                Phase::Waiting => &mut census.waiting,
                Phase::Held { .. } => &mut census.held,
                Phase::Releasing => &mut census.releasing,
                Phase::CleaningUp => &mut census.cleaning_up,
            } += 1;
        }
        assert_eq!(self.table.census(), census);
        let looks = self
            .phases
            .keys()
            .map(|token| self.table.next_check_at(*token).unwrap());
        let (next, first) = (self.table.next_check(), looks.min());
        let first = first.unwrap_or(Moment::NEVER);
        let is_true = next == first || (next > first && first > self.looks_by);
        assert!(is_true, "the timeline: {next:?}, not {first:?}");
    }
}

/// Its value is its number.
fn claim(number: u64) -> Claim {
    Claim {
        key: "k".into(),
        value: number.to_string().into(),
        queues: false,
    }
}
