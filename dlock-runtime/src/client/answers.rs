//! What the server's answers to acquires and polls mean, and what follows from failures.
//!
//! [`SentAcquire::landed`] is the one place that reads an answer to an acquire: of a queue, past it
//! and in a model. Invariants: each answer reaches the queue that it was sent for, or its token is
//! cleaned up; each error that waiting can't cure reaches the queue's waiters; an answer to a leader
//! that was replaced changes nothing but what its own token has at the server, and wakes the current
//! one.

use std::time::Duration;

use super::host::ClientHost;
use super::leading::Answered;
use super::local_queue::{Grant, MessageOutcome};
use super::queue_key::QueueKey;
use super::queue_state::LeaderEpoch;
use super::retry::{self, Pause};
use super::tokens::Tokens;
use super::{Client, QueueStep, Told};
use crate::rules::commands::{Acquire, Acquired, Busy, Left, NoQuorum, NotDue, Polled};
use crate::values::entry;
use crate::values::holder::{self, Holder, Reading};
use crate::values::moment::Moment;
use crate::values::token::Token;

/// An acquire on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SentAcquire {
    pub(crate) token: Token,
    pub(crate) command: Acquire,
    pub(crate) at: Moment,
    /// After this time nothing of it can be left on the server.
    pub(crate) give_up: Moment,
}

/// What an acquire led to that the server answered.
#[derive(Debug)]
pub(crate) enum Landed {
    Granted(Grant),
    /// It stands in the server's queue.
    Queued(Busy),
    /// Nothing of it is there: another has the lock.
    Taken(Busy),
    /// Some nodes may have granted it.
    NoQuorum(Box<NoQuorum>),
    /// Nothing was created: the server's clock is ahead of our estimate, which the answer has
    /// corrected.
    Late,
    /// Two kinds were asked for at one key.
    WrongKind {
        there: String,
        is_open: bool,
    },
    /// It runs once per period, and was run within it.
    NotDue(NotDue),
}

/// Why a command was not answered, or not carried out.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each holds or not, whatever the others do"
)]
pub(crate) struct AttemptFault<E> {
    pub(crate) error: E,
    /// The server may have carried it out all the same, or may yet.
    pub(crate) is_open: bool,
    /// It may pass by itself.
    pub(crate) may_pass: bool,
    /// Another server has the key, and the next command goes there: no reason to pause.
    pub(crate) is_elsewhere: bool,
    /// Its slot moves to another server.
    pub(crate) is_moving: bool,
    /// Whether the server answered in time; if not, it has told nothing.
    pub(crate) is_answered: bool,
}

pub(crate) type AcquireAnswer<E> = Result<Landed, AttemptFault<E>>;

/// Why a call does not get its lock, besides another holder. The host puts it into words.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AcquireRefusal<E> {
    Server(E),
    ShutDown,
    /// The lease was over before its grant arrived.
    LeaseOver,
    /// Again and again the server executed the acquire after its time.
    TooLate,
    /// The key has no time to live.
    Endless,
    /// The value at the key has another layout.
    Layout,
    /// Another kind of lock stands there.
    WrongKind(String),
    /// It was run within its period.
    NotDue(NotDue),
    /// What this process has at the key itself is not settled yet.
    Unsettled,
}

/// Why the lock is not ours.
#[derive(Debug)]
pub(crate) enum InTheWay {
    Somebody {
        holder: Holder,
        left: Duration,
    },
    /// The key has no time to live; the program that wrote it may be about to set one.
    Endless,
    /// Its value can't be read.
    Layout,
}

/// What the sender of a command knows about its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The server tells this process over it that the lock is granted.
    pub(crate) is_told: bool,
    /// A `cancel` can follow on it, and is reported by then.
    pub(crate) follows: Option<Moment>,
}

/// The answer that a waiter reads to the acquire that it has sent itself.
pub(crate) struct ReadAnswer<'a, E> {
    pub(crate) leader_epoch: LeaderEpoch,
    /// `None`: nothing was sent.
    pub(crate) answer: Option<(&'a SentAcquire, AcquireAnswer<E>, Heard)>,
}

impl SentAcquire {
    /// Reads its answer.
    pub(crate) fn landed(&self, answer: Acquired) -> Landed {
        match answer {
            Acquired::Granted { time, epoch } => {
                let lease = self.command.lease.get();
                Landed::Granted(Grant::at_once(self.at, lease, epoch, time))
            }
            Acquired::Yours { time, epoch, left } => {
                Landed::Granted(Grant::in_turn(self.at, left, epoch, time))
            }
            Acquired::Queued(busy) if self.command.claim.queues => Landed::Queued(busy),
            Acquired::Queued(busy) | Acquired::Busy(busy) => Landed::Taken(busy),
            Acquired::NoQuorum(answer) => Landed::NoQuorum(answer),
            Acquired::Late { .. } => Landed::Late,
            Acquired::WrongKind { there, is_open, .. } => Landed::WrongKind { there, is_open },
            Acquired::NotDue(not_due) => Landed::NotDue(not_due),
        }
    }
}

