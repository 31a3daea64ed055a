//! One hold as observers see it, from the grant to its end.
//!
//! It decides nothing. Invariant: its end is told once, by the holder; its loss once, by whoever
//! saw it first.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::span::{EnteredSpan, Id};
use tracing::{Level, Span};

use super::classes::ObservedClass;
use super::{fit, lost_inside};
use crate::values::class::{Class, Site};
use crate::values::error::LostCause;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::kind::Kind;
use crate::values::listener::HoldOutcome;
use crate::values::moment::Moment;

/// What is known about a hold when it begins. Its lease keeps it, for as long as anybody looks at
/// the lease.
pub(crate) struct ObservedHold {
    key: Key,
    kind: &'static str,
    site: Site,
    class: Option<Arc<ObservedClass>>,
    granted: Moment,
    /// `dlock.hold`; where that is disabled, the caller's span, which is the caller's to keep open.
    span: Option<Id>,
    /// Keeps `dlock.hold` open until the holder is done.
    own: Option<Mutex<Option<Span>>>,
}

impl ObservedHold {
    /// Called in the caller's span.
    pub(crate) fn begins(
        key: &Key,
        kind: &Kind,
        site: Site,
        class: Option<Arc<ObservedClass>>,
        (fence, granted): (Fence, Moment),
    ) -> Self {
        // Asked first, because `debug_span!` may evaluate its fields for a span that is disabled.
        let is_enabled = tracing::span_enabled!(Level::DEBUG);
        let own = is_enabled.then(|| span(key, kind, site, fence));
        Self {
            key: key.clone(),
            kind: kind.label(),
            site,
            class,
            granted,
            span: match &own {
                Some(span) => span.id(),
                None => Span::current().id(),
            },
            own: own.map(|span| Mutex::new(Some(span))),
        }
    }

    /// The body is polled inside.
    pub(crate) fn enter(&self) -> Option<EnteredSpan> {
        let span = self.own.as_ref()?;
        let span = span.lock().unwrap_or_else(PoisonError::into_inner).clone();
        span.map(Span::entered)
    }

    /// The name of its class is made when it is asked for.
    pub(crate) fn class(&self) -> (Class, &'static str) {
        (Class::of(&self.key, self.site), self.kind)
    }

    /// Logs the loss inside the hold or the caller's span, whichever thread has noticed it.
    pub(crate) fn lost(&self, cause: LostCause) {
        let (key, function) = (self.key.as_str(), self.site.name());
        lost_inside(self.span.clone(), key, Some(&function), cause);
        if let Some(class) = &self.class {
            class.lost(self.key.as_str(), cause);
        }
    }

    pub(crate) fn renewed(&self, left: Duration, lease: Duration) {
        tracing::debug!(
            parent: self.span.clone(),
            key = &*fit(self.key.as_str()),
            ?left,
            ?lease,
            "renewed a lock"
        );
        if let Some(class) = &self.class {
            class.renewed(self.key.as_str(), left, lease);
        }
    }

    /// The holder is done. `long`: a hold of that length is a warning.
    pub(crate) fn ended(&self, now: Moment, is_lost: bool, long: Option<Duration>) {
        let held = self.granted.until(now);
        let outcome = if is_lost {
            HoldOutcome::Lost
        } else {
            HoldOutcome::Released
        };
        tracing::debug!(
            parent: self.span.clone(),
            key = &*fit(self.key.as_str()),
            outcome = outcome.as_str(),
            ?held,
            "gives a lock back"
        );
        if long.is_some_and(|long| held >= long) {
            tracing::warn!(
                parent: self.span.clone(),
                key = &*fit(self.key.as_str()),
                function = %self.site.name(),
                ?held,
                "held a lock for longer than `long_hold`"
            );
        }
        if let Some(class) = &self.class {
            class.hold_ended(self.key.as_str(), outcome, held);
        }
        if let Some(span) = &self.own
            && let Some(span) = span.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            span.record("outcome", outcome.as_str());
            span.record("held", tracing::field::debug(held));
        }
    }
}

fn span(key: &Key, kind: &Kind, site: Site, fence: Fence) -> Span {
    tracing::debug_span!(
        "dlock.hold",
        class = Class::of(key, site).label(),
        key = &*fit(key.as_str()),
        kind = kind.label(),
        function = %site.name(),
        fence = fence.get(),
        outcome = tracing::field::Empty,
        held = tracing::field::Empty,
    )
}

impl fmt::Debug for ObservedHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedHold")
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}
