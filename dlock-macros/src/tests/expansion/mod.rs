//! The attribute's output, compared with a snapshot for each form. `tests/forms` tests that it
//! compiles and works.

mod kinds;

use proc_macro2::TokenStream;
use quote::quote;

/// Compares with `snapshots/<name>.snap`; `INSTA_UPDATE=always` accepts a change.
#[track_caller]
fn check(name: &str, arguments: TokenStream, item: &TokenStream) {
    check_tokens(name, crate::tests::attribute(arguments, item));
}

#[track_caller]
fn check_method(name: &str, arguments: TokenStream, item: &TokenStream) {
    let method = crate::tests::attribute(arguments, item);
    check_tokens(name, quote!(impl Shop { #method }));
}

#[track_caller]
fn check_tokens(name: &str, tokens: TokenStream) {
    let file = syn::parse2(tokens).expect("the expansion parses");
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, prettyplease::unparse(&file));
    });
}

#[test]
fn plain() {
    check(
        "plain",
        quote!(key = "item:<id>:x<s.len()>"),
        &quote! {
            /// Documented.
            #[must_use]
            pub async fn update(id: u64, s: &str) -> Result<u64, LockError> {
                if id == 0 { return Ok(0); }
                Ok(id + s.len() as u64)
            }
        },
    );
}

#[test]
fn every_setting() {
    check(
        "every_setting",
        quote!(
            key = "k",
            ttl = "10s",
            wait = "3s",
            renew = "2s",
            max_hold = "5m",
            max_renewals = 4,
            min_hold = "20s",
            once_per = "20h",
            after_crash = "skip",
            on_busy = "error",
            on_lost = "finish",
            release = "background",
            pool = "billing",
            crate = crate::dlock
        ),
        &quote!(
            async fn f() -> Result<(), E> {
                Ok(())
            }
        ),
    );
}

#[test]
fn other_settings() {
    check(
        "other_settings",
        quote!(
            key = "k",
            wait = "0s",
            renew = true,
            on_lost = "cancel",
            on_shutdown = "finish",
            release = "confirmed",
        ),
        &quote!(
            async fn r#type() -> Result<(), E> {
                Ok(())
            }
        ),
    );
}

#[test]
fn forever_without_renewal() {
    check(
        "forever",
        quote!(key = "k", wait = "forever", renew = false),
        &quote!(
            async fn f() -> Result<(), E> {
                Ok(())
            }
        ),
    );
}

#[test]
fn guard() {
    check(
        "guard",
        quote!(key = "k", guard = lock),
        &quote!(
            async fn f() -> Result<u64, E> {
                Ok(lock.fence().get())
            }
        ),
    );
}

#[test]
fn map_err() {
    check(
        "map_err",
        quote!(key = "k", map_err = |error| error.status()),
        &quote!(
            async fn f() -> Result<impl IntoResponse, StatusCode> {
                Ok("x")
            }
        ),
    );
}

#[test]
fn on_error_without_return_type() {
    check(
        "on_error",
        quote!(key = "k", on_error = log),
        &quote!(
            async fn f() {
                work().await;
            }
        ),
    );
}

/// The lock is tried once, whatever the pool's wait is; a busy lock is skipped before `on_error` is
/// called.
#[test]
fn skip() {
    check(
        "skip",
        quote!(key = "k", on_busy = "skip", on_error = log),
        &quote!(
            async fn f() {
                work().await;
            }
        ),
    );
}

#[test]
fn skip_after_a_wait() {
    check(
        "skip_after_a_wait",
        quote!(key = "k", on_busy = "skip", wait = "3s"),
        &quote!(
            async fn f() -> Result<Option<impl Send>, E> {
                Ok(Some(1))
            }
        ),
    );
}

#[test]
fn impl_trait() {
    check(
        "impl_trait",
        quote!(key = "<id>"),
        &quote!(
            async fn f(id: impl Display) -> Result<Vec<impl Iterator<Item = impl Send>>, E> {
                todo()
            }
        ),
    );
}

#[test]
fn patterns() {
    check(
        "patterns",
        quote!(key = "<id>:<a>:<b.0>:<user>:<x>:<N>:<r#fn>"),
        &quote! {
            async fn f<const N: usize>(Path(id): Path<u64>, (a, [b, ..]): P, Order { user, y: x, .. }: Order, r#fn: u8) -> Result<(), E> {
                Ok(())
            }
        },
    );
}

/// What the body does not mention, or not by a name, is moved into it all the same.
#[test]
fn owned() {
    check_method(
        "owned",
        quote!(key = "<id>", pool = locks, on_error = |_| later),
        &quote! {
            async fn f(
                self,
                id: Id,
                _: Tx,
                _tx: Tx,
                #[cfg(x)] #[expect(unused_variables)] unused: Tx,
                used: Tx,
                text: &str,
                locks: LockPool,
                later: Tx,
            ) {
                println!("{used}");
            }
        },
    );
}

/// Each term gets a clone of what the body mentions; `mut` is at the clone.
#[test]
fn lead() {
    check_method(
        "lead",
        quote!(key = "mailer:<shard>", ttl = "15s", lead, guard = lead),
        &quote! {
            async fn f<T>(
                self,
                shard: Shard,
                (mut a, _): (A, B),
                #[cfg(x)] #[allow(unused_mut)] mut list: Vec<u8>,
                any: T,
                mut text: &str,
            ) -> Result<(), E> {
                send(self, a, list, any, text, lead.fence()).await
            }
        },
    );
    check_method(
        "lead_async_trait",
        quote!(key = "d:<self.shard>", lead, on_error = log),
        &async_trait_output(),
    );
}

