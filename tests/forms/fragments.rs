//! What a `macro_rules!` may pass on: every kind of fragment, `self`, the body, the return type,
//! attributes, also through nested macros.

use std::sync::Arc;

use dlock_runtime::{Key, LockError, distributed_lock, lock_key};

use crate::{held, on_memory};

type Held = Result<String, LockError>;

/// A whole function, in pieces.
macro_rules! pieces {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$life:lifetime, $generic:ident: $bound:path>
            ($($pat:pat_param => $ty:ty),* $(,)?) -> $ret:ty
        $body:block
        lock $key:literal $(, $argument:ident $(= $value:expr)?)*
    ) => {
        $(#[$meta])*
        #[distributed_lock(key = $key $(, $argument $(= $value)?)*)]
        $vis async fn $name<$life, $generic: $bound>($($pat: $ty),*) -> $ret $body
    };
}

pieces! {
    /// Documented.
    #[inline]
    pub(crate) fn pieces<'a, T: std::fmt::Display>(
        (id, _) => (u8, u8),
        name => &'a str,
        other => T,
    ) -> Result<(&'a str, T, String), LockError> {
        assert_eq!(id, 1);
        Ok((name, other, held()))
    }
    lock "pieces:<id>:<name>:<other>", ttl = "5s", renew, guard = _lock
}

pieces! {
    fn private<'a, T: Send>(_ => &'a T) -> () {
        assert_eq!(held(), "private");
    }
    lock "private", on_error = |error| panic!("{error}")
}

macro_rules! bodies {
    ($name:ident, $id:ident, $key:expr, $body:expr, $($statement:stmt;)*) => {
        #[distributed_lock(key = $key)]
        async fn $name($id: u8) -> Held {
            $($statement;)*
            $body
        }
    };
}
fn next_key(id: u8) -> Key {
    let next = id + 1;
    lock_key!("statements:<next>")
}

bodies!(
    expression,
    id,
    concat!("expression", ":", 1),
    Ok(format!("{id} {}", held())),
);
bodies!(statements, id, next_key(id), Ok(text), let text = held(); let text = format!("{id} {text}"););

/// A return type passed as a fragment is still recognized: `()` and `Option` have their own values
/// for a skipped body.
macro_rules! returns {
    ($name:ident, $ret:ty, $value:expr) => {
        #[distributed_lock(key = "returns", on_busy = "skip", on_error = |error| panic!("{error}"))]
        async fn $name() -> $ret {
            assert_eq!(held(), "returns");
            $value
        }
    };
}
returns!(returns_unit, (), ());
returns!(returns_option, Option<u8>, Some(1));

struct Shop(u8);

/// `self` from the caller, in the body and in the attribute.
macro_rules! methods {
    ($type:ty, $($name:ident($self:ident: $receiver:ty $(, $argument:ident: $ty:ty)*) $key:literal $body:block)*) => {
        #[allow(clippy::needless_arbitrary_self_type, reason = "one form for every receiver")]
        impl $type {
            $(
                #[distributed_lock(key = $key, pool = $self.locks().await)]
                async fn $name($self: $receiver $(, $argument: $ty)*) -> Held $body
            )*
        }
    };
}
methods! {
    Shop,
    by_mutable(self: &mut Self, more: u8) "method:<self.0>:<more>" { self.0 += more; Ok(format!("{} {}", self.0, held())) }
    by_arc(self: Arc<Self>) "arc:<self.0>" { Ok(format!("{} {}", self.0, held())) }
}

impl Shop {
    async fn locks(&self) -> dlock_runtime::LockPool {
        crate::memory().await
    }
}

/// `self` written by the macro and the key by the caller, and the other way round.
macro_rules! inside {
    ($name:ident, $key:literal) => {
        impl Shop {
            #[distributed_lock(key = $key)]
            async fn $name(&self) -> Held {
                Ok(format!("{} {}", self.0, held()))
            }
        }
    };
}
inside!(self_from_inside, "inside:<self.0>");

/// A macro that writes another macro, which writes the function.
macro_rules! generator {
    ($d:tt, $name:ident, $prefix:literal) => {
        macro_rules! $name {
                    ($d($d function:ident),*) => {
                        $d(
                            #[distributed_lock(key = concat!($prefix, stringify!($d function)))]
                            async fn $d function() -> Held {
                                generated!(held())
                            }
                        )*
                    };
                }
    };
}
macro_rules! generated {
    ($value:expr) => {
        Ok($value)
    };
}
generator!($, jobs, "job:");
jobs!(nightly, hourly);

/// A whole function passed through two macros, token by token.
macro_rules! item {
    ($($token:tt)*) => {
        hand_on! { $($token)* }
    };
}
macro_rules! hand_on {
    ($item:item) => {
        $item
    };
}
item! {
    #[distributed_lock(key = "handed on:<id>")]
    async fn handed_on(id: u8) -> Held {
        Ok(held())
    }
}

/// The same argument name from the macro and from its caller: each refers to its own.
macro_rules! both {
    ($id:ident, $key:literal) => {
        #[distributed_lock(key = "<id>", on_error = |error| panic!("{error}"))]
        async fn from_inside(id: u8) -> (u8, String) {
            (id, held())
        }

        #[distributed_lock(key = $key, on_error = |error| panic!("{error}"))]
        async fn from_outside($id: u8) -> (u8, String) {
            ($id, held())
        }
    };
}
both!(id, "outside:<id>");

#[tokio::test]
async fn pieces_bodies_and_types() {
    on_memory(async {
        let (name, other, key) = pieces((1, 2), "n", 2.5).await.unwrap();
        assert_eq!((name, other, key.as_str()), ("n", 2.5, "pieces:1:n:2.5"));
        private(&1).await;
        assert_eq!(expression(1).await.unwrap(), "1 expression:1");
        assert_eq!(statements(1).await.unwrap(), "1 statements:2");
        returns_unit().await;
        assert_eq!(returns_option().await, Some(1));
    })
    .await;
}

#[tokio::test]
async fn self_from_either_side() {
    assert_eq!(Shop(1).by_mutable(2).await.unwrap(), "3 method:1:2");
    assert_eq!(Arc::new(Shop(1)).by_arc().await.unwrap(), "1 arc:1");
    let inside = on_memory(async { Shop(1).self_from_inside().await });
    assert_eq!(inside.await.unwrap(), "1 inside:1");
}

#[tokio::test]
async fn macros_that_write_macros() {
    on_memory(async {
        assert_eq!(nightly().await.unwrap(), "job:nightly");
        assert_eq!(hourly().await.unwrap(), "job:hourly");
        assert_eq!(handed_on(1).await.unwrap(), "handed on:1");
        assert_eq!(from_inside(1).await, (1, "1".to_owned()));
        assert_eq!(from_outside(1).await, (1, "outside:1".to_owned()));
    })
    .await;
}
