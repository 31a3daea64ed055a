//! A lock request once it is checked: what an acquire, its waiter and its guard all refer to.
//!
//! It does nothing itself. Invariant: every value in it was validated when the request was built.

use std::sync::Arc;

use super::queue_key::QueueKey;
use crate::client::lease::LeaseTerms;
use crate::observe::AskedLock;
use crate::values::class::Site;
use crate::values::key::Key;
use crate::values::kind::Kind;
use crate::values::release::Release;
use crate::values::wait::Wait;

/// A lock to take.
#[derive(Debug)]
pub(crate) struct AcquireSpec {
    /// With the pool's namespace.
    pub(crate) key: Key,
    pub(crate) kind: Kind,
    pub(crate) queue_key: QueueKey,
    /// Joins a lock that an enclosing scope holds.
    pub(crate) reentrant: bool,
    /// Asked for by a candidate, whose settings are fewer.
    pub(crate) of_candidate: bool,
    pub(crate) terms: LeaseTerms,
    pub(crate) wait: Wait,
    pub(crate) release: Release,
    /// Its body is stopped when a shutdown's grace is over.
    pub(crate) stops_at_shutdown: bool,
    /// Who asks; others read its name in the holder's value.
    pub(crate) site: Site,
}

impl AcquireSpec {
    pub(crate) fn asked(&self) -> AskedLock<'_> {
        AskedLock {
            key: &self.key,
            kind: &self.kind,
            site: self.site,
        }
    }

    #[cfg(test)]
    pub(crate) fn of_test(key: &str, terms: LeaseTerms) -> Arc<Self> {
        Arc::new(Self {
            key: Key::from(key),
            kind: Kind::Exclusive,
            queue_key: QueueKey::of(key.into(), &Kind::Exclusive, false),
            reentrant: false,
            of_candidate: false,
            terms,
            wait: Wait::Forever,
            release: Release::Confirmed,
            stops_at_shutdown: false,
            site: Site::by_hand(std::panic::Location::caller()),
        })
    }

    /// The key as commands carry it.
    pub(crate) fn name(&self) -> &Arc<str> {
        self.queue_key.key()
    }
}
