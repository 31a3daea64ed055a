//! The error in a value that a body returned, for a loss that takes its place.
//!
//! A method call finds the first type that has the method, and each dereferences to the next: the
//! expansion, which knows the value's type, needs no bound on it. Invariant: the method's name is
//! no user's.

use std::fmt::{Display, Write as _};
use std::ops::Deref;

use crate::values::error::Reason;

/// A value; with an error that has a text, if it has the method.
#[derive(Debug)]
pub struct Returned<'a, T>(Failed<'a, T>);

/// With any error, if it has the method.
#[derive(Debug)]
pub struct Failed<'a, T>(Other<'a, T>);

/// With no error that is known.
#[derive(Debug)]
pub struct Other<'a, T>(&'a T);

/// The value, to be asked for its `__dlock_error`.
pub fn returned<T>(value: &T) -> Returned<'_, T> {
    Returned(Failed(Other(value)))
}

impl<T, E: Display> Returned<'_, Result<T, E>> {
    #[must_use]
    pub fn __dlock_error(&self) -> Option<Reason> {
        let error = self.0.0.0.as_ref().err()?;
        let mut text = String::new();
        // A `Display` that fails leaves what it has written.
        let _ = write!(text, "{error}");
        Some(Reason::new(text))
    }
}

impl<'a, T> Deref for Returned<'a, T> {
    type Target = Failed<'a, T>;

    fn deref(&self) -> &Failed<'a, T> {
        &self.0
    }
}

impl<T, E> Failed<'_, Result<T, E>> {
    #[must_use]
    pub fn __dlock_error(&self) -> Option<Reason> {
        let error = self.0.0.as_ref().err();
        error.map(|_| Reason::new("its error has no `Display`"))
    }
}

impl<'a, T> Deref for Failed<'a, T> {
    type Target = Other<'a, T>;

    fn deref(&self) -> &Other<'a, T> {
        &self.0
    }
}

impl<T> Other<'_, T> {
    #[must_use]
    pub fn __dlock_error(&self) -> Option<Reason> {
        None
    }
}
