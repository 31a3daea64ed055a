//! Runs one call to acquire in its span, and tells observers when it began and how it ended
//! (`observe::ObservedCall` is whom it tells).
//!
//! It decides nothing. Invariant: a call that is dropped is told as cancelled.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::client::spec::AcquireSpec;
use crate::driver::core::Core;
use crate::driver::guard::LockGuard;
use crate::observe::{self, ObservedCall};
use crate::values::error::LockError;
use crate::values::moment::Moment;

pub(super) struct CallOfRequest<'a> {
    core: &'a Arc<Core>,
    /// Of several keys, the first.
    spec: &'a Arc<AcquireSpec>,
    observed: ObservedCall,
    begun: Moment,
    /// Its end has to be told.
    is_open: bool,
}

impl<'a> CallOfRequest<'a> {
    pub(super) fn begins(core: &'a Arc<Core>, spec: &'a Arc<AcquireSpec>, keys: usize) -> Self {
        let class = core.observers().class_of(spec.asked());
        let level = core.settings().observing.span_level;
        let observed = ObservedCall::begins(spec.asked(), keys, level, class);
        Self {
            core,
            spec,
            is_open: observed.is_seen(),
            observed,
            begun: core.now(),
        }
    }

    pub(super) fn begun(&self) -> Moment {
        self.begun
    }

    /// Polls the call inside its span.
    pub(super) fn polls<F: Future>(
        &self,
        call: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let _inside = self.observed.enter();
        call.poll(cx)
    }

    /// Tells how the call ended, and that the holds begin.
    pub(super) fn ended(&mut self, acquired: &Result<LockGuard, LockError>) {
        let is_seen = std::mem::take(&mut self.is_open);
        match acquired {
            Ok(guard) => {
                if is_seen {
                    self.acquired(guard);
                }
                if is_seen || observe::is_logging() {
                    self.holds_begin(guard);
                }
            }
            Err(error) => {
                if is_seen && !self.core.is_inherited() {
                    let waited = self.begun.until(self.core.now());
                    let key = self.spec.key.parts();
                    self.observed.failed(key, error, waited);
                }
            }
        }
    }

    fn acquired(&self, guard: &LockGuard) {
        let parts = guard.parts().filter(|part| !part.is_joined());
        if let Some(outcome) = parts.map(LockGuard::outcome).max() {
            let (key, fence) = (guard.key().parts(), guard.fence().get());
            self.observed.acquired(key, outcome, guard.waited(), fence);
        }
    }

    fn holds_begin(&self, guard: &LockGuard) {
        for part in guard.parts().filter(|part| !part.is_joined()) {
            let class = match &self.observed.class {
                Some(class) if Arc::ptr_eq(part.spec(), self.spec) => Some(class.clone()),
                Some(_) => self.core.observers().class_of(part.spec().asked()),
                None => None,
            };
            part.begins(class);
        }
    }
}

impl Drop for CallOfRequest<'_> {
    fn drop(&mut self) {
        if self.is_open && !self.core.is_inherited() {
            let waited = self.begun.until(self.core.now());
            self.observed.cancelled(self.spec.key.parts(), waited);
        }
    }
}
