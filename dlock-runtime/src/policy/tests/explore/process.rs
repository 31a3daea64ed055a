//! One process: its gate, its token table, who contends, and its wires. What the engine does between
//! the machines is restated here and in `ask` (the driver) and `hold` (bodies and the guardian).

use super::run::{Run, Wants};
use super::seen::{Seen, Witness};
use super::world::{Answer, Clock, Command, Push, Reply, What, Wire, address_of};
use crate::policy::commands::{Acquire, Claim};
use crate::policy::gate::{Gate, Granted, Place, Position, Seat};
use crate::policy::queue;
use crate::policy::tokens::Tokens;
use crate::values::moment::Moment;
use crate::values::token::Token;

use super::fault::Stall;
use super::mutants::Mutant;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) at: usize,
    pub(super) alive: bool,
    pub(super) stall: Option<Stall>,
    /// The number of the command connection: a broken one is replaced.
    pub(super) connection: u8,
    pub(super) gate: Gate<usize>,
    pub(super) tokens: Tokens<Token>,
    pub(super) used: u8,
    pub(super) driver: Driver,
    /// An acquire was late: the next failure counts.
    pub(super) was_late: bool,
    pub(super) contenders: Vec<Contender>,
    pub(super) commands: Wire,
    pub(super) guardian: Wire,
    pub(super) pushes: Vec<Push>,
    /// Whose bodies have begun.
    pub(super) begun: u32,
}

/// What the driver waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Driver {
    Idle,
    Asking(Attempt),
    Polling { position: Position, sent: Moment },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    pub(super) wants: Wants,
    pub(super) phase: Phase,
    /// An attempt past the line, under way.
    pub(super) over: Option<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Line(Seat),
    /// Past the line, and never in it.
    Alone,
    /// Makes sure of the whole `min_hold`.
    Confirming {
        body: Body,
        sent: Moment,
    },
    Body(Body),
    Releasing {
        token: Token,
        sent: Moment,
    },
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Body {
    pub(super) token: Token,
    pub(super) claim: Claim,
    pub(super) deadline: Moment,
    pub(super) lost: bool,
    pub(super) fence: Fence,
    /// The server's time of the grant.
    pub(super) time: u64,
    /// It asked to go on as a reader.
    pub(super) reads: bool,
    /// When that was sent, while its answer is awaited.
    pub(super) asked: Option<Moment>,
}

/// As `values::fence`, not yet multiplied.
pub(super) type Fence = (u64, u16);

/// An acquire under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) token: Token,
    pub(super) claim: Claim,
    pub(super) sent: Moment,
    pub(super) not_after: u64,
    pub(super) give_up: Moment,
    /// The one before was late.
    pub(super) again: bool,
}

/// A body that began, for the world to judge.
pub(super) struct Begun {
    pub(super) body: Body,
    pub(super) twice: bool,
}

/// What a step of a process needs to know.
pub(super) struct Turn<'a> {
    pub(super) run: &'a Run,
    pub(super) clock: Clock,
    pub(super) seen: &'a mut Seen,
    pub(super) begun: Option<Begun>,
}

impl Turn<'_> {
    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }
}

impl Process {
    pub(super) fn new(at: usize, wants: &[Wants]) -> Self {
        let contender = |wants: &Wants| Contender {
            wants: *wants,
            phase: Phase::Idle,
            over: None,
        };
        Self {
            at,
            alive: true,
            stall: None,
            connection: 0,
            gate: Gate::default(),
            tokens: Tokens::default(),
            used: 0,
            driver: Driver::Idle,
            was_late: false,
            contenders: wants.iter().map(contender).collect(),
            commands: Wire::default(),
            guardian: Wire::default(),
            pushes: Vec::new(),
            begun: 0,
        }
    }

    pub(super) fn address(&self) -> String {
        address_of(self.at, self.connection)
    }

    pub(super) fn send(&mut self, turn: &Turn<'_>, token: Token, what: What) {
        self.commands.out.push_back(Command {
            token,
            sent: turn.now(),
            what,
            heard: true,
        });
    }

    /// `Sent::prepare`: a fresh token and its acquire; `None` when the run's tokens are used up.
    pub(super) fn prepare(&mut self, turn: &Turn<'_>, queues: bool) -> Option<(Attempt, Acquire)> {
        let run = turn.run;
        if self.used >= run.attempts {
            return None;
        }
        self.used += 1;
        let first = Token::of_test(self.at as u64 * 16 + 1);
        // Only once it is forgotten: a token enters the table once, or the table is not one.
        let reused = run.is(Mutant::TokenReused) && self.tokens.next_look_at(first).is_none();
        let number = self.at as u64 * 16 + if reused { 1 } else { u64::from(self.used) };
        let token = Token::of_test(number);
        let lease = if run.is(Mutant::TtlUnderMinHold) {
            run.terms(self.at).ttl
        } else {
            run.terms(self.at).lease()
        };
        let within = run.tick.min(run.terms(self.at).validity());
        let address = queues.then(|| self.address());
        let command = Acquire {
            claim: run.asks(self.at).claim(number, address.as_deref(), lease),
            lease,
            not_after: turn.clock.time() + u64::try_from(within.as_micros()).expect("short"),
            repair_missing_ttl: None,
        };
        let give_up = turn.now().plus(within + queue::longest_stay(lease.get()));
        self.tokens.acquiring(token, command.claim.clone());
        let attempt = Attempt {
            token,
            claim: command.claim.clone(),
            sent: turn.now(),
            not_after: command.not_after,
            give_up,
            again: false,
        };
        Some((attempt, command))
    }

