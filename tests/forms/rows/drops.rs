//! When the values of a body and its arguments are dropped, by the rules of the edition in which
//! this file is compiled: the same function with and without a lock.

#![allow(
    tail_expr_drop_order,
    if_let_rescope,
    clippy::redundant_else,
    clippy::toplevel_ref_arg,
    clippy::unused_self,
    reason = "what they warn of is the point"
)]

use std::future::{self, Future};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use dlock_runtime::{LockError, LockPool, distributed_lock};

/// What was dropped, in order.
#[derive(Default)]
struct Log {
    dropped: Mutex<Vec<String>>,
    /// The pool of the function's lock, if it takes one.
    pool: Option<LockPool>,
}

impl Log {
    fn dropped(&self) -> Vec<String> {
        self.dropped
            .lock()
            .map_or_else(|_| Vec::new(), |it| it.clone())
    }

    /// Whether the server has the lock, or there is none.
    fn is_held(&self) -> bool {
        self.pool.as_ref().is_none_or(|pool| {
            let holder = pin!(pool.holder("drops:::"));
            let asked = holder.poll(&mut Context::from_waker(Waker::noop()));
            matches!(asked, Poll::Ready(Ok(Some(_))))
        })
    }
}

struct Noisy(&'static str, Arc<Log>);

impl Noisy {
    fn value(&self) -> usize {
        self.0.len()
    }

    fn rename(&mut self, name: &'static str) {
        self.0 = name;
    }

    /// Adds nothing to a key.
    fn nothing(&self) -> &'static str {
        &self.0[..0]
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        let held = self.1.is_held();
        if let Ok(mut dropped) = self.1.dropped.lock() {
            let when = if held { "" } else { ", after the release" };
            dropped.push([self.0, when].concat());
        }
    }
}

struct Both {
    one: Noisy,
    other: Noisy,
}

/// Each row is a method, its locks, and a call of it.
macro_rules! rows {
    ($(
        $row:ident: [$($lock:tt)*] ($($parameters:tt)*) $body:block,
        |$log:ident, $noisy:ident| ($($argument:tt)*);
    )*) => {
        $(mod $row {
            use super::*;

            #[allow(dead_code, reason = "most methods have no receiver")]
            pub(super) struct Own(pub(super) Noisy);

            impl Own {
                #[allow(unused_variables, reason = "the key of the other uses some")]
                pub(super) async fn plain($($parameters)*) -> Result<usize, LockError> $body

                $($lock)*
                pub(super) async fn locked($($parameters)*) -> Result<usize, LockError> $body
            }
        })*

        /// Calls each method without and with its locks: its name, and what was dropped.
        ///
        /// # Errors
        /// As a lock fails.
        pub async fn rows(
            pool: &LockPool,
        ) -> Result<Vec<(&'static str, [Vec<String>; 2])>, LockError> {
            let mut rows = Vec::new();
            $({
                use $row::Own;
                let $log = Arc::new(Log::default());
                let $noisy = |name| Noisy(name, $log.clone());
                Own::plain($($argument)*).await?;
                let plain = $log.dropped();
                let pool = Some(pool.clone());
                let $log = Arc::new(Log { pool, ..Log::default() });
                let $noisy = |name| Noisy(name, $log.clone());
                Own::locked($($argument)*).await?;
                rows.push((stringify!($row), [plain, $log.dropped()]));
            })*
            Ok(rows)
        }
    };
}

