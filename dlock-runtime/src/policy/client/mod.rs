//! What a process does about one key: its local queue and its tokens, changed together in one step.
//!
//! `queue` knows who is next, `tokens` what becomes of each attempt. An event concerns both: a grant that a waiter takes is
//! a lease from then on, one that nobody waits for is cleaned up after. Each method here is such a step, so that nobody
//! ever sees one half of it. `engine/local_queues` calls it while it holds the mutex of `engine/shared.rs`, and carries out what
//! it returns after unlocking.
//!
//! Invariants: a token that leaves the queue without being taken is cleaned up in the same step, or was never granted; a
//! lock that is handed on is held by exactly one waiter at each moment.
//!
//! Never in this folder: a change of one half that the other has to follow in a second step.

mod holding;
mod waiting;

use std::time::Duration;

use super::lease::{Lease, Terms};
use super::local_queue::{Attempt, Grant, LocalQueue, Outcome};
use super::tokens::Tokens;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(crate) use self::holding::GivenBack;
pub(crate) use self::waiting::Looked;

/// One key's queue, and the tokens of all keys.
pub(crate) struct Client<'a, W, H> {
    /// `None`: nobody waits for the key here, and it has no token at the server that is not held.
    pub(crate) queue: Option<&'a mut LocalQueue<W>>,
    pub(crate) tokens: &'a mut Tokens<H>,
    /// How long a command may take, at most.
    pub(crate) command_timeout: Duration,
}

/// What became of an answer, or of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "whoever watches over the tokens has to look at one that nobody owns"]
pub(crate) enum Settled {
    /// The queue has taken it in; whose turn it is has to be told.
    Taken,
    /// Nobody waits any more: the token is being cleaned up after.
    Unowned(Token),
    /// It is not about the token that the queue has at the server.
    NotOurs,
}

impl Settled {
    /// The token that is being cleaned up after.
    pub(crate) fn unowned(self) -> Option<Token> {
        match self {
            Settled::Unowned(token) => Some(token),
            Settled::Taken | Settled::NotOurs => None,
        }
    }
}

impl<W, H: Clone> Client<'_, W, H> {
    /// An acquire of the queue's goes out, for whoever is first.
    pub(crate) fn sending(&mut self, attempt: Attempt) {
        let Attempt { token, claim } = attempt.clone();
        self.tokens.acquiring(token, claim);
        if let Some(queue) = &mut self.queue {
            queue.acquiring(attempt);
        }
    }

    /// The acquire or a poll says: in the server's queue. `poll`: when to ask again.
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

    /// The server has nothing of the token: its acquire created nothing, or its entry in the server's queue is gone.
    pub(crate) fn nothing_there(&mut self, token: Token, not_before: Moment) {
        if self.leaves(token, not_before) {
            self.tokens.not_granted(token);
        }
    }

    /// What the server has of the token is of no use to anybody here: its grant would reach nobody.
    pub(crate) fn unreachable(&mut self, attempt: &Attempt, now: Moment) -> Option<Token> {
        self.leaves(attempt.token, now)
            .then(|| self.clean_up(attempt, now))
    }

    /// Its acquire got no clear answer, or nobody waits for one. `cancelled_by`: a `cancel` follows the acquire on its own
    /// connection, and is reported by then. `false`: a push was faster, and the token is somebody's.
    pub(crate) fn abandoned(
        &mut self,
        token: Token,
        not_after: u64,
        give_up: Moment,
        cancelled_by: Option<Moment>,
        now: Moment,
    ) -> bool {
        let leaves = self.leaves(token, now);
        if leaves {
            self.tokens
                .abandoned(token, not_after, give_up, cancelled_by, now);
        }
        leaves
    }

    /// Makes what was granted a lease of its new holder's; `None`: it would be over, and is cleaned up after.
    pub(crate) fn take(
        &mut self,
        attempt: &Attempt,
        grant: &Grant,
        terms: &Terms,
        now: Moment,
        holder: impl FnOnce(&Lease) -> H,
    ) -> Option<H> {
        let began = grant.chain.since.unwrap_or(grant.since);
        let lease = Lease::handed_on(grant.since, grant.lease, began, terms);
        if now >= lease.deadline() {
            if let Some(queue) = &mut self.queue {
                queue.left(attempt.token, now);
            }
            self.clean_up(attempt, now);
            return None;
        }
        let holder = holder(&lease);
        self.tokens.granted(attempt.token, lease, holder.clone());
        Some(holder)
    }

    /// Nobody wants what the server has of this token.
    pub(crate) fn clean_up(&mut self, attempt: &Attempt, now: Moment) -> Token {
        let give_up = now.plus(self.command_timeout + attempt.claim.longest_stay());
        self.tokens.give_up(attempt.token, give_up, now);
        attempt.token
    }

    /// Whether the queue had it as its own, not taken yet; it has not any more.
    fn leaves(&mut self, token: Token, not_before: Moment) -> bool {
        let queue = self.queue.as_mut();
        queue.is_some_and(|queue| queue.ended(token, not_before))
    }

    fn settle(&mut self, outcome: Option<Outcome>, now: Moment) -> Settled {
        match outcome {
            Some(Outcome::Taken) => Settled::Taken,
            Some(Outcome::Unwanted(attempt)) => Settled::Unowned(self.clean_up(&attempt, now)),
            Some(Outcome::NotOurs) | None => Settled::NotOurs,
        }
    }
}
