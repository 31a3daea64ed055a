//! What a process does about its locks, as one pure state machine: its waiters, its attempts at the
//! server and its leases, changed in one step.
//!
//! Read `host` (what differs between the process that ships and a model of it), `spec` (a request
//! once it is checked) and `queue_key` (which local queue a waiter joins). `lease` is one lease,
//! from its grant to its end, `tokens` every token of this process until nothing of it is left on
//! the server, `local_queue` the order of the waiters of one key, and `retry` when to try again.
//! [`Client`] is all of them. An event is a method: of [`QueueStep`] if it is about one queue, of
//! `Client` otherwise. It returns a reply to whoever told it, and puts what follows for others into
//! [`ClientActions`]:
//!
//! - `waiting`: what waiters tell; `leading`: what the sender of a queue's commands tells;
//! - `answers`: what the server's answers mean; `messages`: what it says unasked;
//! - `past_try`: the tries past the queue; `several`: several keys in one command;
//! - `holding`: the end of a hold;
//! - `queue_state`: one queue with its sender and wakers; `queue_table`: all queues.
//!
//! Machines of their own are `quorum` (the votes of several servers), `server_clock` (an estimate of a
//! server's time) and `clock_watch` (whether its clock keeps pace).
//!
//! `driver` tells it under the mutex of `driver/shared`, and carries out what it says after
//! unlocking. `docs/notes/client.md` has the table.
//!
//! Invariants: a token that leaves its queue without being taken is cleaned up in the same step, or
//! was never granted; a lock that is handed on has exactly one holder at each moment; nothing is
//! woken in here.
//!
//! Never in this folder: `await`, reading a clock, I/O, a mutex. Belongs elsewhere: what a server
//! answers (→ `rules`).

mod answers;
pub(crate) mod clock_watch;
mod holding;
mod host;
mod leading;
pub(crate) mod lease;
pub(crate) mod local_queue;
mod messages;
mod past_try;
pub(crate) mod queue_key;
mod queue_state;
pub(crate) mod queue_table;
pub(crate) mod quorum;
pub(crate) mod retry;
pub(crate) mod server_clock;
mod several;
pub(crate) mod spec;
pub(crate) mod tokens;
mod waiting;

#[cfg(test)]
pub(crate) mod tests;

use self::local_queue::Grant;
use self::queue_key::QueueKey;
use self::queue_state::QueueState;
use self::queue_table::QueueTable;
use self::tokens::{Standing, Tokens};
use crate::rules::commands::Busy;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(crate) use self::answers::{
    AcquireAnswer, AcquireRefusal, AttemptFault, Heard, ReadAnswer, SentAcquire, leaves_open,
};
#[cfg(test)]
pub(crate) use self::answers::{InTheWay, in_the_way};
pub(crate) use self::holding::ReturnedTo;
pub(crate) use self::host::{ClientActions, ClientHost, ClientRules, ClientWaker};
pub(crate) use self::leading::LeaderTurn;
pub(crate) use self::past_try::{PastTry, PastTurn};
pub(crate) use self::queue_state::LeaderEpoch;
pub(crate) use self::several::{SeveralTry, SeveralTurn};
pub(crate) use self::waiting::{JoinedQueue, LookReply, Looked};

/// All queues and all tokens of a pool.
#[derive(Debug)]
pub(crate) struct Client<H: ClientHost> {
    pub(crate) host: H,
    rules: ClientRules,
    pub(crate) queues: QueueTable<H>,
    pub(crate) tokens: Tokens<H::Holder>,
    /// The last leader's number.
    epochs: LeaderEpoch,
    /// The pool is being shut down: nobody gets a lock.
    pub(crate) is_closed: bool,
}

/// A step of the machine: its time, and what it changes besides a queue.
pub(crate) struct ClientStep<'a, H: ClientHost> {
    host: &'a H,
    rules: &'a ClientRules,
    tokens: &'a mut Tokens<H::Holder>,
    epochs: &'a mut LeaderEpoch,
    is_closed: bool,
    out: &'a mut ClientActions<H>,
    now: Moment,
}

