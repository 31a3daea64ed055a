//! The driver and the attempts past the line: as `engine/waiting/driver`, `engine/acquire.rs` and the
//! pool's `Listener` do it.

use super::mutants::Mutant;
use super::process::{Attempt, Driver, Phase, Process, Turn};
use super::seen::Witness;
use super::world::What;
use crate::policy::commands::{Acquired, Busy, Claim, Left, Polled};
use crate::policy::gate::{Granted, Next, Offer, Place, Position};
use crate::values::ttl::{Margin, Ttl};

use crate::policy::retry::{self, Jitter};
use crate::values::entry;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// The driver.
impl Process {
    pub(super) fn drive(&mut self, turn: &mut Turn<'_>) {
        match self.client(turn).next(turn.now()) {
            Next::Ask => self.ask(turn),
            Next::Poll(position) => self.poll(turn, position),
            Next::GiveUp(position) => {
                turn.seen.saw(Witness::StaleOffer);
                self.see_to(turn, Some(position.token));
            }
            Next::PassOn | Next::Sleep(_) | Next::Rest => {}
        }
    }

    fn ask(&mut self, turn: &Turn<'_>) {
        let Some(first) = self.gate.first().copied() else {
            return;
        };
        let Some((attempt, command)) = self.prepare(turn, first, true) else {
            return self.send_away(turn);
        };
        self.client(turn).sending(Position {
            token: attempt.token,
            claim: attempt.claim.clone(),
        });
        self.send(turn, attempt.token, What::Acquire(command));
        self.driver = Driver::Asking(attempt);
    }

    fn poll(&mut self, turn: &Turn<'_>, position: Position) {
        let what = if turn.run.is(Mutant::PollByAcquire) {
            let lease = self.lease_of(turn, &position.claim);
            What::Acquire(crate::policy::commands::Acquire {
                claim: position.claim.clone(),
                lease,
                not_after: turn.time + 1_000_000,
                repair_missing_ttl: None,
            })
        } else {
            What::Poll(position.claim.clone())
        };
        self.send(turn, position.token, what);
        let sent = turn.now();
        self.driver = Driver::Polling { position, sent };
    }

    /// What an acquire of this claim asked for.
    fn lease_of(&self, turn: &Turn<'_>, claim: &Claim) -> Ttl {
        let asked = entry::read(&claim.value).and_then(|entry| Ttl::new(entry.lease).ok());
        asked.unwrap_or_else(|| turn.run.terms(self.at).lease())
    }

    /// The command took too long.
    pub(super) fn driver_timed_out(&mut self, turn: &Turn<'_>) {
        match std::mem::replace(&mut self.driver, Driver::Idle) {
            Driver::Idle => {}
            Driver::Asking(attempt) => self.ask_failed(turn, &attempt, true),
            Driver::Polling { position, .. } => {
                self.commands.forget(position.token, |what| {
                    matches!(what, What::Poll(_) | What::Acquire(_))
                });
                self.poll_failed(turn, &position);
            }
        }
    }

    /// Its runtime ends under it.
    pub(super) fn driver_lost(&mut self, turn: &Turn<'_>) {
        match std::mem::replace(&mut self.driver, Driver::Idle) {
            Driver::Idle => {}
            Driver::Asking(attempt) => {
                let link = !self.is_cut();
                self.abandon(turn, &attempt, true, link);
            }
            Driver::Polling { position, .. } => self
                .commands
                .forget(position.token, |what| matches!(what, What::Poll(_))),
        }
        self.gate.driver_gone();
    }

    pub(super) fn ask_failed(&mut self, turn: &Turn<'_>, attempt: &Attempt, link: bool) {
        if turn.run.is(Mutant::AcquireSentAgain) && !link {
            let command = crate::policy::commands::Acquire {
                claim: attempt.claim.clone(),
                lease: attempt.lease,
                not_after: turn.time + 1_000_000,
                repair_missing_ttl: None,
            };
            self.send(turn, attempt.token, What::Acquire(command));
            let mut again = attempt.clone();
            again.sent = turn.now();
            self.driver = Driver::Asking(again);
            return;
        }
        self.abandon(turn, attempt, true, link);
        self.pause(turn);
    }

    pub(super) fn poll_failed(&mut self, turn: &Turn<'_>, position: &Position) {
        self.polls_again(turn, position.token, outage_pause());
    }

    fn pause(&mut self, turn: &Turn<'_>) {
        self.gate.pause(turn.now().plus(outage_pause()));
    }

    /// The run has no more tokens for this process: as if the server refused for good.
    fn send_away(&mut self, turn: &Turn<'_>) {
        let (line, unowned) = self.client(turn).clear(turn.now());
        for (_, who) in line {
            if let Some(attempt) = self.contenders[who].over.take() {
                self.abandon(turn, &attempt, false, true);
            }
            self.contenders[who].phase = Phase::Done;
        }
        self.see_to(turn, unowned);
    }

    fn polls_again(&mut self, turn: &Turn<'_>, token: Token, pause: std::time::Duration) {
        let next = turn.now().plus(pause);
        let settled = self.client(turn).queued(token, next, turn.now());
        self.see_to(turn, settled.unowned());
    }
}

