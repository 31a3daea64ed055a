//! What a `macro_rules!` may pass on: every kind of fragment, `self`, the body, the return type,
//! attributes, also through nested macros.

use std::sync::Arc;

use dlock_runtime::{Key, LockError, distributed_lock, lock_key};

use super::held;

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
    lock "private", on_error = |error| panic!("{}", error)
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
        #[distributed_lock(key = "returns", on_busy = "skip", on_error = |error| panic!("{}", error))]
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
        crate::rows::memory().await
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
        #[distributed_lock(key = "<id>", on_error = |error| panic!("{}", error))]
        async fn from_inside(id: u8) -> (u8, String) {
            (id, held())
        }

        #[distributed_lock(key = $key, on_error = |error| panic!("{}", error))]
        async fn from_outside($id: u8) -> (u8, String) {
            ($id, held())
        }
    };
}
both!(id, "outside:<id>");

pub(super) async fn rows() {
    ok!(pieces((1, 2), "n", 2.5), ("n", 2.5, "pieces:1:n:2.5"));
    private(&1).await;
    ok!(expression(1), "1 expression:1");
    ok!(statements(1), "1 statements:2");
    returns_unit().await;
    gives!(returns_option(), Some(1));
    ok!(Shop(1).by_mutable(2), "3 method:1:2");
    ok!(Arc::new(Shop(1)).by_arc(), "1 arc:1");
    ok!(Shop(1).self_from_inside(), "1 inside:1");
    ok!(nightly(), "job:nightly");
    ok!(hourly(), "job:hourly");
    ok!(handed_on(1), "handed on:1");
    gives!(from_inside(1), (1, "1"));
    gives!(from_outside(1), (1, "outside:1"));
}
