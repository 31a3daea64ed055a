//! Distributed locks on Redis, as an attribute.
#![doc = "Placeholder"]

#[doc(hidden)]
#[path = "support.rs"]
pub mod __private;
mod backend;
mod engine;
mod global;
mod observe;
mod policy;
mod values;

pub use dlock_macros::distributed_lock;
pub use engine::guard::{LockGuard, Released};
pub use engine::held::{Held, current};
pub use engine::pool::LockPool;
pub use engine::request::LockRequest;
pub use global::{Drained, init, init_named, named, pool, shutdown};
pub use values::config::Config;
pub use values::error::{LockError, LostCause, Refusal, Text};
pub use values::fence::Fence;
pub use values::holder::{Holder, Process};
pub use values::key::Key;
pub use values::wait::Wait;

/// A [`Key`] from a template: the parser of `#[distributed_lock(key = …)]`, for code that asks a
/// pool directly.
#[macro_export]
macro_rules! lock_key {
    ($($template:tt)*) => {
        $crate::__private::lock_key_impl!($crate, $($template)*)
    };
}
