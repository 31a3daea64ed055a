//! Strict lints that programs use: the expansion trips none of them, denied or forbidden.

#![deny(
    let_underscore_drop,
    missing_debug_implementations,
    missing_docs,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unused_import_braces,
    unused_lifetimes,
    unused_macro_rules,
    unused_qualifications,
    unused_results,
    variant_size_differences,
    let_underscore,
    nonstandard_style,
    rust_2018_idioms,
    unused
)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::cargo)]

use std::fmt::Display;

use dlock_runtime::{Key, LockError, LockPool, distributed_lock};

use crate::{held, memory};

/// Every argument that expands to something.
#[distributed_lock(
    key = "all:<id>:<name>:<pair.0>",
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
    pool = pool,
    map_err = |error| error.to_string()
)]
async fn all<T>(
    id: u64,
    name: T,
    mut pair: (u8, Vec<u8>),
    pool: &LockPool,
) -> Result<Option<String>, String>
where
    T: Display + Send + Sync,
{
    pair.1.push(1);
    if pair.1.is_empty() {
        return Ok(None);
    }
    Ok(Some([lock.key().to_string(), id.to_string()].join(" ")))
}

/// Only the key.
#[distributed_lock(key = "least")]
async fn least() -> Result<String, LockError> {
    tokio::task::yield_now().await;
    Ok(held())
}

/// Arguments that the body does not use, or not all of.
#[distributed_lock(key = "unused:<id>:<name>")]
async fn unused(
    id: String,
    _hushed: String,
    _: String,
    Named { name, .. }: Named,
    mut last: Vec<u8>,
) -> Result<String, LockError> {
    last.push(1);
    assert_eq!(last.len(), 1);
    Ok(held())
}

/// What a term gets of its arguments.
#[distributed_lock(key = "lead:<id>:<name>", lead)]
async fn lead<T: Display + Clone + Send + Sync>(
    id: T,
    _hushed: String,
    _: String,
    Named { name, .. }: Named,
    (mut first, second): (Vec<u8>, Vec<u8>),
    mut last: Vec<u8>,
) -> Result<String, LockError> {
    first.push(1);
    last.extend(first.into_iter().chain(second));
    Ok([id.to_string(), name, held(), last.len().to_string()].join(" "))
}

/// A pattern in the signature ignores a part of it.
#[derive(Debug)]
struct Named {
    name: String,
    _rest: String,
}

/// Two locks, and no `Result`.
#[distributed_lock(key = "outer", on_error = |error| panic!("{error}"))]
#[distributed_lock(key = "inner", on_error = |error| panic!("{error}"), on_busy = "skip", wait = "1s")]
async fn stacked(log: &mut Vec<String>) {
    log.push(held());
}

/// With `impl Trait`, and another body.
#[distributed_lock(key = Key::verbatim(format!("impl:{id}")), on_error = |_| Vec::new())]
async fn returns_impl(id: impl Display) -> impl IntoIterator<Item = String> {
    vec![held()]
}

/// A type with methods.
#[derive(Clone, Debug)]
struct Shop {
    /// The pool of its methods.
    locks: LockPool,
}

impl Shop {
    /// The type is not written as `Self`.
    #[distributed_lock(key = "new:<id>", pool = locks)]
    async fn new(id: u8, locks: LockPool) -> Result<Self, LockError> {
        Ok(Self { locks })
    }

    /// By value, for each term.
    #[distributed_lock(key = "leads", lead, pool = self.locks)]
    async fn leads(self) -> Result<Self, LockError> {
        Ok(self)
    }

    /// By reference.
    #[distributed_lock(key = "method:<id>", pool = self.locks)]
    async fn method(&self, id: u8) -> Result<(&Self, String), LockError> {
        Ok((self, held()))
    }
}

#[async_trait::async_trait]
trait Dynamic {
    async fn dynamic(&self, id: u8) -> Result<String, LockError>;
}

#[async_trait::async_trait]
impl Dynamic for Shop {
    #[distributed_lock(key = "dynamic:<id>", pool = self.locks, guard = lock)]
    async fn dynamic(&self, id: u8) -> Result<String, LockError> {
        let _: &dlock_runtime::LockGuard = lock;
        Ok(held())
    }
}

/// Whole groups, without `unused`, because one of its lints is allowed at the body's braces; what
/// the feature `sites` adds allows one of `nonstandard_style`.
mod forbidden_groups {
    #![forbid(warnings, clippy::all, clippy::pedantic, clippy::nursery)]
    #![cfg_attr(not(feature = "sites"), forbid(nonstandard_style))]

    use super::{LockError, distributed_lock, held};

    #[distributed_lock(key = "leads", lead)]
    pub(super) async fn leads(id: String) -> Result<String, LockError> {
        Ok(id + &held())
    }

