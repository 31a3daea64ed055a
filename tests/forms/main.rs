//! The attribute on every kind of function: it compiles without a warning, it takes the lock that
//! it names, and otherwise leaves the function as it was.
//!
//! * `rows`: most functions, by theme, each with a call; three crates compile them, by the rules of
//!   each edition, and `editions` runs them
//! * under other attributes: `spans`, `extractors` (axum), `actix`
//! * in its crate: `lints`, `editions`
//! * as a future: `sizes`
//! * the attribute's arguments: `pools`, `errors`, `skipped`
//! * what public types can be relied on for: `public_face`
//!
//! Every body returns or asserts the name of the lock that it runs under (`held`). What must *not*
//! compile is in the package `dlock-ui`, one mistake in each file, with the compiler's messages
//! beside it.

#![deny(warnings, clippy::pedantic)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test reports by panicking"
)]
mod actix;
mod editions;
mod errors;
mod extractors;
mod http;
mod lints;
mod pools;
mod public_face;
#[cfg(feature = "sites")]
mod sites;
mod sizes;
mod skipped;
mod spans;

use dlock_runtime::LockPool;

/// The name of the innermost lock, without the namespace.
fn held() -> String {
    let held = dlock_runtime::current().expect("the body runs under a lock");
    assert!(held.is_held());
    held.key()
        .as_str()
        .strip_prefix("lock:")
        .unwrap()
        .to_owned()
}

async fn memory() -> LockPool {
    LockPool::connect("memory://").await.unwrap()
}

/// Runs a test with a pool of its own.
async fn on_memory<F: Future>(test: F) -> F::Output {
    memory().await.scope(test).await
}
