//! Functions that a `macro_rules!` writes, with the attribute's parts from the macro or its caller;
//! and `dlock_runtime` under another name.

use dlock_runtime::{LockError, distributed_lock, lock_key};

use super::held;

macro_rules! literal_from_outside {
    ($name:ident, $key:literal) => {
        #[distributed_lock(key = $key)]
        async fn $name(id: u32) -> Result<(u32, String), LockError> {
            Ok((id, held()))
        }
    };
}
literal_from_outside!(literal, "m:<id>");

macro_rules! expressions_from_outside {
    ($name:ident, $key:expr, $ttl:expr, $krate:path) => {
        #[distributed_lock(key = $key, ttl = $ttl, crate = $krate)]
        async fn $name(id: u32) -> Result<(u32, String), LockError> {
            Ok((id, held()))
        }
    };
}
expressions_from_outside!(expressions, "m:<id>", "10s", ::dlock_runtime);

macro_rules! item_from_outside {
    ($item:item) => {
        #[distributed_lock(key = "m:<id>")]
        $item
    };
}
item_from_outside! {
    async fn item(id: u32) -> Result<(u32, String), LockError> {
        Ok((id, held()))
    }
}

macro_rules! arguments_from_outside {
    ($name:ident, $id:ident: $ty:ty) => {
        #[distributed_lock(key = "m:<id>")]
        async fn $name($id: $ty) -> Result<($ty, String), LockError> {
            Ok(($id, held()))
        }
    };
}
arguments_from_outside!(arguments, id: u32);

macro_rules! all_inside {
    ($name:ident) => {
        #[distributed_lock(key = "m:<id>")]
        async fn $name(id: u32) -> Result<(u32, String), LockError> {
            Ok((id, held()))
        }
    };
}
all_inside!(inside);

macro_rules! key_from_outside {
    ($key:literal) => {
        lock_key!($key)
    };
}

/// A crate that re-exports dlock under another name.
mod renamed {
    pub(crate) use dlock_runtime as locks;

    use self::locks::{LockError, distributed_lock};

    type Result<T> = std::result::Result<T, LockError>;

    #[distributed_lock(key = "renamed:<id>", crate = locks, ttl = "5s", wait = "1s", renew, guard = lock)]
    pub(crate) async fn aliased(id: u32) -> Result<(u32, String)> {
        let _: &locks::LockGuard = lock;
        Ok((id, crate::rows::held()))
    }

    #[allow(unused_qualifications, reason = "a path is the point")]
    #[distributed_lock(key = "renamed:<id>", crate = crate::rows::macros::renamed::locks)]
    pub(crate) async fn by_path(id: u32) -> Result<(u32, String)> {
        Ok((id, crate::rows::held()))
    }
}

pub(super) async fn rows() {
    let expected = (1, "m:1");
    ok!(literal(1), expected);
    ok!(expressions(1), expected);
    ok!(item(1), expected);
    ok!(arguments(1), expected);
    ok!(inside(1), expected);
    assert_eq!(key_from_outside!("m:1").as_str(), "m:1");
    let expected = (1, "renamed:1");
    ok!(renamed::aliased(1), expected);
    ok!(renamed::by_path(1), expected);
    let key = renamed::locks::lock_key!("a:<expected.0>");
    assert_eq!(key.as_str(), "a:1");
}
