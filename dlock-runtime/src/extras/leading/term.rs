//! The lead of a key while it lasts, and what its body may return.
//!
//! It owns the lock after a campaign; in a body it only refers to it.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::driver::guard::LockGuard;
use crate::driver::scope::ScopedGuard;
use crate::values::error::{LockError, LostCause};
use crate::values::fence::Fence;
use crate::values::key::Key;

/// The lead of a key, from [`Candidate`](crate::Candidate).
///
/// Dropping it resigns in the background. In a body of [`Candidate::run`](crate::Candidate::run), which
/// only borrows it, returning resigns.
#[must_use = "dropping the term resigns at once: bind it, `let term = …`"]
pub struct Term(TermGuard);

enum TermGuard {
    Owned(LockGuard),
    OfBody(ScopedGuard),
}

impl Term {
    pub(super) fn owned(guard: LockGuard) -> Self {
        Self(TermGuard::Owned(guard))
    }

    pub(super) fn of_body(guard: ScopedGuard) -> Self {
        Self(TermGuard::OfBody(guard))
    }

    /// Returns the lock behind the lead, for example for a [write](LockGuard::write) that the server
    /// applies only while this process leads.
    pub fn guard(&self) -> &LockGuard {
        match &self.0 {
            TermGuard::Owned(guard) => guard,
            TermGuard::OfBody(guard) => guard,
        }
    }

    /// Returns the key's name on the server, including the namespace.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.guard().key()
    }

    /// Returns the fencing token, higher than that of every earlier term: send it with each write that
    /// must not come late.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.guard().fence()
    }

    /// Returns whether this process leads at this moment, by its own clock: never after the deadline. No
    /// command is sent.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard().is_held()
    }

    /// Returns how long the lead can be counted on without a renewal; zero once it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard().remaining()
    }

    /// Waits until the term is lost, and returns the cause; **never** ends for a term that is resigned in
    /// time ([`LockGuard::lost`]).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub fn lost(&self) -> impl Future<Output = LostCause> + Send + 'static + use<> {
        self.guard().lost()
    }

    /// Waits until a shutdown of the pool begins; ready at once if one has begun
    /// ([`LockGuard::closing`]).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.guard().closing()
    }

    /// Resigns, and waits until that is done: the next candidate leads at once.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server did not confirm it within one
    /// [`command_timeout`](crate::Config::command_timeout). It is then repeated in the background, and the
    /// term ends at the latest with its lease.
    ///
    /// # Cancel safety
    /// May be dropped at any time: it continues in the background.
    pub async fn resign(self) -> Result<(), LockError> {
        match self.0 {
            TermGuard::Owned(guard) => guard.release().await.map(drop),
            TermGuard::OfBody(_) => Ok(()), // its body resigns, and nobody else has one of these
        }
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("key", self.key())
            .field("fence", &self.fence())
            .field("is_leader", &self.is_leader())
            .finish_non_exhaustive()
    }
}

/// What the body of [`Candidate::run`](crate::Candidate::run) may return: a `Result`, `()`, a
/// [`ControlFlow`], or nothing ever, as an endless `loop` does.
#[diagnostic::on_unimplemented(
    message = "the body of a term can't return `{Self}`",
    label = "neither a `Result`, `()` nor a `ControlFlow`",
    note = "wrap a value, `Ok::<_, LockError>(value)` or `ControlFlow::Break(value)`; `ControlFlow::Continue(())` campaigns again"
)]
pub trait TermOutcome: sealed::Sealed {
    /// What the call returns in the end.
    type Value;

    /// Returns the value with which the call ends, or how it goes on.
    fn into_flow(self) -> ControlFlow<Self::Value>;
}

#[diagnostic::do_not_recommend]
impl<T, E> TermOutcome for Result<T, E> {
    type Value = Self;

    fn into_flow(self) -> ControlFlow<Self> {
        ControlFlow::Break(self)
    }
}

#[diagnostic::do_not_recommend]
impl TermOutcome for () {
    type Value = ();

    fn into_flow(self) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

#[diagnostic::do_not_recommend]
impl<T> TermOutcome for ControlFlow<T> {
    type Value = T;

    fn into_flow(self) -> ControlFlow<T> {
        self
    }
}

/// An endless loop.
#[diagnostic::do_not_recommend]
impl TermOutcome for Diverges {
    type Value = Self;

    fn into_flow(self) -> ControlFlow<Self> {
        self
    }
}

/// The type `!`, which stable Rust has no name for outside the return type of a function.
type Diverges = <fn() -> ! as sealed::Returns>::Type;

mod sealed {
    use std::ops::ControlFlow;

    pub trait Returns {
        type Type;
    }

    impl<T> Returns for fn() -> T {
        type Type = T;
    }

    pub trait Sealed {}

    impl Sealed for super::Diverges {}

    impl<T, E> Sealed for Result<T, E> {}
    impl Sealed for () {}
    impl<T> Sealed for ControlFlow<T> {}
}
