//! One process: its local queue, its token table, its contenders and its connections. What the
//! driver does between the machines is restated here, in `leading` (the leader) and in `hold` and
//! `guarding` (bodies and the watchdog).

use std::collections::BTreeSet;
use std::time::Duration;

use super::host::{AlwaysAwake, LEADER, ModelHost, ModelRequest, queue_key};
use super::run::{Order, Run, Wants};
use super::seen::{Seen, Witness};
use super::world::{Answer, Clock, Command, Push, Reply, TOKENS_EACH, What, Wire, address_of};
use crate::client::host::ClientActions;
use crate::client::local_queue::{GrantKind, LeaderStep, LocalQueue, Remote, WaiterId};
use crate::client::queue_state::QueuedWaiter;
use crate::client::tokens::Attempt;
use crate::client::{Client, ClientRules, PastTry, QueueStep, SentAcquire, Told};
use crate::rules::commands::{Acquire, Claim, Keep};
use crate::rules::queue;
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
    pub(super) client: Client<ModelHost>,
    pub(super) used: u32,
    pub(super) leader: Leader,
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
    /// `reader`: the only contender, which sends it itself.
    Acquiring {
        sent: SentAcquire,
        reader: Option<usize>,
    },
    Polling {
        attempt: Attempt,
        sent: Moment,
    },
}

