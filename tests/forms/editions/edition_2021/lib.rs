//! Annotated functions of edition 2021, also `unsafe` ones, which the tests' own lints forbid. Each
//! returns the name of its lock.

#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications)]
#![deny(rust_2018_idioms, rust_2024_compatibility, unsafe_op_in_unsafe_fn)]
#![deny(clippy::pedantic)]
#![allow(
    keyword_idents,
    reason = "names that later editions took are the point"
)]

use dlock_runtime::{self as dlock, distributed_lock, LockError, LockPool};
use std::fmt::Display;

#[path = "../drops.rs"]
mod drops;

pub use drops::rows;

/// The name of the innermost lock, without the namespace.
fn held() -> String {
    let held = dlock_runtime::current().map(|held| held.key().to_string());
    held.unwrap_or_default()
}

/// Every argument that expands to something.
///
/// # Errors
/// As the lock fails.
#[distributed_lock(
    key = "<gen>:<id>:<text>",
    ttl = "10s",
    wait = "3s",
    renew = "1s",
    max_hold = "5m",
    max_renewals = 9,
    min_hold = "10ms",
    on_busy = "skip",
    on_lost = "finish",
    release = "background",
    guard = lock,
    pool = pool
)]
#[tracing::instrument(skip_all)]
pub async fn everything<T: Display + Send>(
    id: u64,
    text: &str,
    gen: T,
    pool: &LockPool,
) -> Result<Option<String>, LockError> {
    let _ = (lock, text);
    Ok(Some(format!("{id} {gen} {}", held())))
}

/// Reads through a pointer.
///
/// # Errors
/// As the lock fails.
///
/// # Safety
/// The pointer must be valid until the future is done.
#[distributed_lock(key = "pointer:<id>")]
pub async unsafe fn read(pointer: Pointer, id: u8) -> Result<(u8, String), LockError> {
    // A limit: the body's `async` block would capture only the field, and `*const u8` is not
    // `Send`.
    let pointer = pointer;
    // SAFETY: the caller keeps it valid.
    let value = unsafe { *pointer.0 };
    Ok((value, held()))
}

/// A pointer that may go to another thread.
pub struct Pointer(pub *const u8);

// SAFETY: the pointer is read while the caller waits.
unsafe impl Send for Pointer {}

/// Calls [`read`].
///
/// # Errors
/// As the lock fails.
pub async fn call_read(pointer: Pointer) -> Result<(u8, String), LockError> {
    // SAFETY: tests give valid pointers.
    let id = unsafe { *pointer.0 };
    // SAFETY: tests give valid pointers.
    unsafe { read(pointer, id) }.await
}

/// Calls [`implicit::read`].
///
/// # Errors
/// As the lock fails.
pub async fn call_implicit(pointer: Pointer) -> Result<(u8, String), LockError> {
    // SAFETY: tests give valid pointers.
    unsafe { implicit::read(pointer) }.await
}

/// Calls [`Dynamic::dynamic`].
///
/// # Errors
/// As the lock fails.
pub async fn call_dynamic(id: u8) -> Result<String, LockError> {
    // SAFETY: the method does nothing unsafe.
    unsafe { Shop.dynamic(id) }.await
}

/// Unsafe methods, plain and under `async_trait`.
#[async_trait::async_trait]
pub trait Dynamic {
    /// Does nothing unsafe.
    ///
    /// # Errors
    /// As the lock fails.
    ///
    /// # Safety
    /// None is needed.
    async unsafe fn dynamic(&self, id: u8) -> Result<String, LockError>;

    /// The same, provided.
    ///
    /// # Errors
    /// As the lock fails.
    #[distributed_lock(key = "provided:<id>")]
    async fn provided(&self, id: u8) -> Result<String, LockError> {
        Ok(held())
    }
}

/// Implements [`Dynamic`].
pub struct Shop;

#[async_trait::async_trait]
impl Dynamic for Shop {
    #[distributed_lock(key = "dynamic:<id>")]
    async unsafe fn dynamic(&self, id: u8) -> Result<String, LockError> {
        Ok(held())
    }
}

/// Unsafe code without an `unsafe` block, as this edition allows.
pub mod implicit {
    #![allow(
        unsafe_op_in_unsafe_fn,
        reason = "edition 2021 allows it, so code has it"
    )]

    use super::{distributed_lock, held, LockError, Pointer};

    /// Reads through a pointer.
    ///
    /// # Errors
    /// As the lock fails.
    ///
    /// # Safety
    /// The pointer must be valid until the future is done.
    #[distributed_lock(key = "implicit")]
    pub async unsafe fn read(pointer: Pointer) -> Result<(u8, String), LockError> {
        Ok((*pointer.0, held()))
    }
}
