//! What the machine leaves to whoever runs it: the process that ships, or a model of it.
//!
//! A host brings values that the machine only keeps and passes on, and carries out [`ClientActions`]
//! after each step. Invariant: nothing in here decides anything about a lock.

use std::fmt::Debug;
use std::time::Duration;

use super::lease::{Lease, LeaseTerms};
use super::local_queue::Grant;
use super::retry::Spread;
use super::tokens::Attempt;
use crate::values::handoff::Handoff;
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

/// What the machine keeps for its host.
pub(crate) trait ClientHost: Debug {
    /// Wakes a waiter's future, or a leader's task.
    type Waker: ClientWaker + Debug;
    /// A queue's acquire that its only waiter sends from its own poll.
    type Flight: Debug;
    /// Through which a holder learns about its lease.
    type Holder: Clone + Debug;
    /// What a waiter asks for.
    type Request: Clone + Debug;
    /// Why a server did not do what it was asked for.
    type Error: Clone + Debug;

    fn holder(&self, request: &Self::Request, attempt: Attempt, lease: &Lease) -> Self::Holder;

    /// The token in a server's value, if this pool has drawn it.
    fn token_in(&self, value: &str) -> Option<Token>;

    fn terms(request: &Self::Request) -> &LeaseTerms;

    fn kind(request: &Self::Request) -> &Kind;

    /// Whether a waiter can use a lock that is handed on with this grant.
    fn suits(request: &Self::Request, grant: &Grant, now: Moment) -> bool {
        grant.suits(Self::terms(request), now)
    }
}

/// A waker that the machine keeps.
pub(crate) trait ClientWaker: Sized {
    /// What a poll brings.
    type Source: ?Sized;

    fn of(source: &Self::Source) -> Self;

    fn will_wake(&self, source: &Self::Source) -> bool;
}

pub(crate) type WakerSource<H> = <<H as ClientHost>::Waker as ClientWaker>::Source;

/// The bounds that hold for a whole pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientRules {
    /// The longest that a command may take.
    pub(crate) command_timeout: Duration,
    /// A leader that has shown no sign of life for this long is stuck: nothing runs its runtime.
    pub(crate) stuck_after: Duration,
    /// How often a waiter polls whom the server tells, and one whom it does not.
    pub(crate) poll_told: Duration,
    pub(crate) poll_untold: Duration,
    pub(crate) handoff: Handoff,
    pub(crate) margin: Margin,
    /// How pauses differ from each other.
    pub(crate) spread: Spread,
    /// Several nodes grant a lock: "not ours" is what most of them say.
    pub(crate) is_of_quorum: bool,
}

impl ClientRules {
    /// Nothing is handed on, no leader is ever stuck, and no pause is left to chance.
    #[cfg(test)]
    pub(crate) fn of_test(command_timeout: Duration, poll: Duration) -> Self {
        Self {
            command_timeout,
            stuck_after: Duration::MAX,
            poll_told: poll,
            poll_untold: poll,
            handoff: Handoff::up_to(0, Duration::ZERO),
            margin: Margin::DEFAULT,
            spread: Spread::Even,
            is_of_quorum: false,
        }
    }

    /// `is_told`: the server tells the waiter that it has the lock.
    pub(super) fn poll_interval(&self, is_told: bool) -> Duration {
        if is_told {
            self.poll_told
        } else {
            self.poll_untold
        }
    }
}

/// What a step leaves to its host, to be carried out after unlocking: waking and dropping a waker
/// run a stranger's code, which may lock the mutex.
#[derive(Debug)]
#[must_use = "a waiter sleeps for ever that is not woken"]
pub(crate) struct ClientActions<H: ClientHost> {
    /// Wakers to call. Usually none or one.
    pub(crate) wake: Option<H::Waker>,
    /// More of them, if there is one.
    pub(crate) wake_too: Vec<H::Waker>,
    /// Wakers that no waiter listens with any more.
    pub(crate) retired: Option<H::Waker>,
    /// Tokens that are cleaned up from now on: the watchdog must look at them.
    pub(crate) unowned: [Option<Token>; 2],
    /// The token of a lease that begins: the watchdog must watch it.
    pub(crate) begun: Option<Token>,
}

impl<H: ClientHost> Default for ClientActions<H> {
    fn default() -> Self {
        Self {
            wake: None,
            wake_too: Vec::new(),
            retired: None,
            unowned: [None; 2],
            begun: None,
        }
    }
}

impl<H: ClientHost> ClientActions<H> {
    pub(super) fn wake(&mut self, waker: H::Waker) {
        if self.wake.is_none() {
            self.wake = Some(waker);
        } else {
            self.wake_too.push(waker);
        }
    }

    pub(super) fn clean_up(&mut self, token: Token) {
        let [first, second] = &mut self.unowned;
        let free = if first.is_none() { first } else { second };
        debug_assert!(free.is_none(), "a step leaves two tokens at most");
        *free = Some(token);
    }
}

/// What is only logged: equal to any other, so that states of a model don't differ by it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForLog<T>(pub(crate) T);

impl<T> PartialEq for ForLog<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for ForLog<T> {}

impl<T> std::hash::Hash for ForLog<T> {
    fn hash<S: std::hash::Hasher>(&self, _: &mut S) {}
}