    /// `LockPool::give_up`.
    pub(super) fn give_up(&mut self, turn: &Turn<'_>, position: &Position) {
        if turn.run.is(Mutant::NoCleanUp) {
            return self.tokens.not_granted(position.token);
        }
        let now = turn.now();
        let give_up = now.plus(turn.run.tick + queue::stay(&position.claim));
        self.tokens.give_up(position.token, give_up, now);
    }

    /// `Drop for OpenAttempt`: nobody will read the answer. `link`: the acquire's connection still works.
    pub(super) fn abandon(
        &mut self,
        turn: &Turn<'_>,
        attempt: &Attempt,
        at_gate: bool,
        link: bool,
    ) {
        let token = attempt.token;
        self.commands
            .forget(token, |what| matches!(what, What::Acquire(_)));
        let now = turn.now();
        if at_gate && !self.gate.ended(token, now) {
            return; // a push was faster, and the token is somebody's
        }
        if turn.run.is(Mutant::NoCleanUp) {
            return self.tokens.not_granted(token);
        }
        let by = now.plus(turn.run.tick);
        self.tokens
            .abandoned(token, attempt.not_after, attempt.give_up, Some(by), now);
        if link {
            let cancel = What::Cancel {
                claim: attempt.claim.clone(),
                keep_until: 0,
                not_after: attempt.not_after,
                behind: true,
            };
            self.send(turn, token, cancel);
        } else {
            self.tokens.cancel_failed(token, now);
        }
    }

    /// Told by the connection's end: something may have been missed.
    pub(super) fn broken(&mut self, turn: &mut Turn<'_>, behind: &[Token]) {
        match std::mem::replace(&mut self.driver, Driver::Idle) {
            Driver::Idle => {}
            Driver::Asking(attempt) => self.ask_failed(turn, &attempt, false),
            Driver::Polling { position, .. } => self.poll_failed(turn, &position),
        }
        for token in behind {
            self.tokens.cancel_failed(*token, turn.now());
        }
        for who in 0..self.contenders.len() {
            if let Some(attempt) = self.contenders[who].over.take() {
                self.abandon(turn, &attempt, false, false);
                self.leave(turn, who);
            }
            match self.contenders[who].phase.clone() {
                Phase::Confirming { body, .. } => self.confirm_failed(turn, who, &body),
                Phase::Releasing { token, .. } => self.release_unclear(turn, who, token),
                Phase::Body(body) => self.downgrade_unclear(body.token),
                _ => {}
            }
        }
        self.gate.hurry(turn.now());
    }

    /// An answer is read.
    pub(super) fn hear(&mut self, turn: &mut Turn<'_>, by_guardian: bool, reply: Reply) {
        let (token, now) = (reply.token, turn.now());
        match reply.answer {
            Answer::Acquired(answer) => self.acquired(turn, token, answer),
            Answer::Polled(answer) => self.polled(turn, token, answer),
            Answer::Released(_) => self.released(token),
            Answer::Renewed(answer) if by_guardian => {
                let news = self.tokens.renewed(token, reply.sent, answer, now);
                self.announce(turn, news);
            }
            Answer::Renewed(answer) => self.confirmed(turn, token, reply.sent, answer),
            Answer::Downgraded(reads) => self.downgraded(turn, token, reply.sent, reads),
            Answer::Cancelled(mut answer, behind) => {
                answer.conclusive |= turn.run.is(Mutant::FirstAnswerEnds);
                let news = self.tokens.cancelled(token, answer, behind, now);
                self.announce(turn, news);
            }
            Answer::Broken(_) if by_guardian => unreachable!("the guardian's wire fails at once"),
            Answer::Broken(behind) => self.broken(turn, &behind),
        }
    }

    /// Somebody stops waiting; an attempt past the line has been seen to.
    pub(super) fn leave(&mut self, turn: &mut Turn<'_>, who: usize) {
        let offered = matches!(self.gate.place(), Place::Offered(..));
        let first = offered && self.gate.called() == Some(&who);
        if let Phase::Line(seat) = self.contenders[who].phase
            && let Some(unwanted) = self.gate.leave(seat)
        {
            self.give_up(turn, &unwanted);
        }
        self.contenders[who].phase = Phase::Done;
        if first && self.gate.is_waited_at() {
            turn.seen.saw(Witness::OfferInherited);
        }
    }

    /// `Ticket::new`: a seat, and the wheel if nobody has it.
    pub(super) fn enter(&mut self, turn: &mut Turn<'_>, who: usize) {
        // The pool looks whether it may still be handed on, but to forget it is right at any time.
        let is_held = matches!(self.gate.place(), Place::Held(..));
        if turn.run.forgets_gates && is_held && !self.gate.is_waited_at() {
            turn.seen.saw(Witness::GateForgotten);
            self.gate = Gate::default();
        }
        let seat = self.gate.enter(who);
        self.gate.take_wheel();
        self.contenders[who].phase = Phase::Line(seat);
    }

    pub(super) fn saw_held(turn: &mut Turn<'_>, how: Granted) {
        if how == Granted::AtOnce {
            turn.seen.saw(Witness::HeldAtOnce);
        }
    }
}
