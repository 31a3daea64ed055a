//! The attribute on every kind of function: it compiles without a warning, it takes the lock that
//! it names, and otherwise leaves the function as it was.
//!
//! * the function: `free`, `arguments`, `receivers`, `generics`, `bounds`, `returns`, `bodies`,
//!   `tails`, `nested`
//! * of a trait: `traits`, `native_traits`, `async_traits`
//! * under other attributes and macros: `attributes`, `spans`, `handlers` and `extractors` (axum),
//!   `actix`, `macros`, `fragments`
//! * in its crate: `hygiene`, `lints`, `editions` (the crates are in `editions/`)
//! * as a future: `spawned`, `sizes`
//! * the attribute's arguments: `keys`, `kinds`, `pools`, `errors`, `skipped`
//! * what public types can be relied on for: `public_face`
//!
//! Every body here returns or asserts the name of the lock that it runs under (`held`). What must
//! *not* compile is in the package `dlock-ui`, one mistake in each file, with the compiler's
//! messages beside it.

#![deny(warnings, clippy::pedantic)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test reports by panicking"
)]
mod actix;
mod arguments;
mod async_traits;
mod attributes;
mod bodies;
mod bounds;
#[path = "editions/drops.rs"]
mod drops;
mod editions;
mod errors;
mod extractors;
mod fragments;
mod free;
mod generics;
mod handlers;
mod http;
mod hygiene;
mod keys;
mod kinds;
mod lints;
mod macros;
mod native_traits;
mod nested;
mod pools;
mod public_face;
mod receivers;
mod returns;
#[cfg(feature = "sites")]
mod sites;
mod sizes;
mod skipped;
mod spans;
mod spawned;
mod tails;
mod traits;

use dlock_runtime::{self as dlock, LockPool};

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
