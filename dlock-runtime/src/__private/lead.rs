//! A function with `lead`: its candidate, what it may return, and the arguments that each term gets.
//!
//! Never in this file: what follows a term, which `Campaigns` decides.

use std::ops::ControlFlow;

use super::spec::Spec;
use super::{pool_of, target::Target};
use crate::driver::pool::LockPool;
use crate::extras::leading::{Campaigns, TermOutcome};
use crate::values::error::{LockError, Reason};

/// A call of a function with `lead`.
#[derive(Debug)]
pub struct Lead {
    spec: &'static Spec,
    target: Target,
    pool: Result<LockPool, LockError>,
    campaigns: Campaigns,
}

/// Begins a call. The pool is that of the first poll, for all terms.
#[must_use]
pub fn lead(spec: &'static Spec, mut target: Target) -> Lead {
    let pool = pool_of(spec, &mut target);
    Lead {
        spec,
        target,
        pool,
        campaigns: Campaigns::default(),
    }
}

impl Lead {
    /// Runs the body for the next term; `Continue`: make another body, for the term after it. The body
    /// is boxed, since the futures of its loop would else hold it several times.
    pub fn term<R>(
        &mut self,
        body: impl Future<Output = R>,
        flow: fn(R) -> ControlFlow<R>,
        failure: fn(&R) -> Option<Reason>,
    ) -> impl Future<Output = ControlFlow<Result<R, LockError>>> {
        let body = Box::pin(body);
        async move {
            let pool = match &self.pool {
                Ok(pool) => pool,
                Err(error) => return ControlFlow::Break(Err(error.clone())),
            };
            let target = self.target.clone();
            let request = target.request(|keys| self.spec.request(pool, keys));
            self.campaigns.term(request, body, flow, failure).await
        }
    }
}

/// The return types of a function with `lead`.
#[diagnostic::on_unimplemented(
    message = "a function with `lead` can't return `{Self}`",
    label = "neither a `Result`, `()` nor a `ControlFlow`",
    note = "return `Result<_, E>`, or `ControlFlow<Result<_, E>>`, whose `Continue(())` campaigns again"
)]
pub trait TermValue: Sized {
    /// Returns the value with which the call ends, or that it campaigns again.
    fn flow(self) -> ControlFlow<Self>;
}

#[diagnostic::do_not_recommend]
impl<T, E> TermValue for Result<T, E> {
    fn flow(self) -> ControlFlow<Self> {
        self.into_flow()
    }
}

#[diagnostic::do_not_recommend]
impl TermValue for () {
    fn flow(self) -> ControlFlow<()> {
        self.into_flow()
    }
}

#[diagnostic::do_not_recommend]
impl<T> TermValue for ControlFlow<T> {
    fn flow(self) -> ControlFlow<Self> {
        self.into_flow().map_break(ControlFlow::Break)
    }
}

/// An argument for one term.
pub fn for_each_term<T: LeadArgument>(argument: &T) -> T {
    argument.clone()
}

/// As [`for_each_term`], of a type with a type parameter: the compiler's own proposal is the best,
/// `T: Clone`.
pub fn generic_for_each_term<T: Clone>(argument: &T) -> T {
    argument.clone()
}

/// The types of arguments of which each term can get one.
#[diagnostic::on_unimplemented(
    message = "`lead` gives the body a clone of each argument for each term, and `{Self}` is not `Clone`",
    label = "not `Clone`",
    note = "pass a reference or an `Arc` of it, derive `Clone`, or make it in the body"
)]
pub trait LeadArgument: Clone {}

#[diagnostic::do_not_recommend]
impl<T: Clone> LeadArgument for T {}