/// What the answers mean.
impl Process {
    pub(super) fn acquired(&mut self, turn: &mut Turn<'_>, token: Token, answer: Acquired) {
        match std::mem::replace(&mut self.driver, Driver::Idle) {
            Driver::Asking(attempt) if attempt.token == token => {
                return self.asked(turn, &attempt, answer);
            }
            // Only where a poll is an acquire.
            Driver::Polling { position, sent } if position.token == token => {
                return self.asked_for_poll(turn, position, sent, answer);
            }
            other => self.driver = other,
        }
        let theirs = |it: &Option<Attempt>| it.as_ref().is_some_and(|over| over.token == token);
        let who = self.contenders.iter().position(|it| theirs(&it.over));
        if let Some(who) = who
            && let Some(attempt) = self.contenders[who].over.take()
        {
            self.past_the_line(turn, who, attempt, answer);
        }
    }

    fn asked(&mut self, turn: &mut Turn<'_>, attempt: &Attempt, answer: Acquired) {
        let (token, since) = (attempt.token, attempt.sent);
        match answer {
            Acquired::Granted { time, epoch } => {
                let lease = attempt.lease.get();
                let how = Granted::AtOnce;
                self.offered(turn, token, offer(since, lease, epoch, time, how));
            }
            Acquired::Yours { time, epoch, left } => {
                self.offered(
                    turn,
                    token,
                    offer(since, left, epoch, time, Granted::InTurn),
                );
            }
            Acquired::Queued(busy) => {
                if matches!(self.gate.place(), Place::Offered(position, _) if position.token == token)
                {
                    turn.seen.saw(Witness::PushBeforeReply);
                }
                self.queued(turn, token, &busy);
            }
            Acquired::WrongKind { .. } => {
                turn.seen.saw(Witness::WrongKind);
                self.created_nothing(turn, token);
                self.send_away(turn);
            }
            Acquired::Busy(busy) => {
                self.created_nothing(turn, token);
                let pause = after_busy(turn, &busy);
                self.gate.pause(turn.now().plus(pause));
            }
            Acquired::Late { .. } => {
                self.created_nothing(turn, token);
                if std::mem::replace(&mut self.was_late, true) {
                    self.pause(turn);
                }
            }
        }
    }

    fn asked_for_poll(
        &mut self,
        turn: &mut Turn<'_>,
        position: Position,
        sent: Moment,
        answer: Acquired,
    ) {
        match answer {
            Acquired::Queued(busy) => self.queued(turn, position.token, &busy),
            Acquired::Granted { time, epoch } => {
                let lease = self.lease_of(turn, &position.claim).get();
                let offer = offer(sent, lease, epoch, time, Granted::AtOnce);
                self.offered(turn, position.token, offer);
            }
            Acquired::Yours { time, epoch, left } => {
                let offer = offer(sent, left, epoch, time, Granted::InTurn);
                self.offered(turn, position.token, offer);
            }
            Acquired::Busy(_) | Acquired::Late { .. } | Acquired::WrongKind { .. } => {
                self.poll_failed(turn, &position);
            }
        }
    }

    pub(super) fn polled(&mut self, turn: &mut Turn<'_>, token: Token, answer: Polled) {
        let Driver::Polling { position, sent } = std::mem::replace(&mut self.driver, Driver::Idle)
        else {
            unreachable!("nobody else polls");
        };
        match answer {
            Polled::Yours { time, epoch, left } => {
                turn.seen.saw(Witness::HeldByYours);
                let left = if turn.run.is(Mutant::YoursForTheWholeTtl) {
                    turn.run.ttl
                } else {
                    left
                };
                self.offered(turn, token, offer(sent, left, epoch, time, Granted::InTurn));
            }
            Polled::Queued(_) if !self.answers_at(&position) => {
                let unowned = self.client(turn).unreachable(&position, turn.now());
                self.see_to(turn, unowned);
            }
            Polled::Queued(busy) => self.queued(turn, token, &busy),
            Polled::Gone { .. } => {
                turn.seen.saw(Witness::Gone);
                self.created_nothing(turn, token);
            }
        }
    }

    fn offered(&mut self, turn: &mut Turn<'_>, token: Token, mut offer: Offer) {
        if turn.run.is(Mutant::DeadlineFromReply) {
            offer.since = turn.now();
        }
        self.was_late = false;
        Self::saw_held(turn, offer.how);
        let offer = offer.to_be_handed_on(&turn.run.handoff(), Margin::DEFAULT, turn.now());
        let settled = self.client(turn).granted(token, offer, turn.now());
        self.see_to(turn, settled.unowned());
    }

    fn queued(&mut self, turn: &Turn<'_>, token: Token, busy: &Busy) {
        self.was_late = false;
        self.polls_again(turn, token, after_busy(turn, busy));
    }

    fn created_nothing(&mut self, turn: &Turn<'_>, token: Token) {
        self.client(turn).nothing_there(token, turn.now());
    }

    fn answers_at(&self, position: &Position) -> bool {
        let entry = entry::read(&position.claim.value);
        entry.is_some_and(|it| *it.address == self.address())
    }
}

pub(super) fn offer(
    since: Moment,
    lease: std::time::Duration,
    epoch: u64,
    time: u64,
    how: Granted,
) -> Offer {
    match how {
        Granted::AtOnce => Offer::at_once(since, lease, epoch, time),
        Granted::InTurn => Offer::in_turn(since, lease, epoch, time),
    }
}

fn after_busy(turn: &Turn<'_>, busy: &Busy) -> std::time::Duration {
    let left = match busy.left {
        Left::For(left) => left,
        Left::Endless => std::time::Duration::MAX,
    };
    retry::after_busy(left, turn.run.poll_interval(), &mut Jitter::seeded(1))
}

/// Less than a tick too.
fn outage_pause() -> std::time::Duration {
    retry::after_failure(1, &mut Jitter::seeded(1))
}