/// A step of one queue.
pub(crate) struct QueueStep<'a, H: ClientHost> {
    pub(crate) state: &'a mut QueueState<H>,
    step: ClientStep<'a, H>,
}

/// When an event is told, and where it puts what follows for others.
pub(crate) type Told<'a, H> = (Moment, &'a mut ClientActions<H>);

impl<H: ClientHost> Client<H> {
    pub(crate) fn new(host: H, rules: ClientRules) -> Self {
        let (queues, tokens) = if rules.is_of_quorum {
            (QueueTable::of_quorum(), Tokens::of_quorum())
        } else {
            (QueueTable::default(), Tokens::default())
        };
        Self {
            host,
            rules,
            queues,
            tokens,
            epochs: 0,
            is_closed: false,
        }
    }

    /// Tells a queue what has happened, if there is one, and removes it if it is idle then. Without
    /// one, nothing follows.
    #[inline]
    pub(crate) fn at<T: Default>(
        &mut self,
        queue_key: &QueueKey,
        told: Told<'_, H>,
        event: impl FnOnce(&mut QueueStep<'_, H>) -> T,
    ) -> T {
        let (queues, step) = self.step(told);
        let Some(state) = queues.by_key.get_mut(queue_key) else {
            return T::default();
        };
        let mut at_queue = QueueStep { state, step };
        let reply = event(&mut at_queue);
        if at_queue.state.is_idle() {
            queues.remove(queue_key);
        }
        reply
    }

    fn step<'a>(
        &'a mut self,
        (now, out): Told<'a, H>,
    ) -> (&'a mut QueueTable<H>, ClientStep<'a, H>) {
        let step = ClientStep {
            host: &self.host,
            rules: &self.rules,
            tokens: &mut self.tokens,
            epochs: &mut self.epochs,
            is_closed: self.is_closed,
            out,
            now,
        };
        (&mut self.queues, step)
    }

    /// Takes a lock that was granted without a queue; `None`: it is not taken, and its token is
    /// cleaned up ([`why_not_taken`](Self::why_not_taken)).
    pub(crate) fn take_alone(
        &mut self,
        request: &H::Request,
        token: Token,
        grant: &Grant,
        told: Told<'_, H>,
    ) -> Option<H::Holder> {
        self.step(told).1.take(request, token, grant)
    }

    /// Why a grant was not taken.
    pub(crate) fn why_not_taken(&self) -> AcquireRefusal<H::Error> {
        if self.is_closed {
            AcquireRefusal::ShutDown
        } else {
            AcquireRefusal::LeaseOver
        }
    }

    /// What a server's value means to this pool; `None`: it is not this pool's.
    pub(crate) fn standing(&self, busy: &Busy, now: Moment) -> Option<Standing> {
        let ours = self.host.token_in(&busy.value)?;
        Some(self.tokens.standing(ours, now))
    }

    /// Whether somebody has the lock by the value in the way. Otherwise it is this pool's own: an
    /// attempt, or a hold that has ended, of which nothing may be left a moment later.
    pub(crate) fn is_held(&self, busy: &Busy, now: Moment) -> bool {
        (self.standing(busy, now)).is_none_or(|it| it == Standing::Holds)
    }
}

impl<H: ClientHost> ClientStep<'_, H> {
    /// Cleans up what the server has of this token: nobody here wants it.
    fn clean_up(&mut self, token: Token) {
        let timeout = self.rules.command_timeout;
        self.tokens.unwanted(token, timeout, self.now);
        self.out.clean_up(token);
    }

    /// Turns a grant into a lease of its new holder. `None`: the lease would be over already, or the
    /// pool is closed, and the token is cleaned up.
    fn take(&mut self, request: &H::Request, token: Token, grant: &Grant) -> Option<H::Holder> {
        let lease = grant.lease_for(H::terms(request));
        let is_over = self.is_closed || self.now >= lease.deadline();
        let holder = |attempt| self.host.holder(request, attempt, &lease);
        let holder = (!is_over).then(|| self.tokens.granted(token, lease, holder));
        let holder = holder.flatten();
        if holder.is_some() {
            self.out.begun = Some(token);
        } else {
            self.clean_up(token);
        }
        holder
    }
}
