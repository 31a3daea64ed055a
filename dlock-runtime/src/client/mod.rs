//! What a process does about its locks, as one pure state machine: its waiters, its attempts at the
//! server and its leases, changed in one step.
//!
//! Read `host` (what differs between the process that ships and a model of it), `spec` (a request
//! once it is checked) and `queue_key` (which local queue a waiter joins). `lease` is one lease,
//! from its grant to its end, `tokens` every token of this process until nothing of it is left on
//! the server, `local_queue` the order of the waiters of one key, and `retry` when to try again.
//! [`Client`] is all of them: `waiting` has what waiters do, `leading` what the sender of a queue's
//! commands does, `answers` what the server's answers mean and `messages` what it says unasked,
//! `past_try` the tries past the queue, `holding` the end of a hold; `queue_state` is one queue with
//! its sender and wakers, `queue_table` holds all queues. `driver` calls it under the mutex of
//! `driver/shared`, and carries out what it says after unlocking. `docs/inside/client.md` has the
//! table.
//!
//! Invariants: a token that leaves its queue without being taken is cleaned up in the same step, or
//! was never granted; a lock that is handed on has exactly one holder at each moment; nothing is
//! woken in here.
//!
//! Never in this folder: `await`, reading a clock, I/O, a mutex. Belongs elsewhere: what a server
//! answers (`policy`).

mod answers;
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
pub(crate) mod retry;
pub(crate) mod spec;
pub(crate) mod tokens;
mod waiting;

#[cfg(test)]
mod tests;

use self::lease::LeaseTerms;
use self::local_queue::{Attempt, Grant};
use self::queue_key::QueueKey;
use self::queue_state::QueueState;
use self::queue_table::QueueTable;
use self::tokens::{Standing, Tokens};
use crate::policy::commands::Claim;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(crate) use self::answers::{
    AcquireAnswer, AcquireRefusal, AttemptFault, Heard, InTheWay, ReadAnswer, SentAcquire,
    in_the_way, leaves_open,
};
pub(crate) use self::holding::ReturnedTo;
pub(crate) use self::host::{ClientActions, ClientHost, ClientRules, ClientWaker};
pub(crate) use self::leading::LeaderTurn;
pub(crate) use self::past_try::{PastLook, PastStep, PastTry};
pub(crate) use self::queue_state::LeaderEpoch;
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
}

/// One queue in a step, and what the step changes besides.
pub(crate) struct AtQueue<'a, H: ClientHost> {
    pub(crate) state: &'a mut QueueState<H>,
    tokens: &'a mut Tokens<H::Holder>,
    host: &'a H,
    rules: &'a ClientRules,
    epochs: &'a mut LeaderEpoch,
    out: &'a mut ClientActions<H>,
    now: Moment,
}

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
        }
    }

    /// Changes a queue, if there is one; removes it if it is idle then.
    #[inline]
    pub(crate) fn at<T>(
        &mut self,
        queue_key: &QueueKey,
        (now, out): (Moment, &mut ClientActions<H>),
        change: impl FnOnce(&mut AtQueue<'_, H>) -> T,
    ) -> Option<T> {
        let state = self.queues.by_key.get_mut(queue_key)?;
        let changed = change(&mut AtQueue {
            state,
            tokens: &mut self.tokens,
            host: &self.host,
            rules: &self.rules,
            epochs: &mut self.epochs,
            out,
            now,
        });
        if state.is_idle() {
            self.queues.remove(queue_key);
        }
        Some(changed)
    }

    /// An acquire without a queue is about to be sent: a try past the queue, or one of several keys.
    pub(crate) fn sending_alone(&mut self, sent: &SentAcquire) {
        let Attempt { token, claim } = sent.attempt();
        self.tokens.acquiring(token, claim);
    }

    /// Takes a lock that was granted without a queue; `None`: its lease would be over already, and
    /// its token is cleaned up.
    pub(crate) fn take_alone(
        &mut self,
        request: &H::Request,
        attempt: Attempt,
        grant: &Grant,
        (now, out): (Moment, &mut ClientActions<H>),
    ) -> Option<H::Holder> {
        let Self {
            host,
            rules,
            tokens,
            ..
        } = self;
        let hold = GrantTaker {
            host,
            rules,
            tokens,
        };
        let token = attempt.token;
        let holder = hold.take(request, attempt, grant, now);
        if holder.is_some() {
            out.begun = Some(token);
        } else {
            out.clean_up(token);
        }
        holder
    }

    /// What a value of this token at the server means.
    pub(crate) fn standing(&self, token: Token, now: Moment) -> Standing {
        self.tokens.standing(token, now)
    }
}

/// What turns a grant into a hold.
struct GrantTaker<'a, H: ClientHost> {
    host: &'a H,
    rules: &'a ClientRules,
    tokens: &'a mut Tokens<H::Holder>,
}

impl<H: ClientHost> GrantTaker<'_, H> {
    /// `None`: the lease would be over already; the token is being cleaned up.
    fn take(
        self,
        request: &H::Request,
        attempt: Attempt,
        grant: &Grant,
        now: Moment,
    ) -> Option<H::Holder> {
        let terms: &LeaseTerms = H::terms(request);
        let token = attempt.token;
        let lease = grant.lease_for(terms);
        if now >= lease.deadline() {
            clean_up(self.tokens, self.rules, (token, &attempt.claim), now);
            return None;
        }
        let holder = self.host.holder(request, attempt, &lease);
        self.tokens.granted(token, lease, holder.clone());
        Some(holder)
    }
}

/// Cleans up what the server has of this token: no waiter wants it.
fn clean_up<T: Clone>(
    tokens: &mut Tokens<T>,
    rules: &ClientRules,
    (token, claim): (Token, &Claim),
    now: Moment,
) {
    let give_up = now.plus(rules.command_timeout + claim.longest_stay());
    tokens.give_up(token, give_up, now);
}

/// One queue's steps, in `waiting`, `leading`, `answers` and `holding`.
impl<H: ClientHost> AtQueue<'_, H> {
    /// Cleans up what the server has of this attempt: no waiter wants it.
    fn clean_up(&mut self, attempt: &Attempt) {
        let of = (attempt.token, &attempt.claim);
        clean_up(self.tokens, self.rules, of, self.now);
        self.out.clean_up(attempt.token);
    }

    /// Turns a grant into a lease of its new holder. `None`: the lease would be over already, and
    /// the token is cleaned up.
    fn take(&mut self, request: &H::Request, attempt: Attempt, grant: &Grant) -> Option<H::Holder> {
        let token = attempt.token;
        let hold = GrantTaker {
            host: self.host,
            rules: self.rules,
            tokens: self.tokens,
        };
        let holder = hold.take(request, attempt, grant, self.now);
        if holder.is_some() {
            self.out.begun = Some(token);
        } else {
            self.state.queue.left(token, self.now);
            self.out.clean_up(token);
        }
        holder
    }
}
