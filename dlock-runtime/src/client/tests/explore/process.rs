//! One process: its local queue, its token table, its contenders and its connections. What the
//! driver does between the machines is restated here, in `leading` (the leader) and in `hold` and
//! `guarding` (bodies and the watchdog).

use std::collections::BTreeSet;
use std::time::Duration;

use super::run::{Order, Run, Wants};
use super::seen::{Seen, Witness};
use super::world::{Answer, Clock, Command, Push, Reply, TOKENS_EACH, What, Wire, address_of};
use crate::client::Client;
use crate::client::local_queue::{Attempt, GrantKind, LeaderStep, LocalQueue, Remote, WaiterId};
use crate::client::tokens::Tokens;
use crate::policy::commands::{Acquire, Claim, Keep};
use crate::policy::queue;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

use super::fault::Stall;
use super::mutants::Mutant;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) at: usize,
    pub(super) alive: bool,
    pub(super) stall: Option<Stall>,
    /// The number of the command connection: a broken one is replaced.
    pub(super) connection: u32,
    pub(super) queue: LocalQueue<usize>,
    pub(super) tokens: Tokens<Token>,
    pub(super) used: u32,
    pub(super) leader: Leader,
    /// An acquire was late: the next failure counts.
    pub(super) was_late: bool,
    pub(super) contenders: Vec<Contender>,
    pub(super) commands: Wire,
    pub(super) watchdog: Wire,
    pub(super) pushes: Vec<Push>,
    /// Tokens whose bodies have begun.
    pub(super) begun: BTreeSet<Token>,
    /// Tokens whose clean-up was given up, when nothing of them could be left any more.
    pub(super) given_up: BTreeSet<Token>,
}

/// What the leader waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Leader {
    Idle,
    Acquiring(SentAcquire),
    Polling { attempt: Attempt, sent: Moment },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    pub(super) wants: Wants,
    /// `None`: what the run says about its process.
    pub(super) order: Option<Order>,
    pub(super) phase: Phase,
    /// An attempt outside the local queue, under way.
    pub(super) over: Option<SentAcquire>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Queue(WaiterId),
    /// Outside the local queue, and never in it.
    Alone,
    /// Prolongs a short grant to the whole `min_hold` before the body begins.
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
    /// It has asked to go on as a reader.
    pub(super) reads: bool,
    /// When that was sent, while its answer is awaited.
    pub(super) asked: Option<Moment>,
    /// It has asked for a lease of this length instead.
    pub(super) extends: Option<Ttl>,
}

/// As `values::fence`, not yet multiplied.
pub(super) type Fence = (u64, u16);

/// An acquire under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SentAcquire {
    pub(super) token: Token,
    pub(super) claim: Claim,
    pub(super) sent: Moment,
    pub(super) not_after: u64,
    pub(super) give_up: Moment,
    /// The acquire before it was late.
    pub(super) again: bool,
    /// How long the lock is ours if it is granted.
    pub(super) lease: Ttl,
}

/// A body that began, for the world to judge.
pub(super) struct Begun {
    pub(super) body: Body,
    pub(super) twice: bool,
    pub(super) min_hold: Option<Duration>,
}

