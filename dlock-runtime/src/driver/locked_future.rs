//! A body that runs while a lock is held: acquire, run, release, as one future.
//!
//! Written by hand so that the body is stored once: an `async fn` around it would store it twice.
//! Invariants: with [`OnLost::Cancel`] no poll of the body starts after its lease's deadline, nor
//! after a shutdown has stopped it; a stopped body is dropped before its lock is released; when the
//! future is dropped or unwound by a panic, what it holds then gives the lock back in the
//! background.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::runtime::Handle;

use super::guard::LockGuard;
use super::lease_cell::Lost;
use super::scope::{self, Frame, LockFrame, ScopedGuard};
use crate::observe::{self, ObservedHold};
use crate::values::error::{LockError, LostCause, Reason};
use crate::values::moment::Moment;

/// What becomes of a body whose lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLost {
    /// It is dropped, and the call fails with [`LockError::Lost`].
    Cancel,
    /// It runs to its end, and its value is returned.
    Finish,
}

pin_project! {
    /// The body of a locked function with its lock around it.
    #[must_use = "futures do nothing unless polled"]
    pub struct LockedFuture<F: Future> {
        #[pin]
        slot: BodySlot<F>,
        stage: BodyStage,
        on_lost: OnLost,
        // Tells the error in a value that a loss hides.
        failure: fn(&F::Output) -> Option<Reason>,
    }
}

pin_project! {
    /// The body, or the value that it returned, in the same memory.
    #[project = SlotProj]
    enum BodySlot<F: Future> {
        Body { #[pin] body: F },
        Value { value: Option<F::Output> },
    }
}

enum BodyStage {
    Acquire(Boxed<Result<LockGuard, LockError>>),
    Run {
        owner: LockOwner,
        /// The body has not been polled, and its leases were checked in this very poll: acquiring
        /// ends with that check.
        is_fresh: bool,
        lost: Option<Lost>,
    },
    Release {
        release: Boxed<Result<(), LockError>>,
        /// The release is sent, and then goes on by itself.
        in_background: bool,
    },
    Done,
}

// What does not depend on the body is in functions that are not generic: they are compiled once,
// the rest with each annotated function.
impl BodyStage {
    fn run(guard: LockGuard) -> Self {
        BodyStage::Run {
            owner: LockOwner::new(guard),
            is_fresh: true,
            lost: None,
        }
    }

    /// The body has ended. `checked`: when its lease was checked, if that was in this poll.
    fn release(self, checked: Option<Moment>) -> Self {
        let BodyStage::Run { owner, .. } = self else {
            return self; // only a running body ends
        };
        BodyStage::Release {
            in_background: owner.guard().is_released_in_background(),
            release: boxed(|| give_back(owner, checked)),
        }
    }

    /// The body was stopped, and is dropped: its call fails with this error, after its release.
    fn release_stopped(self, error: LockError) -> Self {
        let BodyStage::Run { owner, .. } = self else {
            return self; // only a running body is stopped
        };
        BodyStage::Release {
            in_background: false,
            release: boxed(|| give_back_stopped(owner, error)),
        }
    }
}

/// Owns the lock: when it is dropped it gives the lock back, even if others still refer to the
/// guard. A future that was started in the body and lives on outside it keeps its scope, and with
/// it a reference.
struct LockOwner(Arc<LockFrame>);

impl LockOwner {
    fn new(guard: LockGuard) -> Self {
        let frame = LockFrame::new(guard);
        if let Some(outer) = outer(&frame) {
            outer.inner_begins();
        }
        Self(frame)
    }

    fn guard(&self) -> &LockGuard {
        &self.0.guard
    }
}

impl Drop for LockOwner {
    fn drop(&mut self) {
        self.guard().abandon();
        if let Some(outer) = outer(&self.0) {
            outer.inner_ended();
        }
    }
}

/// The lock around this one, if its body must wait for this one's.
fn outer(frame: &LockFrame) -> Option<ScopedGuard> {
    frame.outer().filter(|_| frame.guard.is_stopped_first())
}

/// Boxed, so that the annotated function's future stays about as small as its body's.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Makes a future in its box. `Box::pin` makes it on the stack if what it holds must be dropped,
/// and then copies all of it, though most is for what it has not begun yet.
#[inline]
pub(crate) fn boxed<F: Future>(future: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, future()))
}

