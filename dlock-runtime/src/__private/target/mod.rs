//! What an annotated function locks in one call: all that is made when it is called.

use std::fmt::Display;

use super::{IntoKey, constant_key};
use crate::engine::pool::LockPool;
use crate::engine::request::{Keys, LockRequest};
use crate::values::key::Key;

/// The keys of one call, and what else is known only then.
#[derive(Debug)]
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

    /// Whose lock it is.
    #[must_use]
    pub fn owner<T: Owner + ?Sized>(mut self, owner: &T) -> Self {
        self.owner = Some(owner.text());
        self
    }

    /// How many permits there are, by an expression.
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

    /// A pool that is an expression.
    #[must_use]
    pub fn pool(mut self, pool: LockPool) -> Self {
        self.pool = Some(pool);
        self
    }

    pub(super) fn own_pool(&mut self) -> Option<LockPool> {
        self.pool.take()
    }

    /// The request for the keys, as `request` makes one, with what is known only now. It is checked
    /// as any other.
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

/// Who can be named as an owner: all that has a text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an owner: it has no `Display`",
    label = "no text",
    note = "write a template such as `owner = \"order:<id>\"`, or an expression that gives text, such as `id.to_string()`"
)]
pub trait Owner {
    /// Its text; a NUL, which no owner may begin with, if its `Display` failed.
    fn text(&self) -> String;
}

// Else the compiler says that `Display` is missing, and not what to write.
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

/// Several keys that are an expression, or a list of keys.
#[must_use]
pub fn into_keys(keys: impl IntoKeys) -> Vec<Key> {
    keys.into_keys()
}

/// As [`constant_key`], for each of several.
#[must_use]
pub fn constant_keys(keys: impl IntoKeys) -> Vec<Key> {
    keys.into_keys().into_iter().map(constant_key).collect()
}

/// What an expression may give that stands for several keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of keys",
    label = "expected a list of text or of `Key`s",
    note = "write a list such as `keys = [\"account:<from>\", \"account:<to>\"]`, or an expression that can be iterated and gives `&str`, \
            `String` or `Key`"
)]
pub trait IntoKeys {
    fn into_keys(self) -> Vec<Key>;
}

// Else the compiler says that it can't be iterated, and not what to write.
#[diagnostic::do_not_recommend]
impl<K: IntoIterator<Item: IntoKey>> IntoKeys for K {
    fn into_keys(self) -> Vec<Key> {
        self.into_iter().map(IntoKey::into_key).collect()
    }
}

#[cfg(test)]
#[cfg(feature = "macros")]
mod tests;