    #[distributed_lock(key = "groups:<id>", guard = lock)]
    pub(super) async fn function(id: u8) -> Result<String, LockError> {
        let _: &dlock_runtime::LockGuard = lock;
        Ok(held())
    }
}

/// A crate may want each value returned by a `return`.
mod returned {
    #![forbid(
        clippy::implicit_return,
        clippy::missing_docs_in_private_items,
        clippy::question_mark_used,
        clippy::exhaustive_structs,
        clippy::pattern_type_mismatch,
        clippy::shadow_same,
        clippy::shadow_reuse,
        clippy::let_underscore_untyped,
        clippy::let_underscore_must_use,
        clippy::default_numeric_fallback,
        clippy::ref_patterns,
        clippy::semicolon_outside_block,
        clippy::absolute_paths
    )]
    #![allow(clippy::needless_return, reason = "`implicit_return` is its contrary")]

    use super::{LockError, distributed_lock, held};

    /// Two locks, and an argument.
    #[distributed_lock(key = "outer:<id>", renew)]
    #[distributed_lock(key = "returned:<id>", guard = lock)]
    pub(super) async fn function(id: String, _: String) -> Result<String, LockError> {
        assert!(lock.is_held());
        return Ok(held());
    }

    /// Nothing to return.
    #[distributed_lock(key = "returned", on_error = drop)]
    pub(super) async fn nothing(text: &mut String) {
        text.push_str(&held());
    }

    /// Only a `Result`.
    #[distributed_lock(key = "returned", on_busy = "skip", map_err = super::to_text)]
    pub(super) async fn skipped() -> Result<Option<String>, String> {
        return Ok(Some(held()));
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes it so")]
fn to_text(error: LockError) -> String {
    error.to_string()
}

/// No `allow`, not even one of an expansion, can override what is forbidden.
mod forbidden {
    #![forbid(
        unsafe_code,
        unreachable_code,
        unused_variables,
        unused_mut,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::needless_return,
        clippy::let_unit_value,
        clippy::used_underscore_binding
    )]

    use super::{LockError, distributed_lock, held};

    #[distributed_lock(key = "leads", lead)]
    pub(super) async fn leads(mut id: String, _: String) -> Result<String, LockError> {
        id.push_str(&held());
        Ok(id)
    }

    #[distributed_lock(key = "forbidden:<id>", guard = lock)]
    pub(super) async fn function(id: String, _: String, (): ()) -> Result<String, LockError> {
        let _: &dlock_runtime::LockGuard = lock;
        Ok(held())
    }
}

#[tokio::test]
async fn every_expansion_is_quiet() {
    let pool = memory().await;
    let outcome = all(1, "n", (2, vec![]), &pool).await;
    assert_eq!(outcome.unwrap().unwrap(), "all:1:n:2 1");
    let shop = Shop::new(1, pool.clone()).await.unwrap();
    assert_eq!(shop.method(1).await.unwrap().1, "method:1");
    assert!(shop.clone().leads().await.is_ok());
    assert_eq!(shop.dynamic(1).await.unwrap(), "dynamic:1");
    pool.scope(async {
        assert_eq!(least().await.unwrap(), "least");
        let name = || "n".to_owned();
        let named = Named {
            name: name(),
            _rest: name(),
        };
        let outcome = unused(name(), name(), name(), named, vec![]).await;
        assert_eq!(outcome.unwrap(), "unused:n:n");
        let named = Named {
            name: name(),
            _rest: name(),
        };
        let lists = (vec![], vec![2]);
        let outcome = lead(1, name(), name(), named, lists, vec![3]).await;
        assert_eq!(outcome.unwrap(), "1 n lead:1:n 3");
        let outcome = forbidden_groups::leads(name()).await;
        assert_eq!(outcome.unwrap(), "nleads");
        let outcome = forbidden::leads(name(), name()).await;
        assert_eq!(outcome.unwrap(), "nleads");
        let outcome = returned::function(name(), name()).await;
        assert_eq!(outcome.unwrap(), "returned:n");
        let mut text = name();
        returned::nothing(&mut text).await;
        assert_eq!(text, "nreturned");
        let outcome = returned::skipped().await;
        assert_eq!(outcome.unwrap().unwrap(), "returned");
        let mut log = Vec::new();
        stacked(&mut log).await;
        assert_eq!(log, ["inner"]);
        let keys: Vec<_> = returns_impl(1).await.into_iter().collect();
        assert_eq!(keys, ["impl:1"]);
        assert_eq!(forbidden_groups::function(1).await.unwrap(), "groups:1");
        assert_eq!(
            forbidden::function("1".to_owned(), String::new(), ())
                .await
                .unwrap(),
            "forbidden:1"
        );
    })
    .await;
}