#[test]
fn method() {
    check_method(
        "method",
        quote!(
            key = "s:{<self.shard>}:<self.pair.1.0>:<id>",
            pool = self.locks
        ),
        &quote!(
            async fn f(&mut self, id: u64) -> Result<&mut Self, E> {
                Ok(self)
            }
        ),
    );
}

#[test]
fn expressions() {
    check(
        "expressions",
        quote!(key = item_key(id), pool = if id == 0 { a() } else { b() }),
        &quote!(
            async fn f(id: u64) -> Result<(), E> {
                Ok(())
            }
        ),
    );
}

#[test]
fn inner_attributes_and_unknown_syntax_survive() {
    let item = "async fn f() -> Result<(), E> { #![allow(x)] a.; let = ! }";
    let expanded = crate::tests::attribute(quote!(key = "k"), &item.parse().unwrap()).to_string();
    assert!(!expanded.contains("compile_error"), "{expanded}");
    assert!(expanded.contains("{ a .; let = ! }"), "{expanded}");
    assert!(
        expanded.starts_with("async fn f () -> Result < () , E > { # ! [allow (x)] static"),
        "{expanded}"
    );
}

#[test]
fn stacked() {
    check(
        "stacked",
        quote!(key = "first:<id>", guard = outer),
        &quote! {
            #[before]
            #[dlock_runtime::distributed_lock(key = "second:<id>", guard = inner)]
            #[after]
            async fn f(id: u64) -> Result<(), E> { Ok(()) }
        },
    );
}

#[test]
fn async_trait() {
    check_method(
        "async_trait",
        quote!(
            key = "d:<self.shard>:<a>:<name>:<id>",
            pool = self.locks,
            guard = lock,
            map_err = |e| self.error(e)
        ),
        &async_trait_output(),
    );
}

#[test]
fn async_trait_without_return_type() {
    check_method(
        "async_trait_unit",
        quote!(key = "<self.id>", on_error = drop),
        &quote! {
            fn go<'life0, 'async_trait>(&'life0 self) -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = ()> + ::core::marker::Send + 'async_trait>>
            where 'life0: 'async_trait, Self: 'async_trait {
                Box::pin(async move { let __self = self; let _: () = { __self.work().await; }; })
            }
        },
    );
}

/// If an attribute in between has wrapped the body in a future of its own, the lock goes around all
/// of it.
#[test]
fn async_trait_in_a_span() {
    check_method(
        "async_trait_in_a_span",
        quote!(
            key = "d:<self.shard>:<id>",
            on_error = |error| self.error(error)
        ),
        &quote! {
            fn get<'life0, 'async_trait>(&'life0 self, id: u8)
                -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Option<u8>> + ::core::marker::Send + 'async_trait>>
            where 'life0: 'async_trait, Self: 'async_trait
            {
                ::std::boxed::Box::pin(async move {
                    let span = span!("get");
                    let future = async move { let __self = self; let id = id; let __ret: Option<u8> = { Some(id) }; __ret };
                    future.instrument(span).await
                })
            }
        },
    );
}

/// The output of async-trait 0.1.92 for
/// `async fn get(&self, (a, b): (u8, u8), name: &str, mut id: u8) -> Result<u8, E>`
/// with the body `{ Ok(a + b + id + self.x) }`.
fn async_trait_output() -> TokenStream {
    quote! {
        #[allow(clippy::used_underscore_binding)]
        fn get<'life0, 'life1, 'async_trait>(&'life0 self, __arg1: (u8, u8), name: &'life1 str, id: u8)
            -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Result<u8, E>> + ::core::marker::Send + 'async_trait>>
        where 'life0: 'async_trait, 'life1: 'async_trait, Self: 'async_trait
        {
            Box::pin(async move {
                if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<Result<u8, E>> {
                    #[allow(unreachable_code)]
                    return __ret;
                }
                let __self = self;
                let (a, b) = { let __arg1 = __arg1; __arg1 };
                let mut id = id;
                let __ret: Result<u8, E> = { Ok(a + b + id + __self.x) };
                #[allow(unreachable_code)]
                __ret
            })
        }
    }
}

#[test]
fn lock_key() {
    let key = crate::lock_key(quote!($crate, "item:{<id>}:<self.pair.0>",));
    assert_eq!(
        key.to_string().replace(' ', ""),
        r#"$crate::__private::key("item:{<id>}:<self.pair.0>").text("item:{").value(&id).text("}:").value(&self.pair.0).finish()"#
    );
}

/// With the feature `sites`, the item that enters each lock of the function in the list.
#[test]
fn listed() {
    let item = quote! {
        #[distributed_lock(keys = ["account:<from>", KEY, from.key()], write)]
        #[distributed_lock(keys = of(from))]
        async fn f(from: u64) -> Result<(), LockError> { Ok(()) }
    };
    let arguments = quote!(key = "k", owner = "<from>", reentrant);
    check_tokens("listed", crate::expanded(arguments, &item, true));
    let leads = quote!(
        async fn f() -> Result<(), LockError> {
            Ok(())
        }
    );
    let leads = crate::expanded(quote!(key = "k", lead), &leads, true).to_string();
    assert!(leads.contains(r#""lead" , & [("k" , true)]"#), "{leads}");
}