impl<F: Future> LockedFuture<F> {
    pub(crate) fn new(
        acquire: Boxed<Result<LockGuard, LockError>>,
        body: F,
        on_lost: OnLost,
    ) -> Self {
        Self {
            slot: BodySlot::Body { body },
            stage: BodyStage::Acquire(acquire),
            on_lost,
            failure: |_| None,
        }
    }

    /// With a function that finds an error in the value of the body. A loss takes the value's
    /// place, and then tells that error.
    pub fn failing_with(mut self, failure: fn(&F::Output) -> Option<Reason>) -> Self {
        self.failure = failure;
        self
    }
}

impl<F: Future> Future for LockedFuture<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.stage {
                BodyStage::Acquire(acquire) => match ready!(acquire.as_mut().poll(cx)) {
                    Ok(guard) => *this.stage = BodyStage::run(guard),
                    Err(error) => {
                        *this.stage = BodyStage::Done;
                        return Poll::Ready(Err(error));
                    }
                },
                BodyStage::Run {
                    owner,
                    is_fresh,
                    lost,
                } => {
                    let is_fresh = std::mem::take(is_fresh);
                    let frame = &owner.0;
                    let step = run(this.slot.as_mut(), frame, is_fresh, lost, *this.on_lost, cx);
                    let ended = ready!(step).and_then(|value| {
                        // The body is dropped before its lock is released.
                        this.slot.set(BodySlot::Value { value: Some(value) });
                        match *this.on_lost {
                            OnLost::Cancel => check_ended(&frame.guard).map(Some),
                            OnLost::Finish => Ok(None),
                        }
                    });
                    match ended {
                        Ok(checked) => {
                            if frame.guard.runs_once() {
                                end_run(&frame.guard, this.slot.as_mut(), *this.failure);
                            }
                            let run = std::mem::replace(this.stage, BodyStage::Done);
                            *this.stage = run.release(checked);
                        }
                        Err(error) => {
                            let error = hide(this.slot.as_mut(), *this.failure, error);
                            let run = std::mem::replace(this.stage, BodyStage::Done);
                            if !is_stop(&error) {
                                return Poll::Ready(Err(error)); // the watchdog cleans up
                            }
                            *this.stage = run.release_stopped(error);
                        }
                    }
                }
                BodyStage::Release {
                    release,
                    in_background,
                } => {
                    // Polled at least once, so that it is sent before anything that the caller
                    // sends next.
                    let released = release.as_mut().poll(cx);
                    if released.is_pending() && !(*in_background && goes_on(release)) {
                        return Poll::Pending;
                    }
                    *this.stage = BodyStage::Done;
                    if let Poll::Ready(Err(error)) = released {
                        let error = hide(this.slot.as_mut(), *this.failure, error);
                        return Poll::Ready(Err(error));
                    }
                    if let SlotProj::Value { value } = this.slot.as_mut().project()
                        && let Some(value) = value.take()
                    {
                        return Poll::Ready(Ok(value));
                    }
                }
                BodyStage::Done => return Poll::Pending, // polled after its end
            }
        }
    }
}

