//! What an annotated function locks in one call: everything that is only known when it is called.
//!
//! Never in this folder: a check. The request that is made of it does that.

use std::fmt::Display;

use super::{IntoKey, constant_key};
use crate::driver::pool::LockPool;
use crate::driver::request::{Keys, LockRequest};
use crate::values::key::Key;

/// The keys of one call, and everything else that is only known then.
#[derive(Clone, Debug)]
pub struct Target {
    keys: Keys,
    owner: Option<String>,
    permits: Option<u32>,
    take: Option<u32>,
    pool: Option<LockPool>,
}

impl Target {
    /// One key.
    #[must_use]
    pub fn new(key: Key) -> Self {
        Self::of(Keys::One(key))
    }

    /// Several keys.
    #[must_use]
    pub fn all(keys: Vec<Key>) -> Self {
        Self::of(Keys::All(keys))
    }

    fn of(keys: Keys) -> Self {
        Self {
            keys,
            owner: None,
            permits: None,
            take: None,
            pool: None,
        }
    }

    /// The owner of the lock.
    #[must_use]
    pub fn owner<T: Owner + ?Sized>(mut self, owner: &T) -> Self {
        self.owner = Some(owner.text());
        self
    }

    /// The number of permits, from an expression.
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = Some(permits);
        self
    }

    /// How many of them it takes, where either number is an expression.
    #[must_use]
    pub fn take(mut self, take: u32) -> Self {
        self.take = Some(take);
        self
    }

    /// The pool, from an expression.
    #[must_use]
    pub fn pool(mut self, pool: LockPool) -> Self {
        self.pool = Some(pool);
        self
    }

    pub(super) fn own_pool(&mut self) -> Option<LockPool> {
        self.pool.take()
    }

    /// Makes the request for the keys with `request`, and adds what is only known now. It is
    /// checked like any other request.
    pub(super) fn request(self, request: impl FnOnce(Keys) -> LockRequest) -> LockRequest {
        let mut request = request(self.keys);
        if let Some(owner) = self.owner {
            request = request.owner(owner);
        }
        if let Some(permits) = self.permits {
            request = request.permits(permits);
        }
        match self.take {
            Some(take) => request.take(take),
            None => request,
        }
    }
}

/// The types that can name an owner: everything with a text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an owner: it has no `Display`",
    label = "no text",
    note = "write a template such as `owner = \"order:<id>\"`, or an expression that gives text, such as `id.to_string()`"
)]
pub trait Owner {
    /// Its text; if its `Display` failed, a NUL, with which no owner may begin.
    fn text(&self) -> String;
}

// Without this, the compiler says that `Display` is missing, and not what to write.
#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized> Owner for T {
    fn text(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        match write!(text, "{self}") {
            Ok(()) => text,
            Err(_) => String::from('\0'),
        }
    }
}

/// Several keys, from an expression or a list of keys.
#[must_use]
pub fn into_keys(keys: impl IntoKeys) -> Vec<Key> {
    keys.into_keys()
}

/// As [`constant_key`], for each of several.
#[must_use]
pub fn constant_keys(keys: impl IntoKeys) -> Vec<Key> {
    keys.into_keys().into_iter().map(constant_key).collect()
}

/// The types of expressions that stand for several keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of keys",
    label = "expected a list of text or of `Key`s",
    note = "write a list such as `keys = [\"account:<from>\", \"account:<to>\"]`, or an expression that can be iterated and gives `&str`, \
            `String` or `Key`, such as `ids.iter().map(|id| lock_key!(\"item:<id>\"))`"
)]
pub trait IntoKeys {
    fn into_keys(self) -> Vec<Key>;
}

// Without this, the compiler says that it can't be iterated, and not what to write.
#[diagnostic::do_not_recommend]
impl<K: IntoIterator<Item: IntoKey>> IntoKeys for K {
    fn into_keys(self) -> Vec<Key> {
        self.into_iter().map(IntoKey::into_key).collect()
    }
}

#[cfg(test)]
#[cfg(feature = "macros")]
mod tests;