/// What a step of a process needs to know.
pub(super) struct Turn<'a> {
    pub(super) run: &'a Run,
    pub(super) clock: Clock,
    /// The server's time, as far as the process knows it.
    pub(super) time: u64,
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
            order: None,
            phase: Phase::Idle,
            over: None,
        };
        Self {
            at,
            alive: true,
            stall: None,
            connection: 0,
            queue: LocalQueue::default(),
            tokens: Tokens::default(),
            used: 0,
            leader: Leader::Idle,
            was_late: false,
            contenders: wants.iter().map(contender).collect(),
            commands: Wire::default(),
            watchdog: Wire::default(),
            pushes: Vec::new(),
            begun: BTreeSet::new(),
            given_up: BTreeSet::new(),
        }
    }

    /// What a contender requests.
    pub(super) fn order(&self, run: &Run, who: usize) -> Order {
        let order = self.contenders.get(who).and_then(|it| it.order);
        order.unwrap_or(Order {
            asks: run.asks(self.at),
            terms: run.terms(self.at),
        })
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
    pub(super) fn prepare(
        &mut self,
        turn: &Turn<'_>,
        who: usize,
        queues: bool,
    ) -> Option<(SentAcquire, Acquire)> {
        let run = turn.run;
        let Order { asks, terms } = self.order(run, who);
        if self.used >= run.attempts {
            return None;
        }
        self.used += 1;
        let numbers = self.at as u64 * TOKENS_EACH;
        let first = Token::of_test(numbers + 1);
        // Only once it is forgotten: a token enters the table once.
        let reused = run.is(Mutant::TokenReused) && self.tokens.next_check_at(first).is_none();
        let number = numbers + if reused { 1 } else { u64::from(self.used) };
        let token = Token::of_test(number);
        let lease = if run.is(Mutant::TtlUnderMinHold) {
            terms.ttl
        } else {
            terms.lease()
        };
        let within = run.tick.min(terms.validity());
        let address = queues.then(|| self.address());
        let command = Acquire {
            claim: asks.claim(number, address.as_deref(), lease),
            lease,
            not_after: turn.time + u64::try_from(within.as_micros()).expect("short"),
            repair_missing_ttl: None,
        };
        let give_up = turn.now().plus(within + queue::longest_stay(lease.get()));
        let attempt = SentAcquire {
            token,
            claim: command.claim.clone(),
            sent: turn.now(),
            not_after: command.not_after,
            give_up,
            again: false,
            lease: terms.lease(),
        };
        Some((attempt, command))
    }

    /// The machine, as the driver has it under its mutex.
    pub(super) fn client(&mut self, turn: &Turn<'_>) -> Client<'_, usize, Token> {
        Client {
            queue: Some(&mut self.queue),
            tokens: &mut self.tokens,
            command_timeout: turn.run.tick,
        }
    }

    /// A token may be left without an owner: the watchdog cleans it up by itself.
    pub(super) fn hand_to_watchdog(&mut self, turn: &Turn<'_>, unowned: Option<Token>) {
        if let Some(token) = unowned
            && turn.run.is(Mutant::NoCleanUp)
        {
            self.tokens.not_granted(token);
        }
    }

    /// `Drop for OpenAttempt`: the answer will not be read. `link`: the acquire's connection still
    /// works.
    pub(super) fn abandon(
        &mut self,
        turn: &Turn<'_>,
        attempt: &SentAcquire,
        at_queue: bool,
        link: bool,
    ) {
        let token = attempt.token;
        self.commands
            .forget(token, |what| matches!(what, What::Acquire(_)));
        let now = turn.now();
        let by = Some(now.plus(turn.run.tick));
        let (not_after, give_up) = (attempt.not_after, attempt.give_up);
        if !at_queue {
            self.tokens.abandoned(token, not_after, give_up, by, now);
        } else if !(self.client(turn)).abandoned(token, not_after, give_up, by, now) {
            return; // a push came first, and the token is in use
        }
        if turn.run.is(Mutant::NoCleanUp) {
            return self.tokens.not_granted(token);
        }
        if link {
            let cancel = What::Cancel {
                claim: attempt.claim.clone(),
                keep: Keep::NOT,
                not_after: attempt.not_after,
                behind: true,
            };
            self.send(turn, token, cancel);
        } else {
            self.tokens.cancel_failed(token, now);
        }
    }

    /// The process learns of its connection's end: messages may have been missed.
    pub(super) fn broken(&mut self, turn: &mut Turn<'_>, behind: &[Token]) {
        match std::mem::replace(&mut self.leader, Leader::Idle) {
            Leader::Idle => {}
            Leader::Acquiring(attempt) => self.ask_failed(turn, &attempt, false),
            Leader::Polling { attempt, .. } => self.poll_failed(turn, &attempt),
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
        self.queue.poll_now(turn.now());
    }

    /// The process reads an answer.
    pub(super) fn hear(&mut self, turn: &mut Turn<'_>, by_watchdog: bool, reply: Reply) {
        let (token, now) = (reply.token, turn.now());
        match reply.answer {
            Answer::Acquired(answer) => self.acquired(turn, token, answer),
            Answer::Polled(answer) => self.polled(turn, token, answer),
            Answer::Released(_) => self.released(token),
            Answer::Renewed(answer) if by_watchdog => {
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
            Answer::Broken(_) if by_watchdog => unreachable!("the watchdog's wire fails at once"),
            Answer::Broken(behind) => self.broken(turn, &behind),
        }
    }

    /// A contender stops waiting; its attempt outside the queue has been settled.
    pub(super) fn leave(&mut self, turn: &mut Turn<'_>, who: usize) {
        let granted = matches!(self.queue.remote(), Remote::Granted(..));
        let first = granted && self.queue.called() == Some(&who);
        if let Phase::Queue(waiter_id) = self.contenders[who].phase {
            let unowned = self.client(turn).leave(waiter_id, turn.now());
            self.hand_to_watchdog(turn, unowned);
        }
        self.contenders[who].phase = Phase::Done;
        if first && self.queue.has_waiters() {
            turn.seen.saw(Witness::GrantInherited);
        }
    }

    /// `Waiter::new`: a new waiter, which takes the lead if it is free.
    pub(super) fn enter(&mut self, turn: &mut Turn<'_>, who: usize) {
        // The pool checks whether the lock may still be handed on, but to forget the queue is right
        // at any time.
        let is_held = matches!(self.queue.remote(), Remote::Held(..));
        if turn.run.forgets_queues && is_held && !self.queue.has_waiters() {
            turn.seen.saw(Witness::QueueForgotten);
            self.queue = LocalQueue::default();
        }
        let waiter_id = self.queue.enter(who);
        self.queue.become_leader();
        self.contenders[who].phase = Phase::Queue(waiter_id);
    }

    /// The leader has nothing to do and sleeps. A waiter's time to claim its grant counts from the
    /// leader's check.
    pub(super) fn rest(&mut self, now: Moment) {
        let mut rests = self.queue.clone();
        if let LeaderStep::Sleep(_) = rests.next(now) {
            self.queue = rests;
        }
    }

    pub(super) fn saw_held(turn: &mut Turn<'_>, how: GrantKind) {
        if how == GrantKind::AtOnce {
            turn.seen.saw(Witness::HeldAtOnce);
        }
    }
}