/// Polls the body once, if its lease allows that, and makes the end of the lease wake the task.
fn run<F: Future>(
    slot: Pin<&mut BodySlot<F>>,
    frame: &Arc<LockFrame>,
    is_fresh: bool,
    lost: &mut Option<Lost>,
    on_lost: OnLost,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, LockError>> {
    let SlotProj::Body { body } = slot.project() else {
        return Poll::Pending; // a `Run` stage has a body
    };
    let guard = &frame.guard;
    if on_lost == OnLost::Finish {
        let entered = scope::enter(Frame::Lock(frame.clone()));
        let span = guard.observed().map(ObservedHold::enter);
        let value = ready!(body.poll(cx));
        drop((span, entered));
        return Poll::Ready(Ok(value));
    }
    if !is_fresh {
        guard
            .check()
            .map_err(|(part, cause)| lost_error(part, cause, false))?;
    }
    let entered = scope::enter(Frame::Lock(frame.clone()));
    let span = guard.observed().map(ObservedHold::enter);
    let polled = body.poll(cx);
    drop((span, entered));
    match polled {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending => poll_lost(guard, lost, cx).map(Err),
    }
}

/// The body has ended: the time of the check, if the lock is held. A body that was to be stopped has
/// ended by itself.
fn check_ended(guard: &LockGuard) -> Result<Moment, LockError> {
    guard.check().or_else(|(part, cause)| match cause {
        LostCause::ShutDown => Ok(guard.now()),
        cause => Err(lost_error(part, cause, true)),
    })
}

fn is_stop(error: &LockError) -> bool {
    matches!(
        error,
        LockError::Lost {
            cause: LostCause::ShutDown,
            ..
        }
    )
}

/// Says how a run that is once per period ended: any value but an error is a success.
fn end_run<F: Future>(
    guard: &LockGuard,
    slot: Pin<&mut BodySlot<F>>,
    failure: fn(&F::Output) -> Option<Reason>,
) {
    let SlotProj::Value { value: Some(value) } = slot.project() else {
        return; // its body has ended
    };
    match failure(value) {
        None => guard.run_succeeded(),
        Some(_) => guard.run_failed(),
    }
}

/// Drops body or value for this error, which tells the one in the value.
fn hide<F: Future>(
    mut slot: Pin<&mut BodySlot<F>>,
    failure: fn(&F::Output) -> Option<Reason>,
    error: LockError,
) -> LockError {
    let hidden = match slot.as_mut().project() {
        SlotProj::Value { value } => value.as_ref().and_then(failure),
        SlotProj::Body { .. } => None,
    };
    slot.set(BodySlot::Value { value: None });
    let Some(hidden) = hidden else { return error };
    if let Some(key) = error.key() {
        observe::error_dropped(key.parts(), &hidden);
    }
    error.hiding(&hidden)
}

/// Wakes the task at the end of the lease.
fn poll_lost(guard: &LockGuard, lost: &mut Option<Lost>, cx: &mut Context<'_>) -> Poll<LockError> {
    let lost = lost.get_or_insert_with(|| guard.wait_lost());
    let cause = ready!(Pin::new(lost).poll(cx));
    let (part, cause) = guard.check().err().unwrap_or((guard, cause));
    Poll::Ready(lost_error(part, cause, false))
}

fn lost_error(guard: &LockGuard, cause: LostCause, finished: bool) -> LockError {
    LockError::Lost {
        key: guard.key().clone(),
        cause,
        renewed: guard.is_renewed(),
        finished,
        source: None,
    }
}

/// A release that fails is logged, and goes on in the background; it replaces the body's value only
/// if it is strict.
#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` holds its arguments twice"
)]
fn give_back(
    owner: LockOwner,
    checked: Option<Moment>,
) -> impl Future<Output = Result<(), LockError>> + Send {
    async move {
        let given_back = owner.guard().give_back(checked).await;
        if owner.guard().is_strict() {
            given_back?;
        }
        Ok(())
    }
}

/// The error of a stopped body, once its release is confirmed. One that fails is logged, and goes on
/// in the background.
async fn give_back_stopped(owner: LockOwner, error: LockError) -> Result<(), LockError> {
    let _ = owner.guard().give_back(None).await;
    Err(error)
}

/// How large the future of a release is.
#[cfg(test)]
pub(super) fn size_of_release(guard: LockGuard) -> usize {
    size_of_val(&give_back(LockOwner(LockFrame::new(guard)), None))
}

/// Leaves a release that is under way to the runtime; `false` if there is none here.
fn goes_on(release: &mut Boxed<Result<(), LockError>>) -> bool {
    let Ok(here) = Handle::try_current() else {
        return false;
    };
    here.spawn(std::mem::replace(release, Box::pin(std::future::pending())));
    true
}