rows! {
    locals: [#[distributed_lock(key = "drops:::")]]
    (log: &Arc<Log>) {
        let _first = Noisy("first local", log.clone());
        let _second = Noisy("second local", log.clone());
        if let 0 = Noisy("scrutinee", log.clone()).value() {
            return Ok(0);
        } else {
            Noisy("else", log.clone()).value();
        }
        Ok(Noisy("temporary of the tail", log.clone()).value())
    }, |log, noisy| (&{ let _ = &noisy; log.clone() });

    used_unused_and_hushed: [#[distributed_lock(key = "drops:::")]]
    (
        first: Noisy,
        mut second: Noisy,
        _third: Noisy,
        #[allow(unused_variables)] fourth: Noisy,
        fifth: Noisy
    ) {
        second.rename("changed");
        future::ready(()).await;
        Ok(fifth.value() + first.value())
    }, |log, noisy| (noisy("1"), noisy("2"), noisy("3"), noisy("4"), noisy("5"));

    moved_by_the_body: [#[distributed_lock(key = "drops:::")]]
    (first: Noisy, _: Noisy, third: Noisy, fourth: Both, _fifth: Noisy) {
        drop(third);
        let first = first;
        future::ready(()).await;
        drop(fourth.other);
        Ok(first.value())
    }, |log, noisy| (
        noisy("1"), noisy("2"), noisy("3"), Both { one: noisy("4"), other: noisy("4 other") }, noisy("5")
    );

    without_a_name: [#[distributed_lock(key = "drops:::")]]
    (_: Noisy, text: &str, _: Noisy, (): ()) { Ok(text.len()) },
    |log, noisy| (noisy("1"), "text", noisy("2"), ());

    receiver: [#[distributed_lock(key = "drops:::")]]
    (self, _: Noisy) { Ok(0) },
    |log, noisy| (Own(noisy("self")), noisy("1"));

    receiver_of_a_key: [#[distributed_lock(key = "drops<self.0.nothing()>:::")]]
    (mut self, _second: Noisy) {
        self.0.rename("changed");
        Ok(0)
    }, |log, noisy| (Own(noisy("self")), noisy("1"));

    boxed_receiver: [#[distributed_lock(key = "drops:::")]]
    (self: Box<Self>, second: Noisy) {
        future::ready(()).await;
        Ok(second.value())
    }, |log, noisy| (Box::new(Own(noisy("self"))), noisy("1"));

    borrowed_receiver: [#[distributed_lock(key = "drops<self.0.nothing()>:::")]]
    (&mut self, _: Noisy) { self.0.rename("self"); Ok(0) },
    |log, noisy| (&mut *std::mem::ManuallyDrop::new(Own(noisy("self"))), noisy("1"));

    ignored_parts: [#[distributed_lock(key = "drops:::")]]
    (first: Noisy, (mut second, _): (Noisy, Noisy), Both { one, .. }: Both, mut fourth: Noisy) {
        second.rename("changed");
        fourth.rename("changed, too");
        future::ready(()).await;
        Ok(first.value() + one.value())
    }, |log, noisy| (
        noisy("1"), (noisy("2"), noisy("2, ignored")), Both { one: noisy("3"), other: noisy("3, ignored") }, noisy("4")
    );

    ignored_parts_and_a_key: [#[distributed_lock(
        key = "drops<first.nothing()>:<second.nothing()>:<one.nothing()>:<last.nothing()>"
    )]]
    (
        first: Noisy,
        (.., second, _): (Noisy, Noisy, Noisy),
        Both { mut one, other: _ }: Both,
        [last, ..]: [Noisy; 2],
        _: Noisy
    ) {
        one.rename("changed");
        future::ready(()).await;
        Ok(0)
    }, |log, noisy| (
        noisy("1"),
        (noisy("2, ignored"), noisy("2"), noisy("2, ignored, too")),
        Both { one: noisy("3"), other: noisy("3, ignored") },
        [noisy("4"), noisy("4, ignored")],
        noisy("5")
    );

    patterns_that_bind_everything: [#[distributed_lock(key = "drops:::")]]
    (Both { one, other: _other }: Both, (first, second): (Noisy, Noisy)) {
        future::ready(()).await;
        Ok(one.value() + first.value() + second.value())
    }, |log, noisy| (Both { one: noisy("1"), other: noisy("2") }, (noisy("3"), noisy("4")));

    by_reference: [#[distributed_lock(key = "drops<first.nothing()>:::")]]
    (ref first: Noisy, ref mut second: Noisy, _: Noisy) {
        second.rename("changed");
        future::ready(()).await;
        Ok(first.value())
    }, |log, noisy| (noisy("1"), noisy("2"), noisy("3"));

    behind_a_reference: [#[distributed_lock(key = "drops:::")]]
    (&(number, _): &(usize, Noisy), _second: Noisy) { Ok(number) },
    |log, noisy| (&*std::mem::ManuallyDrop::new((1, noisy("1"))), noisy("2"));

    two_locks: [
        #[distributed_lock(key = "outer<first.nothing()>")]
        #[distributed_lock(key = "drops<second.nothing()>:<third.nothing()>::")]
    ]
    (first: Noisy, _: Noisy, (second, _): (Noisy, Noisy), third: Noisy, #[allow(unused_variables)] fourth: Noisy) {
        future::ready(()).await;
        Ok(0)
    }, |log, noisy| (
        noisy("1"), noisy("2"), (noisy("3"), noisy("3, ignored")), noisy("4"), noisy("5")
    );

    two_locks_and_names: [
        #[distributed_lock(key = "outer")]
        #[distributed_lock(key = "drops<second.nothing()>:::")]
    ]
    (first: Noisy, second: Noisy, _: Noisy, #[allow(unused_variables)] fourth: Noisy) {
        future::ready(()).await;
        Ok(first.value())
    }, |log, noisy| (noisy("1"), noisy("2"), noisy("3"), noisy("4"));

    in_a_format: [#[distributed_lock(key = "drops:::", on_error = |_| Ok(0))]]
    (first: usize, second: Arc<Noisy>, third: Noisy) {
        let name = second.0;
        future::ready(()).await;
        Ok(format!("{name}{first}").len() + third.value())
    }, |log, noisy| (1, Arc::new(noisy("2")), noisy("3"));
}
