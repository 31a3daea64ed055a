//! How much larger a future gets by its lock, for the functions of `tests/forms/sizes`, where a
//! test bounds it.

#[macro_use]
#[path = "../../tests/forms/sizes/cases.rs"]
mod cases;

use dlock_runtime::{LockError, LockPool, distributed_lock};
use tokio::task::yield_now;

const KIB: usize = 1024;

async fn memory() -> Result<LockPool, LockError> {
    LockPool::connect("memory://").await
}

/// A function, and its future's bytes without and with the lock.
pub(crate) type Sizes = (&'static str, usize, usize);

macro_rules! measured {
    ($($name:ident: [$($attribute:tt)*], ($($arg:ident: $ty:ty = $value:expr),*) -> $returned:ty, $body:block;)*) => {
        $(
            mod $name {
                use super::*;

                async fn plain($($arg: $ty),*) -> Result<$returned, LockError> $body

                #[distributed_lock($($attribute)*)]
                async fn locked($($arg: $ty),*) -> Result<$returned, LockError> $body

                pub(super) async fn sizes() -> Result<Sizes, LockError> {
                    let (plain, locked) = (plain($($value),*), locked($($value),*));
                    Ok((stringify!($name), size_of_val(&plain), size_of_val(&locked)))
                }
            }
        )*

        pub(crate) async fn all() -> Result<Vec<Sizes>, LockError> {
            Ok(vec![$($name::sizes().await?),*])
        }
    };
}

for_all_cases!(measured);