/// The queue of a process, as `views` and the properties look at it.
pub(super) type Queue = LocalQueue<QueuedWaiter<ModelRequest, AlwaysAwake>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    pub(super) wants: Wants,
    /// `None`: what the run says about its process.
    pub(super) order: Option<Order>,
    pub(super) phase: Phase,
    /// An attempt outside the local queue, under way.
    pub(super) over: Option<(SentAcquire, PastTry)>,
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
    pub(super) fn new(at: usize, wants: &[Wants], rules: ClientRules) -> Self {
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
            client: Client::new(ModelHost { at }, rules),
            used: 0,
            leader: Leader::Idle,
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

    /// As `attempt::prepare`: a fresh token and its acquire; `None` when the run's tokens are used
    /// up.
    pub(super) fn prepare(
        &mut self,
        turn: &Turn<'_>,
        who: usize,
        queues: bool,
    ) -> Option<SentAcquire> {
        let run = turn.run;
        let Order { asks, terms } = self.order(run, who);
        if self.used >= run.attempts {
            return None;
        }
        self.used += 1;
        let numbers = self.at as u64 * TOKENS_EACH;
        let first = Token::of_test(numbers + 1);
        // Only once it is forgotten: a token enters the table once.
        let reused =
            run.is(Mutant::TokenReused) && self.client.tokens.next_check_at(first).is_none();
        let number = numbers + if reused { 1 } else { u64::from(self.used) };
        let token = Token::of_test(number);
        let lease = terms.lease();
        let within = run.tick.min(terms.validity());
        let address = queues.then(|| self.address());
        let command = Acquire {
            claim: asks.claim(number, address.as_deref(), self.asks_for(turn, who)),
            lease,
            not_after: turn.time + u64::try_from(within.as_micros()).expect("short"),
            repair_missing_ttl: None,
        };
        let give_up = turn.now().plus(within + queue::longest_stay(lease.get()));
        Some(SentAcquire {
            token,
            command,
            at: turn.now(),
            give_up,
        })
    }

    /// Sends an acquire.
    pub(super) fn send_acquire(&mut self, turn: &Turn<'_>, who: usize, sent: &SentAcquire) {
        let mut command = sent.command.clone();
        command.lease = self.asks_for(turn, who);
        self.send(turn, sent.token, What::Acquire(command));
    }

    /// How long the server is asked to keep the lock.
    fn asks_for(&self, turn: &Turn<'_>, who: usize) -> Ttl {
        let terms = self.order(turn.run, who).terms;
        if turn.run.is(Mutant::TtlUnderMinHold) {
            terms.ttl
        } else {
            terms.lease()
        }
    }

    /// Tells the machine what has happened. A token without an owner is left to the watchdog, which finds it by
    /// itself.
    pub(super) fn tell<T>(
        &mut self,
        turn: &Turn<'_>,
        event: impl FnOnce(&mut Client<ModelHost>, Told<'_, ModelHost>) -> T,
    ) -> T {
        let mut out = ClientActions::default();
        let reply = event(&mut self.client, (turn.now(), &mut out));
        if turn.run.is(Mutant::NoCleanUp) {
            for token in out.unowned.into_iter().flatten() {
                self.client.tokens.not_granted(token);
            }
        }
        self.client.keep_awake();
        reply
    }

    /// Tells the queue what has happened.
    pub(super) fn at<T: Default>(
        &mut self,
        turn: &Turn<'_>,
        event: impl FnOnce(&mut QueueStep<'_, ModelHost>) -> T,
    ) -> T {
        self.tell(turn, |client, told| client.at(&queue_key(), told, event))
    }

    /// An acquire whose answer will not be read. `link`: its connection still works.
    pub(super) fn unread(
        &mut self,
        turn: &Turn<'_>,
        sent: &SentAcquire,
        at_queue: bool,
        link: bool,
    ) {
        let token = sent.token;
        self.commands
            .forget(token, |what| matches!(what, What::Acquire(_)));
        let open = (true, Some(turn.now().plus(turn.run.tick)));
        let queue_key = at_queue.then(queue_key);
        if self.tell(turn, |client, told| {
            client.ended(queue_key.as_ref(), sent, open, told)
        }) {
            self.cancel_behind(turn, sent, link);
        }
    }

    pub(super) fn cancel_behind(&mut self, turn: &Turn<'_>, sent: &SentAcquire, link: bool) {
        if turn.run.is(Mutant::NoCleanUp) {
            self.client.tokens.not_granted(sent.token);
        } else if link {
            let cancel = What::Cancel {
                claim: sent.command.claim.clone(),
                keep: Keep::NOT,
                not_after: sent.command.not_after,
                behind: true,
            };
            self.send(turn, sent.token, cancel);
        } else {
            self.client.tokens.cancel_failed(sent.token, turn.now());
        }
    }

    /// The process learns of its connection's end: messages may have been missed.
    pub(super) fn broken(&mut self, turn: &mut Turn<'_>, behind: &[Token]) {
        for token in behind {
            self.client.tokens.cancel_failed(*token, turn.now());
        }
        // All that was sent over it, before a waiter looks and sends anew.
        let leader = std::mem::replace(&mut self.leader, Leader::Idle);
        let mut gave_up = Vec::new();
        for who in 0..self.contenders.len() {
            if let Some((sent, _)) = self.contenders[who].over.take() {
                self.unread(turn, &sent, false, false);
                gave_up.push(who);
            }
            match self.contenders[who].phase.clone() {
                Phase::Confirming { body, .. } => self.confirm_failed(turn, who, &body),
                Phase::Releasing { token, .. } => self.release_unclear(turn, who, token),
                Phase::Body(body) => self.downgrade_unclear(body.token),
                _ => {}
            }
        }
        match leader {
            Leader::Idle => {}
            Leader::Acquiring { sent, reader } => self.ask_failed(turn, sent, reader, false),
            Leader::Polling { attempt, sent } => self.poll_failed(turn, &attempt, sent),
        }
        for who in gave_up {
            if let Phase::Queue(_) | Phase::Alone = self.contenders[who].phase {
                self.leave(turn, who);
            }
        }
        self.tell(turn, |client, told| client.disconnected(&queue_key(), told));
    }

    /// The process reads an answer.
    pub(super) fn hear(&mut self, turn: &mut Turn<'_>, by_watchdog: bool, reply: Reply) {
        let (token, now) = (reply.token, turn.now());
        match reply.answer {
            Answer::Acquired(answer) => self.acquired(turn, token, answer),
            Answer::Polled(answer) => self.polled(turn, token, answer),
            Answer::Released(_) => self.released(token),
            Answer::Renewed(answer) if by_watchdog => {
                let news = self.client.tokens.renewed(token, reply.sent, answer, now);
                self.announce(turn, news);
            }
            Answer::Renewed(answer) => self.confirmed(turn, token, reply.sent, answer),
            Answer::Downgraded(reads) => self.downgraded(turn, token, reply.sent, reads),
            Answer::Cancelled(mut answer, behind) => {
                answer.conclusive |= turn.run.is(Mutant::FirstAnswerEnds);
                let news = self.client.tokens.cancelled(token, answer, behind, now);
                self.announce(turn, news);
            }
            Answer::Broken(_) if by_watchdog => unreachable!("the watchdog's wire fails at once"),
            Answer::Broken(behind) => self.broken(turn, &behind),
        }
    }

    /// A contender stops waiting; its attempt outside the queue has been settled.
    pub(super) fn leave(&mut self, turn: &mut Turn<'_>, who: usize) {
        let is_called = |queue: &Queue| queue.called().is_some_and(|it| it.request.who == who);
        let is_first = matches!(self.remote(), Some(Remote::Granted(..)))
            && self.queue().is_some_and(is_called);
        if let Phase::Queue(waiter_id) = self.contenders[who].phase {
            self.at(turn, |queue| queue.leave(waiter_id));
        }
        self.contenders[who].phase = Phase::Done;
        if is_first && self.has_waiters() {
            turn.seen.saw(Witness::GrantInherited);
        }
        self.flight_dropped(turn, who);
    }

    /// As `Drop for Waiter`: others inherit the acquire that this contender has sent, or nobody
    /// will read its answer.
    pub(super) fn flight_dropped(&mut self, turn: &Turn<'_>, who: usize) {
        match std::mem::replace(&mut self.leader, Leader::Idle) {
            Leader::Acquiring { sent, reader } if reader == Some(who) => {
                if self.has_waiters() {
                    self.leader = Leader::Acquiring { sent, reader: None };
                } else {
                    let link = !self.is_cut();
                    self.unread(turn, &sent, true, link);
                    self.at(turn, |queue| queue.leader_gone(LEADER));
                }
            }
            other => self.leader = other,
        }
    }

    /// As `Waiter::new`: a new waiter; the only one sends an acquire itself.
    pub(super) fn enter(&mut self, turn: &mut Turn<'_>, who: usize) {
        // The pool checks whether the lock may still be handed on, but to forget a queue without a
        // leader is right at any time.
        let queues = &mut self.client.queues;
        let state = queues.by_key.get(&queue_key());
        if turn.run.forgets_queues && state.is_some_and(|it| it.is_idle_at(Moment::NEVER)) {
            turn.seen.saw(Witness::QueueForgotten);
            queues.remove(&queue_key());
        }
        let request = self.request(turn, who);
        let mut is_sender = false;
        let entered = self.tell(turn, |client, told| {
            client.enter(&queue_key(), request, &AlwaysAwake, told, |_| {
                is_sender = true;
            })
        });
        self.contenders[who].phase = Phase::Queue(entered.waiter_id);
        if entered.moved.is_some()
            && let Leader::Acquiring { reader, .. } = &mut self.leader
        {
            *reader = None;
        }
        if is_sender {
            self.ask(turn, who, Some(who));
        }
    }

    /// The leader has nothing to do and sleeps. A waiter's time to claim its grant counts from the
    /// leader's check.
    pub(super) fn rest(&mut self, turn: &Turn<'_>) {
        let sleeps = self.queue().is_some_and(|queue| {
            let next = queue.clone().next(turn.now());
            matches!(next, LeaderStep::Sleep(_))
        });
        if sleeps {
            drop(self.at(turn, |queue| queue.lead(LEADER, &AlwaysAwake)));
        }
    }

    pub(super) fn saw_held(turn: &mut Turn<'_>, how: GrantKind) {
        if how == GrantKind::AtOnce {
            turn.seen.saw(Witness::HeldAtOnce);
        }
    }
}