impl Landed {
    /// The value that is waited for.
    pub(crate) fn waits_for(&self) -> Option<&Busy> {
        match self {
            Landed::Queued(busy) => Some(busy),
            Landed::NoQuorum(answer) => Some(&answer.busy),
            _ => None,
        }
    }

    /// Whether a server may have something of it, which nobody will take over; `None`: it has
    /// something, for a waiter or a holder.
    pub(crate) fn leaves_open(&self) -> Option<bool> {
        match self {
            Landed::Granted(_) | Landed::Queued(_) => None,
            Landed::Taken(_) | Landed::Late | Landed::NotDue(_) => Some(false),
            Landed::NoQuorum(answer) => Some(answer.is_open),
            Landed::WrongKind { is_open, .. } => Some(*is_open),
        }
    }
}

/// Whether something of it may be at the server that nobody takes over; `None`: somebody does.
pub(crate) fn leaves_open<E>(answer: &AcquireAnswer<E>) -> Option<bool> {
    match answer {
        Ok(landed) => landed.leaves_open(),
        Err(fault) => Some(fault.is_open),
    }
}

/// Reads a busy answer: who holds the key, or why its value can't be waited for.
pub(crate) fn in_the_way(busy: &Busy) -> InTheWay {
    if let (entry::LEFT_TO_A_WRITER, Left::For(left)) = (&*busy.value, busy.left) {
        let holder = Holder::WaitingWriter;
        return InTheWay::Somebody { holder, left };
    }
    match (holder::read(&busy.value), busy.left) {
        (Reading::UnknownLayout, _) => InTheWay::Layout,
        (_, Left::Endless) => InTheWay::Endless,
        (Reading::Holder(holder), Left::For(left)) => InTheWay::Somebody { holder, left },
    }
}

impl<H: ClientHost> Client<H> {
    /// An acquire has ended whose answer nobody reads, or that is one of several keys'; `queue_key`:
    /// of the queue that it was for. `is_open`: a server may have something of it. Returns whether a
    /// `cancel` must follow it.
    pub(crate) fn ended(
        &mut self,
        queue_key: Option<&QueueKey>,
        sent: &SentAcquire,
        (is_open, follows): (bool, Option<Moment>),
        told: Told<'_, H>,
    ) -> bool {
        match queue_key {
            Some(queue_key) => self.at(queue_key, told, |it| it.ended(sent, is_open, follows)),
            None => end(&mut self.tokens, sent, (is_open, follows), told.0),
        }
    }
}

/// Nothing is left of an acquire, or the clean-up has it from now on: `is_open`, which is returned.
pub(super) fn end<T: Clone>(
    tokens: &mut Tokens<T>,
    sent: &SentAcquire,
    (is_open, follows): (bool, Option<Moment>),
    now: Moment,
) -> bool {
    if is_open {
        let (not_after, give_up) = (sent.command.not_after, sent.give_up);
        tokens.abandoned(sent.token, not_after, give_up, follows, now);
    } else {
        tokens.not_granted(sent.token);
    }
    is_open
}

