//! One call to acquire as observers see it, until it ends with the lock or without it.
//!
//! It decides nothing. Invariant: its end is told once, also if it is dropped.

use std::sync::Arc;
use std::time::Duration;

use tracing::span::{Entered, Id};
use tracing::{Level, Span};

use super::classes::ObservedClass;
use super::{Asked, fit};
use crate::values::error::LockError;
use crate::values::listener::AcquireOutcome;

/// A call that waits for its lock.
#[derive(Debug)]
pub(crate) struct ObservedCall {
    pub(crate) class: Option<Arc<ObservedClass>>,
    /// `dlock.acquire`, if that is enabled. Boxed, because calls that wait are many.
    span: Option<Box<Span>>,
}

impl ObservedCall {
    /// Of `keys` keys, this is the first. Called in the caller's span.
    pub(crate) fn begins(asked: Asked<'_>, keys: usize, class: Option<Arc<ObservedClass>>) -> Self {
        // Asked first, because `debug_span!` may evaluate its fields for a span that is disabled.
        let is_enabled = tracing::span_enabled!(Level::DEBUG);
        Self {
            class,
            span: is_enabled.then(|| Box::new(span(asked, keys))),
        }
    }

    /// Whether anybody sees how it ends.
    pub(crate) fn is_seen(&self) -> bool {
        self.class.is_some() || self.span.is_some()
    }

    /// The call is polled inside.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        self.span.as_ref().map(|span| span.enter())
    }

    /// Has the lock. `fence`: the first key's.
    pub(crate) fn acquired(
        &self,
        key: &str,
        outcome: AcquireOutcome,
        waited: Duration,
        fence: u64,
    ) {
        if let Some(span) = &self.span {
            span.record("fence", fence);
        }
        self.ended(key, outcome, waited);
        let outcome = outcome.as_str();
        tracing::debug!(parent: self.id(), key = &*fit(key), outcome, ?waited, fence, "acquired a lock");
    }

    pub(crate) fn failed(&self, key: &str, error: &LockError, waited: Duration) {
        let outcome = AcquireOutcome::of(error);
        self.ended(key, outcome, waited);
        let outcome = outcome.as_str();
        tracing::debug!(parent: self.id(), key = &*fit(key), outcome, ?waited, "did not get a lock: {error}");
    }

    /// The caller has dropped the call.
    pub(crate) fn cancelled(&self, key: &str, waited: Duration) {
        self.ended(key, AcquireOutcome::Cancelled, waited);
        tracing::debug!(parent: self.id(), key = &*fit(key), ?waited, "a call that waited for a lock was dropped");
    }

    fn ended(&self, key: &str, outcome: AcquireOutcome, waited: Duration) {
        if let Some(span) = &self.span {
            span.record("outcome", outcome.as_str());
            span.record("waited", tracing::field::debug(waited));
        }
        if let Some(class) = &self.class {
            class.acquire_ended(key, outcome, waited);
        }
    }

    fn id(&self) -> Option<Id> {
        self.span.as_ref().and_then(|span| span.id())
    }
}

fn span(asked: Asked<'_>, keys: usize) -> Span {
    tracing::debug_span!(
        "dlock.acquire",
        class = asked.class().label(),
        key = &*fit(asked.key.as_str()),
        keys,
        kind = asked.kind.label(),
        function = %asked.site.name(),
        outcome = tracing::field::Empty,
        waited = tracing::field::Empty,
        fence = tracing::field::Empty,
    )
}
