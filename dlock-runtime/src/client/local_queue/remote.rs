//! What a process has at the server for one key: nothing, a queue entry, or the lock.
//!
//! These are the states of [`LocalQueue`](super::LocalQueue) and their data; the transitions are in
//! `super`.

use std::time::Duration;

use super::handoff::HandoffChain;
use crate::client::lease::{Lease, LeaseTerms};
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

/// What the process has at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Remote {
    /// Nothing; the next acquire may be sent from then on.
    Vacant { not_before: Moment },
    /// An acquire is under way.
    Acquiring(Token),
    /// An entry in the server's queue.
    Queued {
        token: Token,
        /// When to poll next.
        poll: Moment,
    },
    /// The lock is ours, and no waiter has claimed it yet.
    Granted(Token, Grant),
    /// A waiter of this process took it, and may hand it on to the next one without the server.
    Held(Token, Grant),
}

/// A lock that was granted, until a waiter claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    /// No later than the grant, or than the command that found it.
    pub(crate) since: Moment,
    /// How long it lasts from then on.
    pub(crate) lease: Duration,
    pub(crate) epoch: u64,
    /// The server's time of the grant, or when it was found.
    pub(crate) time: u64,
    pub(crate) how: GrantKind,
    pub(crate) margin: Margin,
    /// How often the lock was handed on inside the process, and how far it may still go.
    pub(crate) chain: HandoffChain,
}

/// How the lock was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GrantKind {
    /// By our own acquire, for the lease that it requested.
    AtOnce,
    /// From the queue, by another client's command, for a short claim.
    InTurn,
}

impl Remote {
    pub(super) fn vacant(not_before: Moment) -> Self {
        Remote::Vacant { not_before }
    }
}

impl Grant {
    /// By our own acquire, sent at `since`.
    pub(crate) fn at_once(since: Moment, lease: Duration, epoch: u64, time: u64) -> Self {
        Self {
            since,
            lease,
            epoch,
            time,
            how: GrantKind::AtOnce,
            margin: Margin::DEFAULT,
            chain: HandoffChain::ALONE,
        }
    }

    /// By another client's command at `since`, or found by a poll of ours sent then, for `lease`.
    pub(crate) fn in_turn(since: Moment, lease: Duration, epoch: u64, time: u64) -> Self {
        Self {
            how: GrantKind::InTurn,
            ..Self::at_once(since, lease, epoch, time)
        }
    }

    /// The lease of a holder with these terms that takes it.
    pub(crate) fn lease_for(&self, terms: &LeaseTerms) -> Lease {
        let began = self.chain.since.unwrap_or(self.since);
        Lease::handed_on(self.since, self.lease, began, terms)
    }

    /// No holder may begin after this.
    pub(super) fn deadline(&self) -> Moment {
        self.since.plus(self.margin.validity(self.lease))
    }
}
