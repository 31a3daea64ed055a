//! What generated code calls. Not for people: it may change with every version.
//!
//! Never in this folder: a decision about a lock. Invariant: whatever an attribute says reaches the
//! driver as the same `LockRequest` that method calls build.

mod lead;
mod returned;
mod spec;
mod target;

use std::ops::ControlFlow;

use crate::driver::guard::LockGuard;
use crate::driver::locked_future::{Boxed, boxed};
use crate::driver::pool::LockPool;
use crate::driver::scope;
use crate::global;
use crate::observe;
use crate::values::config::{Address, Config};
use crate::values::error::LockError;
use crate::values::key::Key;

pub use crate::driver::locked_future::{LockedFuture, OnLost};
pub use crate::driver::scope::ScopedGuard;
pub use crate::values::key::{KeyBuilder, Placeholder};
#[cfg(feature = "macros")]
pub use dlock_macros::lock_key_impl;
#[cfg(feature = "sites")]
pub use inventory::submit;
pub use lead::{Lead, LeadArgument, TermValue, for_each_term, generic_for_each_term, lead};
pub use returned::{Failed, Other, Returned, returned};
pub use spec::Spec;
#[cfg(feature = "sites")]
pub use spec::{AnnotatedLock, KeySource, site, sites};
pub use target::{IntoKeys, Owner, Target, constant_keys, into_keys};

/// Begins the key of this template. Its parts follow, since only the macro can read the text.
pub fn key(template: &'static str) -> KeyBuilder {
    KeyBuilder::of(template)
}

/// What some servers can't have: the rows of a table in the guide.
pub fn refused() -> impl Iterator<Item = String> {
    crate::values::config::guide()
}

/// Whether its locks are inside this process alone. The command `dlock` refuses that.
#[must_use]
pub fn is_in_memory(config: &Config) -> bool {
    let settings = config.clone().check();
    settings.is_ok_and(|it| matches!(it.address, Address::Memory))
}

/// The job under this lock, which runs once per period, has failed: the release takes back what was
/// recorded before it began. The command `dlock` knows that only when its program has ended.
pub fn run_failed(guard: &LockGuard) {
    guard.run_failed();
}

/// A key that is an expression.
pub fn into_key(key: impl IntoKey) -> Key {
    key.into_key()
}

/// The types of expressions that stand for a key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    label = "expected text or a `Key`",
    note = "write a template such as `key = \"item:<id>\"`, or an expression that gives a `&str`, a `String` or a `Key`"
)]
pub trait IntoKey {
    fn into_key(self) -> Key;
}

// Without this, the compiler lists everything that `Key` can be made from, and no template.
#[diagnostic::do_not_recommend]
impl<K: Into<Key>> IntoKey for K {
    fn into_key(self) -> Key {
        self.into()
    }
}

/// A key that is a constant.
pub fn constant_key(key: impl IntoKey) -> Key {
    key.into_key().of_constant()
}

/// The guard of the body that calls this.
#[must_use]
pub fn held() -> ScopedGuard {
    #[expect(
        clippy::expect_used,
        reason = "generated code calls this inside the body, which is polled in its lock's scope"
    )]
    ScopedGuard::innermost().expect("the body of a locked function runs under its lock")
}

/// Whether `on_busy = "skip"` leaves the body out.
#[must_use]
pub fn is_skipped(error: &LockError) -> bool {
    error.is_skipped()
}

/// Logs that a busy lock has left the body out (`on_busy = "skip"`): the caller may not be able to
/// tell.
pub fn tell_skipped(error: &LockError) {
    match error {
        LockError::Busy { key, holder, .. } => observe::skipped(key.parts(), holder),
        LockError::NotDue { key, last_run } => observe::not_due(key.parts(), last_run),
        _ => {}
    }
}

/// Runs a body under a lock of the named, scoped or global pool.
///
/// The return type has a name because a user's compiler pays for `impl Future`: 0.4 ms in each
/// annotated function.
pub fn run<F: Future>(spec: &'static Spec, key: Key, body: F) -> LockedFuture<F> {
    LockedFuture::new(acquire_one(spec, key), body, spec.on_lost())
}

/// Runs a body under a lock that needs more than its key: an owner, a pool of its own, more keys.
pub fn run_with<F: Future>(spec: &'static Spec, target: Target, body: F) -> LockedFuture<F> {
    LockedFuture::new(acquire(spec, target), body, spec.on_lost())
}

