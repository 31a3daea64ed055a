//! The attribute of dlock; depend on `dlock-runtime`, which re-exports it.
//!
//! A use goes through four stages, one file each; past `model` nothing can be invalid, so `expand` cannot fail:
//!
//! `args` (what was written) → `rules` (every error at once) → `model` → `expand` (the rewrite)
//!
//! Beside them: `signature` (the function), `async_trait` (the one function that comes rewritten), `template` (the key's
//! text). What a duration, a lease or a key may be is in `dlock-grammar`, which the runtime asks too. Generated code names
//! `dlock_runtime::__private` and nothing else of the runtime but its public types.

mod args;
mod async_trait;
mod errors;
mod expand;
mod model;
mod rules;
mod signature;
mod template;

#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use quote::quote;

/// Makes an async function exclusive: one caller per key at a time, in all processes that share the Redis server.
///
/// Before the body runs, the lock of `key` is taken; after it, released. Use it where two runs at once are waste or where
/// the resource checks the fencing token. It is a lease: without `renew` it ends after `ttl`, and then the body is stopped.
///
/// ```text
/// use dlock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "item:<id>", ttl = "10s", renew)]
/// async fn purchase(id: u64, buyer: &str) -> Result<Receipt, ShopError> {   // ShopError: From<LockError>
///     …
/// }
/// ```
///
/// # Arguments
///
/// | argument | meaning | without it |
/// | --- | --- | --- |
/// | `key = "item:<id>"` | what is locked: a key template (below), or an expression that gives `impl Into<Key>`, taken as it is | required |
/// | `ttl = "10s"` | the lease, from 10 ms to 24 h | the pool's default |
/// | `wait = "3s"` | how long to wait while others hold it; `"0s"` tries once, `"forever"` has no end | the pool's default |
/// | `renew`, `renew = "3s"` | renew the lease while the body runs: every third of it, or at this interval, which must be less than half of it | the lease ends after `ttl` |
/// | `max_hold = "5m"` | with `renew`: the lock is lost after this long, the body stopped and the key freed; at least the ttl | no bound |
/// | `max_renewals = 4` | with `renew`: renew no more often than this, and lose the lock when the last lease ends | no bound |
/// | `min_hold = "30s"` | the key stays at least this long after the grant, even when the body ends sooner; without `renew` at most the ttl | freed when the body ends |
/// | `on_busy = "skip"` | a busy lock leaves the body out (below); tries once unless `wait` is written | `"error"`: `LockError::Busy` |
/// | `on_lost = "finish"` | let the body run to its end after the lease was lost, and return its value; only the log and `lock.lost()` tell | `"cancel"`: the body is not polled any more |
/// | `release = "background"` | send the release at the end of the body and return, a round trip sooner; `"confirmed"` waits for its answer | the pool's, which is `"confirmed"` |
/// | `guard = lock` | binds `lock: &LockGuard` in the body: fencing token, `verify()`, … | – |
/// | `pool = "billing"` | a named pool, or an expression such as `self.locks`, which is cloned | the pool in scope, else the global one |
/// | `map_err = expr` | `FnOnce(LockError) -> E`, for a `Result<_, E>` without `E: From<LockError>` | `From` |
/// | `on_error = expr` | `FnOnce(LockError) -> R` for a function that returns no `Result`: R is its return type | a `Result` |
/// | `crate = path` | where `dlock_runtime` is | `::dlock_runtime` |
///
/// Durations are whole numbers with the units `ms s m h d`, the largest first: `"1m30s"`.
///
/// # Key template
///
/// `<place>` is replaced by a value's `Display`, once, before the body runs. A place is an argument, a constant or `self`, then
/// fields, tuple indices and argument-less method calls:
///
/// ```text
/// #[distributed_lock(key = "order:<order.id>:<pair.0>:<user.name()>")]
/// #[distributed_lock(key = "shard:{<self.shard>}:<id>")]          // {…} is the cluster's hash tag
/// #[distributed_lock(key = format!("order:{id:08}"))]             // anything else: an expression, not encoded
/// ```
///
/// `[A-Za-z0-9_.-]` of a value stay, every other byte becomes `%XX`: no value can forge a separator or a tag. `<<` is a literal
/// `<`. Two placeholders need a character between them that no value can contain, such as `:`. What looks like a value and would
/// be text, the same lock for all of them, does not compile: `{id}`, `#id`, `$id`, and a template inside an expression.
///
/// # Errors
///
/// The function's own return type carries the failure of the lock:
///
/// ```text
/// #[distributed_lock(key = "item:<id>")]
/// async fn a(id: u64) -> Result<(), AppError> { … }               // AppError: From<LockError>
///
/// #[distributed_lock(key = "item:<id>", map_err = |error| StatusCode::CONFLICT)]
/// async fn b(Path(id): Path<u64>) -> Result<String, StatusCode> { … }
///
/// #[distributed_lock(key = "nightly", wait = "0s", on_error = |error| tracing::info!("skipped: {error}"))]
/// async fn c() { … }
/// ```
///
/// `map_err`, `on_error`, `pool` and an expression for `key` are evaluated outside the body. `map_err` and `on_error` run after
/// the body took the arguments: they can use what is `Copy` or borrowed.
///
/// # Jobs that only one instance runs
///
/// `on_busy = "skip"`: whoever finds the lock busy does nothing and returns `()`, `None`, `Ok(())` or `Ok(None)`; a function
/// that returns anything else does not compile. Only `LockError::Busy` is skipped: an outage is an error as ever, so that a
/// function without a `Result` says `on_error` too. Instances never start at the same moment: `min_hold` keeps the key until
/// the last of them has looked, however short the job.
///
/// ```text
/// #[distributed_lock(key = "nightly:<day>", ttl = "10m", on_busy = "skip", min_hold = "1m")]
/// async fn nightly(day: u32) -> Result<Option<Report>, AppError> { … }   // Ok(None): another instance did it
/// ```
///
/// # Work of unknown length
///
/// `renew` goes on for as long as the body runs, also if that hangs. `max_hold` and `max_renewals` end it:
///
/// ```text
/// #[distributed_lock(key = "import:<file>", ttl = "10s", renew, max_hold = "5m")]
/// async fn import(file: &str) -> Result<(), AppError> { … }              // LockError::Lost after 5 minutes
/// ```
///
/// # Cancel safety
///
/// Dropping the future stops the body where it is and releases the lock.
///
/// # Beside other attributes
///
/// * Above `#[tokio::test]`, with `pool = …`: below it the function is no longer async. Not on `main`: its lock would be
///   taken before its body calls `init`, so that it does not compile.
/// * Several `#[distributed_lock]` on one function are acquired from the top down. None of them may have another name, and a
///   `cfg_attr` with one stands above the others.
/// * On methods with any receiver, in traits, in `impl` blocks under `#[async_trait]`, and on what a `macro_rules!` writes.
/// * The lock goes around what the attributes above it have put into the body: a `#[tracing::instrument]` above covers the
///   body alone, one below covers the wait for the lock too.
#[proc_macro_attribute]
pub fn distributed_lock(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute(arguments.into(), &item.into()).into()
}

/// What `dlock_runtime::lock_key!` calls: the crate's path, a comma, a key template; gives the expression of a `Key`.
///
/// ```text
/// let key = dlock_runtime::lock_key!("item:<id>");
/// ```
#[doc(hidden)]
#[proc_macro]
pub fn lock_key_impl(input: TokenStream) -> TokenStream {
    lock_key(input.into()).into()
}

/// The attribute on any tokens, so that tests can call it.
fn attribute(
    arguments: proc_macro2::TokenStream,
    item: &proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    match rules::model(arguments.clone(), item) {
        Ok(model) => expand::function(&model),
        Err(errors) => {
            let errors = errors.to_compile_error();
            let item = match rules::guards(arguments, item) {
                Some((function, form, guards)) => expand::refused(&function, &form, &guards),
                None => rules::without_stacked(item),
            };
            quote!(#errors #item)
        }
    }
}

fn lock_key(input: proc_macro2::TokenStream) -> proc_macro2::TokenStream {
    match rules::lock_key(input) {
        Ok((krate, key)) => expand::key(&krate, &key),
        Err(errors) => {
            let errors = errors.to_compile_error();
            quote!({ #errors })
        }
    }
}
