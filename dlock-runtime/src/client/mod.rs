//! What a process does about its locks, as pure state machines: its waiters, its attempts at the
//! server and its leases, changed in one step.
//!
//! Read `spec` (a request once it is checked) and `queue_key` (which local queue a waiter joins),
//! then `lease` (one lease, from its grant to its end), `tokens` (every token of this process until
//! nothing of it is left on the server), `local_queue` (the waiters of this process for one key)
//! and `retry` (when to try again). [`Client`] is a local queue and the tokens: a grant that a
//! waiter takes becomes a lease, and a grant that no waiter wants is cleaned up, so no caller sees
//! one half changed without the other. `driver/local_queues` calls it under the mutex of
//! `driver/shared.rs`, and carries out the result after unlocking.
//! `docs/inside/client.md` has the table that these become.
//!
//! Invariants: a token that leaves the queue without being taken is cleaned up in the same step, or
//! was never granted; a lock that is handed on has exactly one holder at each moment.
//!
//! Never in this folder: `await`, reading a clock, I/O, a mutex, or a change of one half that the
//! other has to follow in a second step. Belongs elsewhere: what a server answers (`policy`).

mod holding;
pub(crate) mod lease;
pub(crate) mod local_queue;
pub(crate) mod queue_key;
pub(crate) mod retry;
pub(crate) mod spec;
pub(crate) mod tokens;
mod waiting;

#[cfg(test)]
mod tests;

use std::time::Duration;

use self::lease::{Lease, LeaseTerms};
use self::local_queue::{Attempt, Grant, LocalQueue, MessageOutcome};
use self::tokens::Tokens;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(crate) use self::holding::ReturnedTo;
pub(crate) use self::waiting::Checked;

/// One key's queue, and the tokens of all keys.
pub(crate) struct Client<'a, W, H> {
    /// `None`: no waiter of this process waits for the key, and its only tokens at the server are
    /// held.
    pub(crate) queue: Option<&'a mut LocalQueue<W>>,
    pub(crate) tokens: &'a mut Tokens<H>,
    /// The longest that a command may take.
    pub(crate) command_timeout: Duration,
}

/// What an answer or a push led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the watchdog has to check a token that nobody owns"]
pub(crate) enum Settled {
    /// The queue has recorded it; the waiter whose turn it is must be notified.
    Taken,
    /// No waiter is left: the token is being cleaned up.
    Unowned(Token),
    /// It is not about the token that the queue has at the server.
    NotOurs,
}

impl Settled {
    /// The token that is being cleaned up.
    pub(crate) fn unowned(self) -> Option<Token> {
        match self {
            Settled::Unowned(token) => Some(token),
            Settled::Taken | Settled::NotOurs => None,
        }
    }
}

impl<W, H: Clone> Client<'_, W, H> {
    /// The queue sends an acquire, for its first waiter.
    pub(crate) fn sending(&mut self, attempt: Attempt) {
        let Attempt { token, claim } = attempt.clone();
        self.tokens.acquiring(token, claim);
        if let Some(queue) = &mut self.queue {
            queue.acquiring(attempt);
        }
    }

    /// The acquire or a poll says that we are in the server's queue. `poll`: when to poll next.
    pub(crate) fn queued(&mut self, token: Token, poll: Moment, now: Moment) -> Settled {
        self.tokens.queued(token);
        let outcome = self.queue.as_mut().map(|queue| queue.queued(token, poll));
        self.settle(outcome, now)
    }

    /// The lock is ours: an answer or a push says so. The first notification wins.
    pub(crate) fn granted(&mut self, token: Token, grant: Grant, now: Moment) -> Settled {
        let outcome = self.queue.as_mut().map(|queue| queue.granted(token, grant));
        self.settle(outcome, now)
    }

    /// The server has nothing of the token: its acquire created nothing, or its queue entry is
    /// gone.
    pub(crate) fn nothing_there(&mut self, token: Token, not_before: Moment) {
        if self.remove_untaken(token, not_before) {
            self.tokens.not_granted(token);
        }
    }

    /// Gives up what the server has of this attempt, because a grant could not reach this process.
    pub(crate) fn unreachable(&mut self, attempt: &Attempt, now: Moment) -> Option<Token> {
        self.remove_untaken(attempt.token, now)
            .then(|| self.clean_up(attempt, now))
    }

    /// The acquire got no clear answer, or its caller stopped waiting for one. `cancelled_by`: a
    /// `cancel` follows the acquire on its own connection and is reported by then. Returns `false`
    /// if a push came first and the token is already in use.
    pub(crate) fn abandoned(
        &mut self,
        token: Token,
        not_after: u64,
        give_up: Moment,
        cancelled_by: Option<Moment>,
        now: Moment,
    ) -> bool {
        let was_untaken = self.remove_untaken(token, now);
        if was_untaken {
            self.tokens
                .abandoned(token, not_after, give_up, cancelled_by, now);
        }
        was_untaken
    }

    /// Turns a grant into a lease of its new holder. `None`: the lease would be over already, and
    /// the token is cleaned up.
    pub(crate) fn take(
        &mut self,
        attempt: Attempt,
        grant: &Grant,
        terms: &LeaseTerms,
        now: Moment,
        holder: impl FnOnce(Attempt, &Lease) -> H,
    ) -> Option<H> {
        let token = attempt.token;
        let began = grant.chain.since.unwrap_or(grant.since);
        let lease = Lease::handed_on(grant.since, grant.lease, began, terms);
        if now >= lease.deadline() {
            if let Some(queue) = &mut self.queue {
                queue.left(token, now);
            }
            self.clean_up(&attempt, now);
            return None;
        }
        let holder = holder(attempt, &lease);
        self.tokens.granted(token, lease, holder.clone());
        Some(holder)
    }

    /// Cleans up what the server has of this token: no waiter wants it.
    pub(crate) fn clean_up(&mut self, attempt: &Attempt, now: Moment) -> Token {
        let give_up = now.plus(self.command_timeout + attempt.claim.longest_stay());
        self.tokens.give_up(attempt.token, give_up, now);
        attempt.token
    }

    /// Removes the token from the queue, if it was the queue's own and not taken yet; whether it
    /// was.
    fn remove_untaken(&mut self, token: Token, not_before: Moment) -> bool {
        let queue = self.queue.as_mut();
        queue.is_some_and(|queue| queue.ended(token, not_before))
    }

    fn settle(&mut self, outcome: Option<MessageOutcome>, now: Moment) -> Settled {
        match outcome {
            Some(MessageOutcome::Taken) => Settled::Taken,
            Some(MessageOutcome::Unwanted(attempt)) => {
                Settled::Unowned(self.clean_up(&attempt, now))
            }
            Some(MessageOutcome::NotOurs) | None => Settled::NotOurs,
        }
    }
}
