//! Annotated functions, by theme, each with a call of it and what that returns. The crates of
//! `tests/forms/editions` compile them by the rules of 2018, 2021 and 2024, where they must not
//! warn, and `tests/forms/editions.rs` runs them in each.
//!
//! A body returns or asserts the name of the lock that it runs under (`held`). Its theme's `rows`
//! run in the scope of a pool.

#![allow(
    edition_2024_expr_fragment_specifier,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::uninlined_format_args,
    reason = "a row reports by panicking, as edition 2018 allows, and its expression may be any"
)]

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use dlock_runtime::LockPool;

/// A call's `Ok`, compared by its `Debug` text: so a `String` is equal to a literal.
macro_rules! ok {
    ($call:expr, $expected:expr) => {
        $crate::rows::compare(&$call.await.unwrap(), &$expected)
    };
}

/// The same of a call that returns no `Result`.
macro_rules! gives {
    ($call:expr, $expected:expr) => {
        $crate::rows::compare(&$call.await, &$expected)
    };
}

mod arguments;
mod async_traits;
mod attributes;
mod bodies;
mod bounds;
mod drops;
mod fragments;
mod free;
mod generics;
mod hygiene;
mod keys;
mod kinds;
mod lead;
mod macros;
mod native_traits;
mod nested;
mod once_per;
mod receivers;
mod returns;
mod spawned;
mod tails;
mod traits;
mod unsafety;

pub use self::drops::rows as drops;

/// Runs all rows but those of [`drops`].
pub async fn run() {
    let themes: Vec<Pin<Box<dyn Future<Output = ()>>>> = vec![
        Box::pin(arguments::rows()),
        Box::pin(async_traits::rows()),
        Box::pin(attributes::rows()),
        Box::pin(bodies::rows()),
        Box::pin(bounds::rows()),
        Box::pin(fragments::rows()),
        Box::pin(free::rows()),
        Box::pin(generics::rows()),
        Box::pin(hygiene::rows()),
        Box::pin(keys::rows()),
        Box::pin(kinds::rows()),
        Box::pin(lead::rows()),
        Box::pin(macros::rows()),
        Box::pin(native_traits::rows()),
        Box::pin(nested::rows()),
        Box::pin(once_per::rows()),
        Box::pin(receivers::rows()),
        Box::pin(returns::rows()),
        Box::pin(spawned::rows()),
        Box::pin(tails::rows()),
        Box::pin(traits::rows()),
        Box::pin(unsafety::rows()),
    ];
    for theme in themes {
        memory().await.scope(theme).await;
    }
}

/// The name of the innermost lock, without the namespace.
fn held() -> String {
    let held = dlock_runtime::current().expect("the body runs under a lock");
    assert!(held.is_held());
    let key = held.key().as_str().strip_prefix("lock:");
    key.unwrap().to_owned()
}

async fn memory() -> LockPool {
    LockPool::connect("memory://").await.unwrap()
}

#[track_caller]
fn compare(got: &impl Debug, expected: &impl Debug) {
    assert_eq!(format!("{:?}", got), format!("{:?}", expected));
}
