//! Annotated functions of edition 2018, in a crate whose manifest renames `dlock-runtime` to
//! `locks`. Each returns the name of its lock.

#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications)]
#![deny(rust_2018_idioms, rust_2021_compatibility, rust_2024_compatibility)]
#![deny(clippy::pedantic)]
#![allow(
    keyword_idents,
    reason = "names that later editions took are the point"
)]
#![forbid(unsafe_code)]

use locks::{LockError, LockGuard, LockPool, distributed_lock};
use std::fmt::Display;

/// The name of the innermost lock, without the namespace.
fn held() -> String {
    let held = locks::current().map(|held| held.key().to_string());
    held.unwrap_or_default()
}

/// Every argument that expands to something.
///
/// # Errors
/// As the lock fails.
#[distributed_lock(
    crate = locks,
    key = "<dyn_>:<id>:<text>",
    ttl = "10s",
    wait = "3s",
    renew = "1s",
    max_hold = "5m",
    max_renewals = 9,
    min_hold = "10ms",
    once_per = "1s",
    after_crash = "skip",
    on_busy = "skip",
    on_lost = "finish",
    release = "background",
    guard = lock,
    pool = pool
)]
pub async fn everything<T: Display + Send>(
    id: u64,
    text: &str,
    dyn_: T,
    pool: &LockPool,
) -> Result<Option<String>, LockError> {
    let _: (&LockGuard, &str) = (lock, text);
    Ok(Some(format!("{} {} {}", id, dyn_, held())))
}

/// Names that later editions reserve: here `async`, `dyn` and `try` are keywords, and `gen` is not.
///
/// # Errors
/// As the lock fails.
#[distributed_lock(crate = ::locks, key = "<r#async>:<r#try>:<r#gen>:<gen.len()>")]
pub async fn keywords(r#async: u8, r#try: u8, gen: &str) -> Result<String, LockError> {
    let _ = (r#async, r#try, gen);
    Ok(held())
}

/// A type with a method and a pool.
pub struct Shop {
    /// The pool of its method.
    pub locks: LockPool,
}

impl Shop {
    /// `map_err`, and an `impl Trait`.
    ///
    /// # Errors
    /// As the lock fails.
    #[distributed_lock(crate = locks, key = "shop:<id>", pool = self.locks, map_err = |error| error.to_string())]
    pub async fn method<T: Display>(
        &mut self,
        id: T,
    ) -> Result<impl Iterator<Item = String> + use<T>, String> {
        Ok(std::iter::once(held()))
    }

    /// The key of the method.
    #[must_use]
    pub fn key(id: u8) -> locks::Key {
        locks::lock_key!("shop:<id>")
    }
}

/// A module without the standard library's names.
pub mod bare {
    #![no_implicit_prelude]

    use ::locks::distributed_lock;

    /// All ways to return an error.
    #[distributed_lock(
        crate = ::locks,
        key = "bare:<id>",
        ttl = "10s",
        wait = "0s",
        renew,
        guard = lock,
        on_busy = "skip",
        pool = pool,
        on_error = |_| ::std::option::Option::None
    )]
    pub async fn skipped(
        id: u8,
        pool: &::locks::LockPool,
    ) -> ::std::option::Option<::std::string::String> {
        ::std::option::Option::Some(::std::string::ToString::to_string(lock.key()))
    }

    /// With a `Result`.
    ///
    /// # Errors
    /// As the lock fails.
    #[distributed_lock(crate = ::locks, key = "bare:<id>", map_err = |_| ())]
    pub async fn result(id: u8) -> ::std::result::Result<::std::string::String, ()> {
        ::std::result::Result::Ok(crate::held())
    }

    /// The same key.
    #[must_use]
    pub fn key(id: u8) -> ::locks::Key {
        ::locks::lock_key!("bare:<id>")
    }
}