/// Acquires.
impl<H: ClientHost> QueueStep<'_, H> {
    /// A leader's acquire was answered, or failed.
    pub(crate) fn answered(
        &mut self,
        leader_epoch: LeaderEpoch,
        (sent, answer): (&SentAcquire, AcquireAnswer<H::Error>),
        heard: Heard,
    ) -> Answered {
        let answered = self.landed(leader_epoch, sent, answer, heard);
        if answered.is_granted {
            self.state.wake_called(self.step.out);
        }
        answered
    }

    /// A leader's acquire could not be sent. Returns for how long an outage has lasted that must be
    /// mentioned now.
    pub(crate) fn unsent(
        &mut self,
        leader_epoch: LeaderEpoch,
        fault: AttemptFault<H::Error>,
    ) -> Option<Duration> {
        let is_current = self.is_current(leader_epoch);
        is_current.then(|| self.failed(fault)).flatten()
    }

    pub(super) fn read(&mut self, read: ReadAnswer<'_, H::Error>) -> Answered {
        match read.answer {
            Some((sent, answer, heard)) => self.landed(read.leader_epoch, sent, answer, heard),
            None => Answered::default(),
        }
    }

    /// The caller wakes the waiter that has the turn after a grant.
    fn landed(
        &mut self,
        leader_epoch: LeaderEpoch,
        sent: &SentAcquire,
        answer: AcquireAnswer<H::Error>,
        heard: Heard,
    ) -> Answered {
        let is_open = leaves_open(&answer);
        let cancels_behind =
            is_open.is_some_and(|is_open| self.ended(sent, is_open, heard.follows));
        let is_current = self.is_current(leader_epoch);
        let mut answered = Answered {
            cancels_behind,
            ..Answered::default()
        };
        match answer {
            Ok(Landed::Granted(grant)) => {
                if is_current {
                    self.state.succeeded();
                }
                answered.is_granted = self.granted(sent.token, grant);
            }
            Ok(Landed::Queued(busy)) => self.queued(is_current, sent.token, &busy, heard.is_told),
            _ if !is_current => {}
            Ok(Landed::Taken(busy)) => self.taken(&busy),
            Ok(Landed::NoQuorum(answer)) => self.no_quorum(&answer),
            Ok(Landed::Late) => {
                let pause = self
                    .state
                    .retries(self.step.rules.spread)
                    .at_once(self.step.now);
                // That it came too late says less than a failure before.
                let before = self.state.failed.0.as_deref();
                let failed = before.map_or(AcquireRefusal::TooLate, |(_, failed)| failed.clone());
                answered.mention = self.pause_through(pause, failed);
            }
            Ok(Landed::WrongKind { there, .. }) => {
                self.refuse_all(&AcquireRefusal::WrongKind(there));
            }
            Ok(Landed::NotDue(it)) => self.refuse_all(&AcquireRefusal::NotDue(it)),
            Err(fault) => answered.mention = self.failed(fault),
        }
        answered
    }

    /// Of an acquire that leaves nothing for a waiter or holder. Returns whether a `cancel` must
    /// follow it: not if a push came first, and the token is in use or cleaned up already.
    fn ended(&mut self, sent: &SentAcquire, is_open: bool, follows: Option<Moment>) -> bool {
        let is_ours = self.state.queue.ended(sent.token, self.step.now);
        is_ours && end(self.step.tokens, sent, (is_open, follows), self.step.now)
    }

    /// The lock is ours: an answer or a push says so. The first notification wins. Returns whether a
    /// waiter has the turn by it.
    fn granted(&mut self, token: Token, grant: Grant) -> bool {
        let (bounds, margin) = (&self.step.rules.handoff, self.step.rules.margin);
        let grant = grant.with_handoff_limit(bounds, margin, self.step.now);
        let outcome = self.state.queue.granted(token, grant);
        self.settle(&outcome)
    }

    /// The same, and the waiter that has the turn is woken.
    pub(super) fn granted_to_called(&mut self, token: Token, grant: Grant) {
        if self.granted(token, grant) {
            self.state.wake_called(self.step.out);
        }
    }

    /// Returns whether it was about our attempt, and somebody wants it.
    fn settle(&mut self, outcome: &MessageOutcome) -> bool {
        if let MessageOutcome::Unwanted(token) = *outcome {
            self.step.clean_up(token);
        }
        *outcome == MessageOutcome::Taken
    }

    fn queued(&mut self, is_current: bool, token: Token, busy: &Busy, is_told: bool) {
        if is_current {
            self.state.succeeded();
        }
        let left = match busy.left {
            // An empty value: the lock is free and yet not ours, because the first entry in the
            // server's queue is of a kind that we can't read.
            Left::For(left) if !busy.value.is_empty() => left,
            Left::For(_) | Left::Endless => Duration::MAX,
        };
        let interval = self.step.rules.poll_interval(is_told);
        let pause = self
            .state
            .retries(self.step.rules.spread)
            .busy(left, interval);
        self.polls_again(token, pause);
    }

    fn polls_again(&mut self, token: Token, pause: Duration) {
        self.step.tokens.queued(token);
        let outcome = self.state.queue.queued(token, self.step.now.plus(pause));
        self.settle(&outcome);
    }

    /// The server queued nothing: the key holds another layout, or has no time to live. A program
    /// that locks in two steps, `SETNX` and `EXPIRE`, may be between them, so the key is checked
    /// again.
    fn taken(&mut self, busy: &Busy) {
        let interval = self.step.rules.poll_interval(false);
        let why = in_the_way(busy);
        let retries = self.state.retries(self.step.rules.spread);
        let pause = match why {
            InTheWay::Endless => match retries.endless(self.step.now, interval) {
                Some(pause) => pause,
                None => return self.refuse_all(&AcquireRefusal::Endless),
            },
            InTheWay::Somebody { left, .. } => {
                retries.succeeded();
                retries.busy(left, interval)
            }
            InTheWay::Layout => {
                retries.succeeded();
                return self.refuse_all(&AcquireRefusal::Layout);
            }
        };
        self.pause(pause, None);
    }

    /// No quorum of nodes granted the lock, and nobody queues at a node.
    fn no_quorum(&mut self, answer: &NoQuorum) {
        let InTheWay::Somebody { left, .. } = in_the_way(&answer.busy) else {
            return self.taken(&answer.busy);
        };
        let cap = self.step.rules.poll_interval(answer.is_told);
        let retries = self.state.retries(self.step.rules.spread);
        let pause = retries.no_quorum(answer, left, cap);
        let next_freed = retries.next_hint(answer, self.step.now);
        self.state.failed.0 = None;
        let until = self.step.now.plus(pause);
        self.state.queue.pause_unless_told(until, next_freed);
    }

    /// The current leader's acquire failed; returns what must be mentioned.
    fn failed(&mut self, fault: AttemptFault<H::Error>) -> Option<Duration> {
        let error = AcquireRefusal::Server(fault.error);
        if !fault.may_pass {
            self.refuse_all(&error);
            return None;
        }
        let retries = self.state.retries(self.step.rules.spread);
        let pause = if fault.is_elsewhere {
            retries.at_once(self.step.now)
        } else {
            Some(retries.failed(self.step.now))
        };
        self.pause_through(pause, error)
    }

    /// `None`: asks again at once.
    fn pause_through(
        &mut self,
        pause: Option<Pause>,
        failed: AcquireRefusal<H::Error>,
    ) -> Option<Duration> {
        let pause = pause?;
        self.pause(pause.length, Some(failed));
        pause.mention
    }

    fn pause(&mut self, pause: Duration, failed: Option<AcquireRefusal<H::Error>>) {
        self.state.failed.0 = failed.map(|failed| Box::new((self.step.now, failed)));
        self.state.queue.pause(self.step.now.plus(pause));
    }
}

