//! Names of the user that equal ours or the standard library's, and traits whose methods every type
//! has: the expansion does not confuse them with its own.

use std::sync::Mutex;

use dlock_runtime::{LockError, distributed_lock, lock_key};

use super::{held, memory};

/// As arguments, in the key, and as bindings of the body.
#[allow(clippy::too_many_arguments, reason = "many are the point")]
#[distributed_lock(
    key = "<key>:<body>:<value>:<error>:<pool>:<held_>:<lock>:<__spec>",
    guard = guard
)]
async fn arguments(
    key: u8,
    body: u8,
    value: u8,
    error: u8,
    pool: u8,
    held_: u8,
    lock: u8,
    __spec: u8,
) -> Result<(u8, String), LockError> {
    let sum = key + body + value + error + pool + held_ + lock + __spec;
    let (key, body, value, held) = (1, 2, 3, held());
    assert_eq!(guard.key().to_string(), held);
    Ok((sum + key + body + value, held))
}

/// The expressions for pool and errors see the arguments, not the expansion's variables of these
/// names.
#[distributed_lock(key = key, pool = pool, map_err = |value| format!("{error}{body}{value}"))]
async fn expressions(
    key: &str,
    pool: &dlock_runtime::LockPool,
    error: &str,
    body: u8,
) -> Result<String, String> {
    Ok(format!("{} {error}", held()))
}

/// A `let` cannot shadow constants and statics, whatever their case.
mod items {
    #![allow(
        non_upper_case_globals,
        non_camel_case_types,
        dead_code,
        reason = "the names are the point"
    )]
    use super::{LockError, distributed_lock, held};

    const key: u8 = 1;
    static pool: u8 = 2;
    const value: u8 = 3;
    struct body;
    struct error(u8);
    static __DLOCK_SPEC: u8 = 4;
    enum Names {
        held,
    }
    use Names::held as held_;

    #[distributed_lock(key = "items", guard = guard, pool = locks)]
    pub(crate) async fn under(locks: dlock_runtime::LockPool) -> Result<(u8, String), LockError> {
        let _: (body, error, Names) = (body, error(5), held_);
        assert_eq!(guard.key().as_str(), "lock:items");
        Ok((key + pool + value, held()))
    }
}

/// All names of the prelude, and more, mean something else here.
mod everything {
    #![allow(
        dead_code,
        unused_macros,
        non_camel_case_types,
        reason = "what they hide is the point"
    )]
    use ::std::result::Result as Outcome;
    use dlock_runtime::distributed_lock;

    pub(super) struct Result<T>(T);
    struct Option;
    struct Some;
    struct None;
    struct Ok;
    struct Err;
    struct Box;
    struct String;
    struct Vec;
    struct Key;
    struct Wait;
    struct Spec;
    struct Duration;
    struct LockError;
    struct LockGuard;
    struct LockPool;
    struct __private;
    trait Send {}
    trait Sync {}
    trait Future {}
    trait Clone {}
    trait Display {}
    trait From {}
    trait Into {}
    trait FromLockError {}
    trait Drop {}
    mod core {}
    mod std {}
    mod alloc {}
    mod tokio {}
    fn drop() {}
    fn run() {}
    fn held() {}
    fn key() {}
    type bool = u8;
    type str = u8;
    type u64 = i8;
    macro_rules! concat {
        ($($any:tt)*) => {
            compile_error!("the user's")
        };
    }
    macro_rules! module_path {
        ($($any:tt)*) => {
            compile_error!("the user's")
        };
    }
    macro_rules! panic {
        ($($any:tt)*) => {
            compile_error!("the user's")
        };
    }

    #[distributed_lock(
        key = "everything:<id>",
        ttl = "5s",
        wait = "1s",
        renew = "1s",
        max_hold = "1m",
        max_renewals = 9,
        min_hold = "10ms",
        once_per = "1s",
        after_crash = "skip",
        on_busy = "skip",
        on_lost = "finish",
        release = "background",
        guard = lock
    )]
    pub(crate) async fn hidden(
        id: u32,
    ) -> Outcome<::core::option::Option<(u32, ::std::string::String)>, dlock_runtime::LockError>
    {
        let _: &dlock_runtime::LockGuard = lock;
        Outcome::Ok(::core::option::Option::Some((id, crate::rows::held())))
    }

    #[distributed_lock(key = "everything:<id>", lead)]
    pub(crate) async fn leads(
        id: ::std::string::String,
    ) -> Outcome<::std::string::String, dlock_runtime::LockError> {
        Outcome::Ok(id)
    }

    #[distributed_lock(key = "everything:<id>", pool = pool.clone(), map_err = |_| 0)]
    pub(crate) async fn with_pool(
        id: u32,
        pool: &dlock_runtime::LockPool,
    ) -> Outcome<::std::string::String, u8> {
        Outcome::Ok(crate::rows::held())
    }
}

/// A module with the name of the runtime crate: a path that begins with `::` does not see it.
mod dlock_runtime_of_the_users {
    #[allow(dead_code, reason = "what it hides is the point")]
    mod dlock_runtime {
        pub(super) mod __private {}
    }

