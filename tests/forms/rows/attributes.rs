//! Other attributes on the function, above and below: each is kept and has its effect; and
//! visibility.

use dlock_runtime::{LockError, distributed_lock};

use super::held;

/// Documented above,
#[doc = concat!("and ", "with an expression")]
#[doc(alias = "synonym")]
#[distributed_lock(key = "documented")]
/// Documented below.
#[inline]
#[cold]
pub(crate) async fn documented() -> Result<String, LockError> {
    Ok(held())
}

/// A lint of the body still fires, as its function expects; otherwise the expectation would warn.
#[expect(unused_variables, reason = "fires in the body")]
#[distributed_lock(key = "expected")]
async fn expect_above(never_used: Vec<u8>) -> Result<String, LockError> {
    Ok(held())
}

/// The body owns them, and the compiler still calls them unused.
#[distributed_lock(key = "expected")]
async fn expect_at_arguments(
    #[expect(unused_variables, reason = "fires here")] never_used: String,
    #[expect(unused_variables, reason = "fires here")] (part, _): (String, String),
    #[expect(unused_variables, unused_mut, reason = "both fire here")] mut last: String,
) -> Result<String, LockError> {
    Ok(held())
}

#[distributed_lock(key = "expected")]
#[expect(
    unused_mut,
    clippy::unreadable_literal,
    reason = "both fire in the body"
)]
async fn expect_below() -> Result<String, LockError> {
    let mut million = 1000000;
    assert!(million > 1);
    Ok(held())
}

/// Lints about the function itself still fire, too.
#[expect(
    dead_code,
    unreachable_pub,
    reason = "nobody calls it, and nobody else could"
)]
#[distributed_lock(key = "unused")]
pub async fn never_called() -> Result<String, LockError> {
    Ok(held())
}

#[distributed_lock(key = "deprecated")]
#[deprecated(note = "as the test says")]
async fn old() -> Result<String, LockError> {
    Ok(held())
}

#[must_use = "as the test says"]
#[distributed_lock(key = "must use", on_error = |error| error.to_string())]
async fn must_use() -> String {
    held()
}

#[cfg(true)]
#[distributed_lock(key = "cfg:this")]
async fn configured() -> Result<String, LockError> {
    Ok(held())
}

#[distributed_lock(key = "cfg:other", ttl = "1s")]
#[cfg(false)]
async fn configured() -> Result<Missing, LockError> {
    Missing
}

#[cfg_attr(true, distributed_lock(key = "cfg_attr", on_error = |error| error.to_string()))]
async fn configured_lock() -> String {
    tokio::task::yield_now().await;
    held()
}

#[cfg_attr(false, distributed_lock(key = "cfg_attr", on_error = |error| error.to_string()))]
async fn configured_away() -> bool {
    tokio::task::yield_now().await;
    dlock_runtime::current().is_none()
}

/// The `cfg_attr` comes first, so the lock that it may add is the outer one.
#[cfg_attr(true, distributed_lock(key = "outer", guard = outer))]
#[distributed_lock(key = "inner")]
#[cfg_attr(
    true,
    allow(unused_variables, reason = "without this the test would not compile")
)]
async fn configured_and_stacked(unused: u8) -> Result<(String, String), LockError> {
    Ok((outer.key().to_string(), held()))
}

struct Shop;

impl Shop {
    #[cfg(true)]
    #[distributed_lock(key = "method")]
    async fn method(&self) -> Result<String, LockError> {
        #[cfg(false)]
        return missing();
        #[cfg(true)]
        Ok(held())
    }

    #[cfg(false)]
    #[distributed_lock(key = "method")]
    async fn method(&self) -> Missing {
        missing()
    }
}

mod outer {
    pub(super) mod inner {
        use super::super::{LockError, distributed_lock, held};

        #[distributed_lock(key = "in path")]
        pub(in super::super) async fn in_path() -> Result<String, LockError> {
            private().await
        }

        #[distributed_lock(key = "private")]
        async fn private() -> Result<String, LockError> {
            Ok(held())
        }

        #[distributed_lock(key = "super")]
        pub(super) async fn in_super() -> Result<String, LockError> {
            Ok(held())
        }
    }

    #[super::distributed_lock(key = "crate")]
    pub(crate) async fn in_crate() -> Result<String, super::LockError> {
        inner::in_super().await
    }
}

pub(super) async fn rows() {
    ok!(documented(), "documented");
    ok!(expect_above(vec![1]), "expected");
    let [one, two, three, four] = [const { String::new() }; 4];
    ok!(expect_at_arguments(one, (two, three), four), "expected");
    ok!(expect_below(), "expected");
    #[expect(deprecated, reason = "the attribute is kept, so this fires")]
    let old = old();
    ok!(old, "deprecated");
    #[expect(unused_must_use, reason = "the attribute is kept, so this fires")]
    {
        must_use().await;
    }
    ok!(configured(), "cfg:this");
    gives!(configured_lock(), "cfg_attr");
    assert!(configured_away().await);
    ok!(configured_and_stacked(1), ("outer", "inner"));
    ok!(Shop.method(), "method");
    ok!(outer::inner::in_path(), "private");
    ok!(outer::in_crate(), "super");
}