/// Polls.
impl<H: ClientHost> QueueStep<'_, H> {
    /// A leader's poll for this token, sent then, was answered, or failed. `is_here`: grants for the
    /// token arrive on the connection that it went over. Returns as [`unsent`](Self::unsent) does.
    pub(crate) fn polled(
        &mut self,
        leader_epoch: LeaderEpoch,
        (token, sent): (Token, Moment),
        answer: Result<Polled, AttemptFault<H::Error>>,
        (is_here, is_told): (bool, bool),
    ) -> Option<Duration> {
        let is_current = self.is_current(leader_epoch);
        if !is_current {
            self.state.wake_leader(self.step.out); // what was polled for may be gone
        }
        match answer {
            Err(fault) => return self.poll_failed(leader_epoch, token, fault),
            Ok(Polled::Yours { time, epoch, left }) => {
                if is_current {
                    self.state.succeeded();
                }
                self.granted_to_called(token, Grant::in_turn(sent, left, epoch, time));
            }
            // The connection has changed, so a grant would reach nobody; or the key has lost its
            // time to live, which only an acquire handles.
            Ok(Polled::Queued(busy)) if !is_here || busy.left == Left::Endless => {
                if self.state.queue.ended(token, self.step.now) {
                    self.step.clean_up(token);
                }
            }
            Ok(Polled::Queued(busy)) => self.queued(is_current, token, &busy, is_told),
            Ok(gone @ (Polled::Gone { .. } | Polled::NotDue(_))) => {
                if self.state.queue.ended(token, self.step.now) {
                    self.step.tokens.not_granted(token);
                }
                if let Polled::NotDue(it) = gone {
                    self.refuse_all(&AcquireRefusal::NotDue(it));
                }
            }
        }
        None
    }

    fn poll_failed(
        &mut self,
        leader_epoch: LeaderEpoch,
        token: Token,
        fault: AttemptFault<H::Error>,
    ) -> Option<Duration> {
        let is_current = self.is_current(leader_epoch);
        let error = AcquireRefusal::Server(fault.error);
        if !fault.may_pass {
            if is_current {
                self.refuse_all(&error); // which also gives up the queue entry
            }
            return None;
        }
        self.state.queue.flush_early(); // it may be that a push was missed
        if !is_current {
            // The pauses are the current leader's.
            let mut jitter = self.step.rules.spread.jitter(leader_epoch);
            self.polls_again(token, retry::after_failure(1, &mut jitter));
            return None;
        }
        let pause = self
            .state
            .retries(self.step.rules.spread)
            .failed(self.step.now);
        self.state.failed.0 = Some(Box::new((self.step.now, error)));
        self.polls_again(token, pause.length);
        pause.mention
    }
}