fn acquire_one(spec: &'static Spec, key: Key) -> Boxed<Result<LockGuard, LockError>> {
    acquire(spec, Target::new(key))
}

/// The pool is looked up when the future is first polled, so the scope is that of the poll.
///
/// Not generic: it is compiled here, once, and not again with each annotated function.
fn acquire(spec: &'static Spec, mut target: Target) -> Boxed<Result<LockGuard, LockError>> {
    boxed(move || async move {
        let pool = pool_of(spec, &mut target)?;
        let request = target.request(|keys| spec.request(&pool, keys));
        let (pool, specs) = request.specs()?;
        specs.acquire(&pool).await
    })
}

fn pool_of(spec: &'static Spec, target: &mut Target) -> Result<LockPool, LockError> {
    match (target.own_pool(), spec.pool_name()) {
        (Some(pool), _) => Ok(pool),
        (None, Some(name)) => global::named(name),
        (None, None) => {
            scope::innermost_pool().map_or_else(global::pool, |core| Ok(LockPool::of(core)))
        }
    }
}

/// A value of any type where none is ever evaluated: written behind `if false`.
pub trait Never: Sized {
    #[must_use]
    fn never() -> Self {
        unreachable!("behind `if false`")
    }
}

impl<T> Never for T {}

/// How a failure to lock leaves the function.
#[diagnostic::on_unimplemented(
    message = "`#[distributed_lock]` can't report a failure to lock through the return type `{Self}`",
    label = "no `Result`",
    note = "return `Result<_, E>` where `E: From<dlock_runtime::LockError>`, or add `on_error = |error| …`, which gives `{Self}`"
)]
pub trait FromLockError {
    fn from_lock_error(error: LockError) -> Self;
}

impl<T, E: CarriesLockError> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

/// What a function with `lead` returns that may campaign again.
#[diagnostic::do_not_recommend]
impl<R: FromLockError> FromLockError for ControlFlow<R> {
    fn from_lock_error(error: LockError) -> Self {
        ControlFlow::Break(R::from_lock_error(error))
    }
}

/// An error type that can carry ours.
#[diagnostic::on_unimplemented(
    message = "`#[distributed_lock]` can't report a failure to lock as `{Self}`",
    label = "no `From<LockError>`",
    note = "add `map_err = |error| …`, which gives `{Self}`, or `on_error = |error| …`, which gives the whole return value,",
    note = "or, if `{Self}` is a type of yours, implement `From<dlock_runtime::LockError>` for it"
)]
pub trait CarriesLockError: From<LockError> {}

// Without this, the compiler reports the missing `From`, and not the other two ways.
#[diagnostic::do_not_recommend]
impl<E: From<LockError>> CarriesLockError for E {}

/// The error as `map_err` wants it.
pub fn map_err<R: MapErr<E>, E>(error: LockError, map: impl FnOnce(LockError) -> E) -> R {
    R::failed(map(error))
}

/// The return types that `map_err` works with.
#[diagnostic::on_unimplemented(
    message = "`map_err` needs a function that returns `Result`, and this one returns `{Self}`",
    label = "no `Result`",
    note = "write `on_error = |error| …` instead, which gives `{Self}`"
)]
// `E` is a parameter, not an associated type: a missing associated type would be reported as well,
// as a second error.
pub trait MapErr<E> {
    fn failed(error: E) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E> MapErr<E> for Result<T, E> {
    fn failed(error: E) -> Self {
        Err(error)
    }
}

/// The return types of a function whose body may be left out because its lock is busy.
#[diagnostic::on_unimplemented(
    message = "`on_busy = \"skip\"` leaves the body out, and then there is no `{Self}` to return",
    label = "nothing to return when it is skipped",
    note = "a function that may be skipped returns `()`, `Option<T>`, `Result<(), E>` or `Result<Option<T>, E>`"
)]
pub trait Skipped {
    fn skipped() -> Self;
}

// Without this, the compiler lists all impls, in their private terms; the note says it already.
#[diagnostic::do_not_recommend]
impl Skipped for () {
    fn skipped() {}
}

#[diagnostic::do_not_recommend]
impl<T> Skipped for Option<T> {
    fn skipped() -> Self {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<E> Skipped for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

#[diagnostic::do_not_recommend]
impl<T, E> Skipped for Result<Option<T>, E> {
    fn skipped() -> Self {
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
