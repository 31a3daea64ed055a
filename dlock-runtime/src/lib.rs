//! Distributed locks on Redis or PostgreSQL, as an attribute: one process of a fleet runs the function, the
//! others wait.
//!
//! ```
//! use dlock_runtime::{LockError, distributed_lock};
//!
//! #[distributed_lock(key = "item:<id>", ttl = "10s", renew)]
//! async fn purchase(id: u64, buyer: &str) -> Result<String, LockError> {
//!     Ok(format!("{buyer} bought item {id}"))
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), LockError> {
//!     dlock_runtime::init("memory://").await?; // in production: redis://127.0.0.1:6379
//!     println!("{}", purchase(7, "ann").await?);
//!     dlock_runtime::shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! The attribute takes the lock, runs the body and releases the lock. Without the attribute, a
//! [`LockPool`] does the same: `pool.lock("item:7").run(async |_| …)`.
//!
//! # What it promises
//!
//! A lock is a lease. By itself it makes double work rare; it makes double work harmless only if the
//! resource checks the [fencing token](Fence). The lease ends when it says:
//!
//! - the holder's deadline counts from *before* the request was sent, on a clock that neither steps
//!   nor (on Linux and Android) stops while the machine is suspended;
//! - a timer fires at that deadline even while a renewal hangs;
//! - the body is stopped: none of its polls starts after the deadline.
//!
//! It does not promise that a blocking call inside the body ends in time, that tasks which the body
//! spawned end, or that a server which loses its data keeps its locks. Check the fencing token where
//! that matters. `docs/inside/guarantees.md` in the repository has every case.
//!
//! # Where to look
//!
//! | | |
//! | --- | --- |
//! | the attribute and its arguments | [`distributed_lock`] |
//! | configure, once in `main` | [`init`], [`Config`], [`Credentials`], [`Release`], [`LockOrder`], [`SpanLevel`] |
//! | end in time | [`closing`], [`shutdown`], [`Config::shutdown_grace`], [`Drained`] |
//! | several servers or pools | [`init_named`], [`named`], [`LockPool::connect`] |
//! | take a lock by method calls | [`pool()`](pool), [`LockPool::lock`], [`LockRequest`], [`LockGuard`] |
//! | the lock that the current code runs under | [`current`], [`LockHandle`] |
//! | elect a leader | [`lead`](distributed_lock#lead), [`LockPool::leader`], [`Candidate`], [`Term`], [`LeaderWatch`] |
//! | write to Redis only while the lock is held | [`LockGuard::write`], [`Batch`] |
//! | count and show locks | [`LockListener`], [`Config::listener`], [`LockPool::status`] |
//! | list what the program's attributes lock | `sites` (feature `sites`) |
//! | see and end the holds of every process | [`LockPool::admin`], [`Admin`], [`LockReport`] |
//! | what the server's settings risk | [`LockPool::check`], [`Finding`], [`Concern`] |
//! | what can go wrong | [`LockError`], [`LostCause`], [`UnavailableCause`], [`Refusal`] |
//! | keys | [`lock_key!`], [`Key`] |
//! | tests without Redis | [`LockPool::scope`] and `memory://` |
//! | the rights of a Redis user | [below](#rights) |
//!
//! # Jobs, and work of unknown length
//!
//! ```
//! use dlock_runtime::{LockError, LockPool, distributed_lock};
//!
//! // Every instance calls it at about three o'clock. One does the work, the others get `None`, even
//! // one that calls after the work is done: the key stays for a minute.
//! #[distributed_lock(key = "nightly", ttl = "10m", on_busy = "skip", min_hold = "1m")]
//! async fn nightly() -> Result<Option<&'static str>, LockError> {
//!     Ok(Some("sent"))
//! }
//!
//! // Renewed while it runs, but if it hangs, the lock is free after five minutes; the call does not
//! // wait for the answer to its release.
//! #[distributed_lock(
//!     key = "import:<file>", ttl = "10s", renew, max_hold = "5m", max_renewals = 100, release = "background"
//! )]
//! async fn import(file: &str) -> Result<usize, LockError> {
//!     Ok(file.len())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! let pool = LockPool::connect("memory://").await?;
//! let elsewhere = pool.lock("nightly").acquire().await?;
//! assert_eq!(pool.scope(nightly()).await?, None);
//! # drop(elsewhere); assert_eq!(pool.scope(import("a.csv")).await?, 5);
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! - `macros` (default): the attribute [`distributed_lock`] and [`lock_key!`]. Without it, only
//!   [`LockPool::lock`] takes locks, and `dlock-macros` is not built.
//! - `tls` (default): connections with TLS (`rediss://`), by rustls and ring, which needs a C
//!   compiler to build. Without it, such a URL is refused.
//! - `metrics`: histograms, counters and gauges through the facade crate `metrics`, for any exporter
//!   (Prometheus, OpenTelemetry, statsd). The program installs the exporter.
//! - `postgres`: locks in PostgreSQL 13 or newer (`postgres://`), without Redis.
//! - `axum`: [`LockError`] is a response of axum, with [its status](LockError::http_status).
//! - `sites`: the list of all annotated functions of the program, for tests and documentation.
//!
//! # Rights
//!
//! A dedicated Redis user needs these rights, here with the namespace `lock:` (a [`Batch`] also needs
//! those of its commands):
//!
//! ```text
//! ACL SETUSER dlock on >… resetkeys ~lock:* resetchannels &lock:@grant:* -@all +ping +hello +command|info +info +time +get +getrange +mget +exists +set +del +pttl +pexpire +eval +evalsha +zadd +zrem +zrange +zscore +zmscore +zcard +zremrangebyscore +publish +subscribe
//! ```
//!
//! Add `+select` for a database other than 0, `+scan` to list locks ([`Admin::list`] and
//! [`watch`](Admin::watch)), `+wait +waitaof` for [`min_replicas`](Config::min_replicas) and
//! [`min_aof`](Config::min_aof), `+delex` on Redis 8.4 or newer, `+delifeq` on Valkey 9 or newer.
//!
//! `+getrange` may be missing: calls then read a foreign value at a lock's key whole, even if it is
//! long.
//!
//! Each node of a cluster, replicas included, has its own users, which also need
//! `+cluster|slots +cluster|info +asking`.

// Layers, one direction only: values <- rules <- client <- link <- topology <- driver <- global,
// __private. Beside them: `extras` (the order of locks, checks of a server, guarded writes,
// administration), `observe`, which logs and counts, `strangers`, which calls code of the program that
// may panic, and `sync`, a mutex that tests can schedule.
#[doc(hidden)]
pub mod __private;
mod client;
mod driver;
mod extras;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod global;
mod link;
mod observe;
mod rules;
mod strangers;
mod sync;
mod topology;
mod values;

#[cfg(feature = "sites")]
pub use __private::{AnnotatedLock, KeySource, sites};
#[cfg(feature = "macros")]
pub use dlock_macros::distributed_lock;
#[cfg(feature = "postgres")]
pub use driver::guard::SqlCheck;
pub use driver::guard::{LockGuard, Released};
pub use driver::lock_handle::LockHandle;
pub use driver::pool::LockPool;
pub use driver::request::LockRequest;
pub use driver::scope::current;
pub use driver::shutdown::Drained;
pub use driver::status::{ClassStatus, PoolStatus};
pub use extras::admin::{Admin, Change, Eviction, Listing, LockChange, Records, Watch};
pub use extras::leading::{Candidate, LeaderReport, LeaderWatch, Term, TermOutcome};
pub use global::{closing, init, init_named, named, pool, shutdown};
pub use values::batch::Batch;
pub use values::bounds::AfterCrash;
pub use values::config::{Config, Credentials, SpanLevel};
pub use values::error::{LockError, LostCause, Reason, Refusal, UnavailableCause};
pub use values::fence::Fence;
pub use values::finding::{Concern, Finding};
pub use values::holder::{Holder, Process};
pub use values::key::Key;
pub use values::listener::{AcquireOutcome, HoldOutcome, LockInfo, LockListener};
pub use values::lock_order::LockOrder;
pub use values::memory_value::MemoryValue;
pub use values::node_status::{NodeStanding, NodeStatus};
pub use values::record::LastRun;
pub use values::release::Release;
pub use values::report::{
    Fingerprint, HoldKind, HolderReport, LockKind, LockReport, Notice, WaiterReport,
};
pub use values::wait::Wait;

/// Builds a [`Key`] from a template, with the parser of `#[distributed_lock(key = "…")]`: for code
/// that calls a pool directly and must name the same lock as an annotated function.
///
/// `<placeholder>` takes a variable, a field path, a tuple index or a method call without
/// arguments. Its value is encoded, so that it can't be mistaken for the text around it. `$id`,
/// `#id`, `${id}` and, without any placeholder, `{id}` would be text, the same for every value, and
/// don't compile; [`Key::verbatim`] takes any text.
///
/// # Examples
///
/// ```
/// use dlock_runtime::lock_key;
///
/// struct Order { id: u64 }
/// let (order, shop) = (Order { id: 7 }, "north/south");
/// assert_eq!(lock_key!("shop:<shop>:order:<order.id>").as_str(), "shop:north%2Fsouth:order:7");
/// ```
///
/// ```compile_fail
/// let shop = "north";
/// dlock_runtime::lock_key!("shop:<shop"); // the placeholder is not closed
/// ```
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! lock_key {
    ($($template:tt)*) => {
        $crate::__private::lock_key_impl!($crate, $($template)*)
    };
}
