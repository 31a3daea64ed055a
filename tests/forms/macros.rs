//! Functions that a `macro_rules!` writes, with the attribute's parts from the macro or its caller;
//! and `dlock_runtime` under another name.

use dlock_runtime::{LockError, distributed_lock, lock_key};

use crate::{held, on_memory};

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
        Ok((id, crate::held()))
    }

    #[distributed_lock(key = "renamed:<id>", crate = crate::macros::renamed::locks)]
    pub(crate) async fn by_path(id: u32) -> Result<(u32, String)> {
        Ok((id, crate::held()))
    }
}

/// `Ok`, `Err`, `Some` and the prelude's names belong to the user.
mod shadowed {
    use dlock_runtime::{LockError, distributed_lock};

    #[allow(dead_code, reason = "what it hides is the point")]
    struct Ok;
    #[allow(dead_code, reason = "what it hides is the point")]
    struct Some;
    #[allow(dead_code, reason = "what it hides is the point")]
    mod core {}
    #[allow(dead_code, reason = "what it hides is the point")]
    mod dlock_runtime_shadow {}

    #[distributed_lock(key = "shadowed:<id>", ttl = "5s", wait = "1s", renew)]
    pub(crate) async fn names(id: u32) -> Result<(u32, String), LockError> {
        Result::Ok((id, crate::held()))
    }
}

#[tokio::test]
async fn macro_rules_may_write_any_part() {
    on_memory(async {
        let all = [
            literal(1).await,
            expressions(1).await,
            item(1).await,
            arguments(1).await,
            inside(1).await,
        ];
        for outcome in all {
            assert_eq!(outcome.unwrap(), (1, "m:1".to_owned()));
        }
    })
    .await;
    assert_eq!(key_from_outside!("m:1").as_str(), "m:1");
}

#[tokio::test]
async fn the_runtime_may_have_another_name() {
    on_memory(async {
        let expected = (1, "renamed:1".to_owned());
        assert_eq!(renamed::aliased(1).await.unwrap(), expected);
        assert_eq!(renamed::by_path(1).await.unwrap(), expected);
        let key = renamed::locks::lock_key!("a:<expected.0>");
        assert_eq!(key.as_str(), "a:1");
    })
    .await;
}

#[tokio::test]
async fn the_users_names_do_not_disturb() {
    let outcome = on_memory(shadowed::names(1)).await.unwrap();
    assert_eq!(outcome, (1, "shadowed:1".to_owned()));
}
