//! One hold as observers see it, from the grant to its end.
//!
//! It decides nothing. Invariant: its end is told once, by the holder; its loss, and that it is long,
//! once, by whoever saw it first.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::Span;
use tracing::span::{EnteredSpan, Id};

use super::classes::ObservedClass;
use super::{AskedLock, current_span, is_logging, lost_inside, may_open};
use crate::strangers::{Spared, spared};
use crate::values::config::SpanLevel;
use crate::values::error::LostCause;
use crate::values::fence::Fence;
use crate::values::key::KeyParts;
use crate::values::listener::HoldOutcome;

/// A hold while it lasts. Its lease keeps it, for as long as anybody looks at the lease.
pub(crate) struct ObservedHold {
    class: Option<Arc<ObservedClass>>,
    /// Where events are logged; `None`: in no span.
    span: Option<Box<HoldSpan>>,
    /// [`LOSS`] and [`LENGTH`], once they are told.
    told: AtomicU8,
}

/// What is told of a hold once, as bits.
const LOSS: u8 = 1;
const LENGTH: u8 = 2;

struct HoldSpan {
    /// `dlock.hold`; where that is disabled, the caller's span, which is the caller's to keep open.
    parent: Option<Id>,
    /// Keeps `dlock.hold` open until the holder is done.
    own: Option<Mutex<Spared<Span>>>,
}

impl HoldSpan {
    /// `None`: it has no span of its own, and the caller none either.
    fn new(asked: AskedLock<'_>, fence: Fence, level: SpanLevel) -> Option<Self> {
        let own = may_open(level).then(|| spared(|| span(asked, fence, level)));
        let own = own.flatten().filter(|it| !it.is_disabled());
        let parent = match &own {
            Some(span) => span.id(),
            None => current_span(),
        };
        let own = own.map(|span| Mutex::new(Spared::new(span)));
        parent.is_some().then_some(Self { parent, own })
    }

    fn own(&self) -> Option<MutexGuard<'_, Spared<Span>>> {
        let own = self.own.as_ref()?;
        Some(own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ObservedHold {
    /// Called in the caller's span.
    pub(crate) fn begins(
        asked: AskedLock<'_>,
        class: Option<Arc<ObservedClass>>,
        fence: Fence,
        level: SpanLevel,
    ) -> Self {
        let span = is_logging().then(|| HoldSpan::new(asked, fence, level));
        let span = span.flatten();
        Self {
            class,
            span: span.map(Box::new),
            told: AtomicU8::new(0),
        }
    }

    /// The class of its lock; `None`: nobody is told.
    #[cfg(feature = "metrics")]
    pub(crate) fn class(&self) -> Option<&Arc<ObservedClass>> {
        self.class.as_ref()
    }

    /// The body is polled inside.
    pub(crate) fn enter(&self) -> Option<Spared<EnteredSpan>> {
        let own = self.span.as_ref()?.own()?;
        let span = spared(|| own.get().cloned()).flatten();
        drop(own);
        spared(|| span.map(Span::entered))
            .flatten()
            .map(Spared::new)
    }

    fn parent(&self) -> Option<Id> {
        self.span.as_ref().and_then(|span| span.parent.clone())
    }

    /// Logs the loss inside the hold or the caller's span, whichever thread has noticed it.
    pub(crate) fn lost(&self, asked: AskedLock<'_>, cause: LostCause, is_renewed: bool) {
        let key = asked.key.parts();
        let name = asked.site.name();
        lost_inside(self.parent(), (key, Some(&*name)), (cause, is_renewed));
        self.tell_loss(key, cause);
    }

    /// Tells all but the log, once for each hold.
    pub(crate) fn tell_loss(&self, key: KeyParts<'_>, cause: LostCause) {
        if let Some(class) = &self.class
            && self.must_tell(LOSS)
        {
            class.lost(key, cause);
        }
    }

    /// Whether the caller is the first that is about to tell this.
    fn must_tell(&self, what: u8) -> bool {
        self.told.fetch_or(what, Ordering::Relaxed) & what == 0
    }

    /// It is longer than `long_hold` by now, and goes on: logs that, unless it was logged before.
    /// Returns whether it logged it.
    pub(crate) fn log_as_long(&self, asked: AskedLock<'_>, held: Duration) -> bool {
        let is_first = self.must_tell(LENGTH);
        if is_first {
            let key = asked.key.parts();
            warn!(
                parent: self.parent(),
                key = &*key.shown(),
                namespace = key.namespace(),
                function = %asked.site.name(),
                ?held,
                "has held a lock for longer than `long_hold`, and still holds it"
            );
        }
        is_first
    }

    pub(crate) fn renewed(&self, asked: AskedLock<'_>, left: Duration, lease: Duration) {
        let key = asked.key.parts();
        debug!(
            parent: self.parent(),
            key = &*key.shown(),
            ?left,
            ?lease,
            "renewed a lock"
        );
        if let Some(class) = &self.class {
            class.renewed(key, left, lease);
        }
    }

    /// The holder is done, after this time. `long`: a hold of that length is a warning, unless there
    /// was one before.
    pub(crate) fn ended(
        &self,
        asked: AskedLock<'_>,
        held: Duration,
        outcome: HoldOutcome,
        long: Option<Duration>,
    ) {
        let key = asked.key.parts();
        if outcome == HoldOutcome::Stopped {
            info!(
                parent: self.parent(),
                key = &*key.shown(),
                namespace = key.namespace(),
                function = %asked.site.name(),
                ?held,
                "stopped a body, because its pool is shut down and `shutdown_grace` is over"
            );
        }
        debug!(
            parent: self.parent(),
            key = &*key.shown(),
            outcome = outcome.as_str(),
            ?held,
            "is done with a lock"
        );
        if long.is_some_and(|long| held >= long) && self.must_tell(LENGTH) {
            warn!(
                parent: self.parent(),
                key = &*key.shown(),
                namespace = key.namespace(),
                function = %asked.site.name(),
                ?held,
                "held a lock for longer than `long_hold`"
            );
        }
        if let Some(class) = &self.class {
            class.hold_ended(key, outcome, held);
        }
        let own = self.span.as_ref().and_then(|span| span.own());
        if let Some(span) = own.and_then(|mut own| own.take()) {
            spared(|| {
                span.record("outcome", outcome.as_str());
                span.record("held", tracing::field::debug(held));
                drop(span);
            });
        }
    }
}

fn span(asked: AskedLock<'_>, fence: Fence, level: SpanLevel) -> Span {
    span_at!(
        level,
        "dlock.hold",
        class = asked.class().label(),
        key = &*asked.key.parts().shown(),
        kind = asked.kind.label(),
        function = %asked.site.name(),
        fence = fence.get(),
        outcome = tracing::field::Empty,
        held = tracing::field::Empty,
    )
}

impl fmt::Debug for ObservedHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedHold").finish_non_exhaustive()
    }
}