    #[::dlock_runtime::distributed_lock(key = "module")]
    pub(crate) async fn hidden() -> Result<String, ::dlock_runtime::LockError> {
        Ok(crate::rows::held())
    }
}

/// Every type has methods with the names that the expansion calls, by value, by reference and by
/// exclusive reference.
#[allow(
    clippy::wildcard_imports,
    reason = "each module has one trait of its own"
)]
mod blanket {
    use super::{LockError, Mutex, distributed_lock, held, lock_key};

    macro_rules! hijack {
        ($trait:ident, $($self:tt)+) => {
            #[allow(dead_code, unused_variables, clippy::wrong_self_convention, reason = "that none is called is the point")]
            pub(super) trait $trait: Sized {
                fn text($($self)+, text: &str) -> ! { panic!("text of the user's") }
                fn value<V>($($self)+, value: V) -> ! { panic!("value of the user's") }
                fn finish($($self)+) -> ! { panic!("finish of the user's") }
                fn clone($($self)+) -> ! { panic!("clone of the user's") }
                fn is_busy($($self)+) -> ! { panic!("is_busy of the user's") }
                fn from_lock_error($($self)+) -> ! { panic!("from_lock_error of the user's") }
                fn skipped($($self)+) -> ! { panic!("skipped of the user's") }
                fn into_future($($self)+) -> ! { panic!("into_future of the user's") }
                fn poll($($self)+) -> ! { panic!("poll of the user's") }
                fn unwrap_or_else<F>($($self)+, f: F) -> ! { panic!("unwrap_or_else of the user's") }
                fn deref($($self)+) -> ! { panic!("deref of the user's") }
                fn into($($self)+) -> ! { panic!("into of the user's") }
                fn term($($self)+) -> ! { panic!("term of the user's") }
                fn flow($($self)+) -> ! { panic!("flow of the user's") }
            }
            impl<T> $trait for T {}
        };
    }

    pub(super) mod by_value {
        use super::*;
        hijack!(Hijack, self);

        #[distributed_lock(key = "value:<id>:<CONSTANT>", on_busy = "skip", guard = lock, pool = pool, map_err = |error| error.to_string())]
        pub(crate) async fn locked(
            id: u8,
            pool: &dlock_runtime::LockPool,
        ) -> Result<Option<String>, String> {
            let _ = (lock, Mutex::new(0));
            Ok(Some(held()))
        }

        #[distributed_lock(key = "value:<id>", lead, pool = pool, map_err = |error| error.to_string())]
        pub(crate) async fn leads(
            id: String,
            pool: &dlock_runtime::LockPool,
        ) -> Result<String, String> {
            Ok(id + &held())
        }

        pub(crate) fn key(id: u8) -> dlock_runtime::Key {
            lock_key!("value:<id>")
        }
    }

    pub(super) mod by_reference {
        use super::*;
        hijack!(Hijack, &self);

        #[distributed_lock(key = "reference:<id>:<CONSTANT>", on_busy = "skip", guard = lock, pool = pool)]
        pub(crate) async fn locked(
            id: u8,
            pool: &dlock_runtime::LockPool,
        ) -> Result<Option<String>, LockError> {
            let _ = lock;
            Ok(Some(held()))
        }
    }

    pub(super) mod by_exclusive_reference {
        use super::*;
        hijack!(Hijack, &mut self);

        #[distributed_lock(key = "exclusive:<id>:<CONSTANT>", on_busy = "skip", guard = lock, pool = pool)]
        pub(crate) async fn locked(
            id: u8,
            pool: &dlock_runtime::LockPool,
        ) -> Result<Option<String>, LockError> {
            let _ = lock;
            Ok(Some(held()))
        }
    }

    const CONSTANT: char = 'c';
}

pub(super) async fn rows() {
    ok!(arguments(1, 2, 3, 4, 5, 6, 7, 8), (42, "1:2:3:4:5:6:7:8"));
    let pool = memory().await;
    ok!(expressions("a", &pool, "b", 1), "a b");
    ok!(items::under(pool.clone()), (6, "items"));
    let refused = expressions("\n", &pool, "b", 1).await;
    assert!(refused.unwrap_err().starts_with("b1"));
    ok!(everything::hidden(1), Some((1, "everything:1")));
    ok!(everything::leads("l".to_owned()), "l");
    ok!(everything::with_pool(2, &pool), "everything:2");
    ok!(dlock_runtime_of_the_users::hidden(), "module");
    ok!(blanket::by_value::locked(1, &pool), Some("value:1:c"));
    ok!(blanket::by_value::leads("l".to_owned(), &pool), "lvalue:l");
    assert_eq!(blanket::by_value::key(1).as_str(), "value:1");
    ok!(
        blanket::by_reference::locked(1, &pool),
        Some("reference:1:c")
    );
    let call = blanket::by_exclusive_reference::locked(1, &pool);
    ok!(call, Some("exclusive:1:c"));
}
