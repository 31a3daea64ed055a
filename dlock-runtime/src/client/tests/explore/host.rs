//! The machine's host in a model: what a contender asks for, and no wakers, because a contender of
//! the model looks whenever it would find something. `local` explores the wake-ups.

use crate::client::lease::{Lease, LeaseTerms};
use crate::client::local_queue::Grant;
use crate::client::queue_key::QueueKey;
use crate::client::tokens::Attempt;
use crate::client::{AttemptFault, Client, ClientHost, ClientRules, ClientWaker, LeaderEpoch};
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::token::Token;

use super::run::Run;
use super::world::{KEY, token_in};

/// The number of each leader.
pub(super) const LEADER: LeaderEpoch = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelHost {
    /// Which process it is.
    pub(super) at: usize,
}

/// A contender, and the lease that it wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelRequest {
    pub(super) who: usize,
    pub(super) terms: LeaseTerms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AlwaysAwake;

impl ClientHost for ModelHost {
    type Waker = AlwaysAwake;
    type Flight = ();
    type Holder = Token;
    type Request = ModelRequest;
    type Error = ();

    fn holder(&self, _: &ModelRequest, attempt: Attempt, _: &Lease) -> Token {
        attempt.token
    }

    fn token_in(&self, value: &str) -> Option<Token> {
        let (at, token) = token_in(value)?;
        (at == self.at).then_some(token)
    }

    fn terms(request: &ModelRequest) -> &LeaseTerms {
        &request.terms
    }

    fn kind(_: &ModelRequest) -> &Kind {
        &Kind::Exclusive
    }

    /// With `min_hold` nothing is handed on; otherwise every waiter can use a grant, at any time of
    /// its lease.
    fn suits(request: &ModelRequest, _: &Grant, _: Moment) -> bool {
        request.terms.bounds.min_hold.is_none()
    }
}

impl ClientWaker for AlwaysAwake {
    type Source = AlwaysAwake;

    fn of(_: &AlwaysAwake) -> Self {
        AlwaysAwake
    }

    fn will_wake(&self, _: &AlwaysAwake) -> bool {
        true
    }
}

impl Client<ModelHost> {
    /// Contenders look without being woken, so who was woken is no part of a state. A process of the
    /// model has one leader at a time, so all can have one number.
    pub(super) fn keep_awake(&mut self) {
        self.epochs = LEADER - 1;
        for state in self.queues.by_key.values_mut() {
            state.sender.waker = None;
            for waiter in state.queue.waiters_mut() {
                waiter.waker = Some(AlwaysAwake);
            }
        }
    }
}

/// The rules of a run.
pub(super) fn rules(run: &Run) -> ClientRules {
    ClientRules {
        handoff: run.handoff(),
        ..ClientRules::of_test(run.tick, run.poll_interval())
    }
}

/// The one queue of a process.
pub(super) fn queue_key() -> QueueKey {
    QueueKey::for_all(KEY.into())
}

/// A command without a clear answer, which may pass by itself.
pub(super) fn unclear(is_open: bool) -> AttemptFault<()> {
    AttemptFault {
        error: (),
        is_open,
        may_pass: true,
        is_elsewhere: false,
        is_moving: false,
        is_answered: false,
    }
}
