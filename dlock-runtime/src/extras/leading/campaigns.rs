//! One candidate's campaigns, one after the other: what ends the call, and what is campaigned for again.
//!
//! [`Candidate`](super::Candidate) loops over it, and so does the function that `lead` expands to, which
//! alone can make a body anew for each term. Never in this file: a decision about a lock.

use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::retry::{Jitter, after_failure};
use crate::driver::guard::LockGuard;
use crate::driver::request::LockRequest;
use crate::driver::scope::ScopedGuard;
use crate::driver::shutdown::ClosingSignal;
use crate::observe;
use crate::values::error::{LockError, LostCause, Reason, Refusal};

/// A term that lasted longer than this is not one of a row of failures.
const SHORT_TERM: Duration = Duration::from_secs(1);

/// The campaigns of one candidate.
#[derive(Debug, Default)]
pub(crate) struct Campaigns {
    pace: Pace,
}

impl Campaigns {
    /// Waits for the lead. `Continue`: it was not to be had, and may be now.
    pub(super) async fn win(
        &mut self,
        request: LockRequest,
    ) -> ControlFlow<Result<LockGuard, LockError>> {
        let closing = request.closing_signal();
        match request.of_candidate().acquire().await {
            Ok(lead) => {
                observe::term_begins(lead.key().parts(), lead.fence());
                ControlFlow::Break(Ok(lead))
            }
            Err(error) => self.failed(error, false, &closing).await,
        }
    }

    /// Waits for the lead, and runs the body for a term. `Continue`: the next one is to be campaigned
    /// for, because the term was lost, or because `flow` says so of the body's value. `failure` tells
    /// the error in a value that a loss hides.
    pub(crate) async fn term<R, V>(
        &mut self,
        request: LockRequest,
        body: impl Future<Output = R>,
        flow: impl FnOnce(R) -> ControlFlow<V>,
        failure: fn(&R) -> Option<Reason>,
    ) -> ControlFlow<Result<V, LockError>> {
        let closing = request.closing_signal();
        let pace = &mut self.pace;
        let mut says_continue = false;
        let body = async {
            pace.term_begins();
            if let Some(lead) = ScopedGuard::innermost() {
                observe::term_begins(lead.key().parts(), lead.fence());
            }
            let value = body.await;
            let hidden = failure(&value);
            let flow = flow(value);
            says_continue = flow.is_continue();
            (flow, hidden)
        };
        let led = match request.of_candidate().around(body) {
            Ok(led) => led.failing_with(|(_, hidden)| hidden.clone()).await,
            Err(error) => Err(error),
        };
        self.pace.term_ended();
        match led {
            Ok((ControlFlow::Break(value), _)) => ControlFlow::Break(Ok(value)),
            Ok((ControlFlow::Continue(()), _)) => {
                tokio::task::yield_now().await; // `memory://` may answer at once for ever
                ControlFlow::Continue(())
            }
            Err(error) => self.failed(error, says_continue, &closing).await,
        }
    }

    /// `Break` with the error, unless it passes: then `Continue`, after a pause, or as soon as a
    /// shutdown begins, which the next campaign tells.
    async fn failed<V>(
        &mut self,
        error: LockError,
        says_continue: bool,
        closing: &Arc<ClosingSignal>,
    ) -> ControlFlow<Result<V, LockError>> {
        if is_lost_term(&error, says_continue) || passes(&error) {
            let pause = self.pace.pause_after(&error);
            let _ = tokio::time::timeout(pause, closing.wait()).await;
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(Err(error))
        }
    }
}

/// Whether the term was lost, and the next one may be campaigned for: the body was stopped, or it ended
/// by itself meanwhile and wants to go on.
fn is_lost_term(error: &LockError, says_continue: bool) -> bool {
    match error {
        LockError::Lost {
            cause, finished, ..
        } => (!finished || says_continue) && *cause != LostCause::ShutDown,
        _ => false,
    }
}

/// Whether the same call may succeed later. A server that became a replica after the pool had connected
/// is promoted again, or its name leads to another one: a candidate must not end with each failover.
fn passes(error: &LockError) -> bool {
    match error {
        LockError::Unavailable { .. } => true,
        LockError::Refused { reason, .. } => reason.may_pass() || *reason == Refusal::ReadOnly,
        _ => false,
    }
}

/// The pauses between the failures of one candidate.
#[derive(Debug)]
struct Pace {
    failures: u32,
    jitter: Jitter,
    begun: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        Self {
            failures: 0,
            jitter: Jitter::seeded(seed),
            begun: None,
        }
    }
}

impl Pace {
    fn term_begins(&mut self) {
        self.begun = Some(Instant::now());
    }

    fn term_ended(&mut self) {
        let begun = self.begun.take();
        if begun.is_some_and(|begun| begun.elapsed() >= SHORT_TERM) {
            self.failures = 0;
        }
    }

    fn pause_after(&mut self, error: &LockError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        if let Some(key) = error.key() {
            observe::campaigns_again(key.parts(), error);
        }
        after_failure(self.failures, &mut self.jitter)
    }
}
