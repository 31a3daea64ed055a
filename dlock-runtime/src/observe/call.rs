//! One call to acquire as observers see it, until it ends with the lock or without it.
//!
//! It decides nothing. Invariant: its end is told once, also if it is dropped.

use std::sync::Arc;
use std::time::Duration;

use tracing::Span;
use tracing::span::{Entered, Id};

use super::classes::ObservedClass;
use super::{AskedLock, current_span, may_open};
use crate::strangers::{Spared, spared};
use crate::values::config::SpanLevel;
use crate::values::error::LockError;
use crate::values::key::KeyParts;
use crate::values::listener::AcquireOutcome;

/// A call that waits for its lock.
#[derive(Debug)]
pub(crate) struct ObservedCall {
    pub(crate) class: Option<Arc<ObservedClass>>,
    /// `dlock.acquire`, if that is enabled. Boxed, because calls that wait are many.
    span: Option<Box<Spared<Span>>>,
}

impl ObservedCall {
    /// Of `keys` keys, this is the first. Called in the caller's span.
    pub(crate) fn begins(
        asked: AskedLock<'_>,
        keys: usize,
        level: SpanLevel,
        class: Option<Arc<ObservedClass>>,
    ) -> Self {
        let span = may_open(level).then(|| spared(|| span(asked, keys, level)));
        let span = span.flatten().filter(|it| !it.is_disabled());
        Self {
            class,
            span: span.map(|it| Box::new(Spared::new(it))),
        }
    }

    /// Whether anybody sees how it ends.
    pub(crate) fn is_seen(&self) -> bool {
        self.class.is_some() || self.span.is_some()
    }

    /// The call is polled inside.
    pub(crate) fn enter(&self) -> Option<Spared<Entered<'_>>> {
        let span = self.span()?;
        spared(|| span.enter()).map(Spared::new)
    }

    /// Has the lock. `fence`: the first key's.
    pub(crate) fn acquired(
        &self,
        key: KeyParts<'_>,
        outcome: AcquireOutcome,
        waited: Duration,
        fence: u64,
    ) {
        if let Some(span) = self.span() {
            spared(|| span.record("fence", fence));
        }
        self.ended(key, outcome, waited);
        let outcome = outcome.as_str();
        debug!(parent: self.id(), key = &*key.shown(), outcome, ?waited, fence, "acquired a lock");
    }

    pub(crate) fn failed(&self, key: KeyParts<'_>, error: &LockError, waited: Duration) {
        let outcome = AcquireOutcome::of(error);
        self.ended(key, outcome, waited);
        let outcome = outcome.as_str();
        debug!(parent: self.id(), key = &*key.shown(), outcome, ?waited, "did not get a lock: {error}");
    }

    /// The caller has dropped the call.
    pub(crate) fn cancelled(&self, key: KeyParts<'_>, waited: Duration) {
        self.ended(key, AcquireOutcome::Cancelled, waited);
        debug!(parent: self.id(), key = &*key.shown(), ?waited, "a call that waited for a lock was dropped");
    }

    fn ended(&self, key: KeyParts<'_>, outcome: AcquireOutcome, waited: Duration) {
        if let Some(span) = self.span() {
            spared(|| span.record("outcome", outcome.as_str()));
            spared(|| span.record("waited", tracing::field::debug(waited)));
        }
        if let Some(class) = &self.class {
            class.acquire_ended(key, outcome, waited);
        }
    }

    /// In which span its end is told: its own, or else the caller's.
    fn id(&self) -> Option<Id> {
        self.span().and_then(Span::id).or_else(current_span)
    }

    fn span(&self) -> Option<&Span> {
        self.span.as_ref().and_then(|it| it.get())
    }
}

fn span(asked: AskedLock<'_>, keys: usize, level: SpanLevel) -> Span {
    span_at!(
        level,
        "dlock.acquire",
        class = asked.class().label(),
        key = &*asked.key.parts().shown(),
        keys,
        kind = asked.kind.label(),
        function = %asked.site.name(),
        outcome = tracing::field::Empty,
        waited = tracing::field::Empty,
        fence = tracing::field::Empty,
    )
}
