//! The rewrite. Takes a [`Model`] and returns tokens; nothing can fail here.
//!
//! One static, one key, one future, one call: the behaviour is in the runtime. Invariants: all our
//! names are `mixed_site`, so the body cannot see them; the generated code causes no warning in the
//! user's crate.

use crate::{
    lead::ForEachTerm,
    model::{
        BodyEnd, Guard, Key, KeyPart, Lock, Model, OnError, OncePer, Pool, Release, Renew, Wait,
    },
    owned,
    signature::{Form, Function, Output, OutputKind},
};
use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use std::time::Duration;
use syn::{Expr, spanned::Spanned as _, token::Brace};
use target::Call;

mod listed;
mod target;
mod terms;

// Input:
//     #[distributed_lock(key = "item:<id>", ttl = "10s")]
//     async fn f(id: u64) -> Result<u64, E> {
//         Ok(id)
//     }
//
// Output:
//     async fn f(id: u64) -> Result<u64, E> {
//         static __DLOCK_SPEC: Spec = Spec::new("module::f").ttl(10000);
//         let __key = key("item:<id>").text("item:").value(&id).finish();
//         let __body = async move {
//             if false { return <Result<u64, E> as Never>::never(); }
//             Ok(id)
//         };
//         return match run(&__DLOCK_SPEC, __key, __body).await {
//             Ok(__value) => __value,
//             Err(__error) => <Result<u64, E> as FromLockError>::from_lock_error(__error),
//         }
//     }
//
// With `are_listed`, an item between static and key enters the lock in `sites()`.
pub(crate) fn function(model: &Model, are_listed: bool) -> TokenStream {
    let Model {
        function,
        form,
        output,
        owned,
        for_each_term,
        locks,
    } = model;
    // With a `return` the function is to `clippy::implicit_return` as it wants them. The body of
    // `#[async_trait]` is no function.
    let leave = matches!(form, Form::Async).then(|| quote!(return));
    rewrite(function, form, |statements, brace| {
        // The first lock is added last: it goes around all others.
        let locks = locks.iter().rev().enumerate();
        locks.fold(statements, |inside, (depth, lock)| {
            let taken = owned::statements(owned, depth == 0);
            let body = Body {
                leave: leave.clone(),
                taken,
                seen: owned::seen_by(lock, owned),
                for_each_term,
                block: block(inside, brace),
            };
            lock.around(&body, output, are_listed)
        })
    })
}

/// A function with errors in its attribute: unlocked, with the guards that its body expects.
pub(crate) fn refused(function: &Function, form: &Form, guards: &[Guard]) -> TokenStream {
    let guards = guards.iter().map(guard);
    rewrite(
        function,
        form,
        |statements, _| quote!(#(#guards)* #statements),
    )
}

fn rewrite(
    function: &Function,
    form: &Form,
    around: impl FnOnce(TokenStream, Brace) -> TokenStream,
) -> TokenStream {
    let statements = match form {
        Form::Async => around(function.body.clone(), function.brace),
        Form::AsyncTrait(body) => {
            let (brace, statements) = body.body();
            body.fill(&around(statements, brace))
        }
    };
    let (attrs, vis, sig, inner_attrs) = (
        &function.attrs,
        &function.vis,
        &function.sig,
        &function.inner_attrs,
    );
    // With the user's braces the function counts as the user's; otherwise lints about it
    // (`missing_docs`, `dead_code`) would be silent.
    let mut body = Group::new(Delimiter::Brace, quote!(#(#inner_attrs)* #statements));
    body.set_span(function.brace.span.join());
    quote!(#(#attrs)* #vis #sig #body)
}

/// `lock_key!`: only the key.
pub(crate) fn key(krate: &TokenStream, key: &Key) -> TokenStream {
    match key {
        Key::Template { text, parts } => {
            let parts = parts.iter().map(part);
            quote!(#krate::__private::key(#text) #(#parts)* .finish())
        }
        Key::Constant(expr) => quote!(#krate::__private::constant_key(#expr)),
        Key::Expr(expr) => quote!(#krate::__private::into_key(#expr)),
    }
}

fn part(part: &KeyPart) -> TokenStream {
    match part {
        KeyPart::Text(text) => quote!(.text(#text)),
        KeyPart::Value {
            root,
            place,
            generic,
            span,
        } => {
            let value = borrow(&place.tokens(root, *span), *span);
            let span = Span::mixed_site().located_at(*span);
            match generic {
                true => quote_spanned!(span=> .generic(#value)),
                false => quote_spanned!(span=> .value(#value)),
            }
        }
    }
}

/// What a lock goes around.
struct Body<'a> {
    /// `return`, if the call's value is the function's.
    leave: Option<TokenStream>,
    /// The statements by which it owns its parameters.
    taken: TokenStream,
    /// Those by which the lock's key sees parameters that only the body binds.
    seen: TokenStream,
    /// Those that each term gets a clone of.
    for_each_term: &'a [ForEachTerm],
    block: TokenStream,
}

impl Lock {
    // Input:
    //     user's statements
    //
    // Output:
    //     static __DLOCK_SPEC: Spec = …;
    //     let __key = …;
    //     let __body = async move { parameters; edge; guard; user's statements };
    //     match run(&__DLOCK_SPEC, __key, __body).await { … }
    fn around(&self, inside: &Body<'_>, output: &Output, is_listed: bool) -> TokenStream {
        let krate = &self.krate;
        let [body, value, error] = ["body", "value", "error"].map(ours);
        let spec = self.spec();
        let edge = edge(krate, output);
        let guard = self.guard.as_ref().map(guard);
        let Body {
            leave,
            taken,
            seen,
            for_each_term,
            block,
        } = inside;
        let Call { bind, run } = self.call(seen);
        let skip = self.skip(&error, output);
        let on_error = self.on_error(&error, output);
        let listed = is_listed.then(|| self.listed());
        let block = quote!(async move { #taken #edge #guard #block });
        let (made, ran) = if self.leads() {
            let ended = ours("ended");
            (
                self.terms(&run, &block, for_each_term, output),
                quote!(#ended),
            )
        } else {
            let failure = self.failure(output);
            (
                quote!(let #body = #block;),
                quote!(#krate::__private::#run #failure .await),
            )
        };
        // The items come first: clippy warns about an item after statements.
        quote! {
            static __DLOCK_SPEC: #krate::__private::Spec = #spec;
            #listed
            #bind
            #made
            #leave match #ran {
                ::core::result::Result::Ok(#value) => #value,
                #skip
                ::core::result::Result::Err(#error) => #on_error,
            }
        }
    }

    /// Only the arguments that were written: the pool has the defaults.
    fn spec(&self) -> TokenStream {
        let krate = &self.krate;
        let wait = self.wait.as_ref().map(|wait| match wait {
            Wait::Once => quote!(.wait_once()),
            Wait::Forever => quote!(.wait_forever()),
            Wait::For(time) => millis("wait", *time),
        });
        let renew = self.renew.as_ref().map(|renew| match renew {
            Renew::Default => quote!(.renew()),
            Renew::Every(every) => millis("renew_every", *every),
        });
        let release = self.release.as_ref().map(|release| match release {
            Release::Confirmed => quote!(.release_confirmed()),
            Release::Background => quote!(.release_background()),
            Release::Strict => quote!(.release_strict()),
        });
        let body_end = match (self.on_lost, self.on_shutdown) {
            (BodyEnd::Finish, _) => Some(quote!(.finish_when_lost())),
            (BodyEnd::Cancel, BodyEnd::Finish) => Some(quote!(.finish_at_shutdown())),
            (BodyEnd::Cancel, BodyEnd::Cancel) => None,
        };
        let pool = match &self.pool {
            Some(Pool::Named(name)) => Some(quote!(.pool(#name))),
            _ => None,
        };
        // With the user's span, the compiler takes this call's line; all tokens with our span have
        // the line of the topmost attribute.
        let here = self.below.map(|span| quote_spanned!(span=> .here()));
        let written = [
            here,
            self.ttl.map(|ttl| millis("ttl", ttl)),
            wait,
            renew,
            self.max_hold.map(|time| millis("max_hold", time)),
            self.max_renewals.map(max_renewals),
            self.min_hold.map(|time| millis("min_hold", time)),
            self.once_per.as_ref().map(once_per),
            Some(self.kind()),
            release,
            body_end,
            pool,
        ];
        let (name, written) = (&self.name, written.iter().flatten());
        quote! {
            #krate::__private::Spec::new(::core::concat!(::core::module_path!(), "::", #name)).inside(|| ()) #(#written)*
        }
    }

    /// The match arm for a busy lock, or a job that is not due, that may be skipped.
    fn skip(&self, error: &Ident, output: &Output) -> Option<TokenStream> {
        let (krate, ty) = (&self.krate, &output.ty);
        let skipped = quote_spanned!(output.span=> <#ty as #krate::__private::Skipped>::skipped());
        self.skip.then(|| {
            quote! {
                ::core::result::Result::Err(#error) if #krate::__private::is_skipped(&#error) => {
                    #krate::__private::tell_skipped(&#error);
                    #skipped
                }
            }
        })
    }

    /// How the error in a value is told, if a loss takes its place, or if a run must be recorded unless
    /// it failed. Here its type is known; `Option` may be a user's alias of `Result`.
    fn failure(&self, output: &Output) -> Option<TokenStream> {
        let may_fail = match output.kind {
            OutputKind::Other => true,
            OutputKind::Option => self.once_per.is_some(),
            OutputKind::Unit | OutputKind::Never => false,
        };
        may_fail.then(|| {
            let returned = returned(&self.krate);
            quote!(.failing_with(#returned))
        })
    }

    fn on_error(&self, error: &Ident, output: &Output) -> TokenStream {
        let krate = &self.krate;
        match &self.on_error {
            OnError::From => {
                let ty = &output.ty;
                quote_spanned!(output.span=> <#ty as #krate::__private::FromLockError>::from_lock_error(#error))
            }
            OnError::MapErr(function) => {
                let ty = &output.ty;
                quote_spanned!(output.span=> #krate::__private::map_err::<#ty, _>(#error, #function))
            }
            OnError::Output(function) => call(function, error),
        }
    }
}

/// `let lock: &LockGuard = …;`, with the name that the user chose.
fn guard(Guard { krate, name }: &Guard) -> TokenStream {
    // Errors of the body's use of its guard are shown at that name.
    let span = Span::mixed_site().located_at(name.span());
    let held = ours_at("held", span);
    quote_spanned! {span=>
        let #held = #krate::__private::held();
        let #name: &#krate::LockGuard = &#held;
    }
}

/// `function(error)`, through a call that tells a closure the type of its argument first: called
/// directly, `|error| error.key()` could not be inferred. A function that returns another type is
/// reported at the function.
fn call(function: &Expr, error: &Ident) -> TokenStream {
    let span = Span::mixed_site().located_at(function.span());
    quote_spanned!(span=> ::core::result::Result::unwrap_or_else(::core::result::Result::Err(#error), #function))
}

/// A `return` that is never reached: it tells the compiler the type of the block, so that `?`,
/// `Ok(Box::new(…))` as a trait object and the like work in it as in a function (the idea is from
/// tracing-attributes). It needs no `allow`, which a crate may have forbidden. An error that the
/// compiler derives from it is shown at the return type.
fn edge(krate: &TokenStream, output: &Output) -> TokenStream {
    let (ty, span) = (&output.ty, Span::mixed_site().located_at(output.span));
    quote_spanned!(span=> if false { return <#ty as #krate::__private::Never>::never(); })
}

fn returned(krate: &TokenStream) -> TokenStream {
    let value = ours("value");
    quote!(|#value| #krate::__private::returned(#value).__dlock_error())
}

/// With the braces of the user's body, an error about its tail points there, and the temporaries of
/// the tail are dropped by the rules of the user's edition. Around a single expression they look
/// like unnecessary braces of the user's, which is a warning: hence the `allow`.
fn block(statements: TokenStream, brace: Brace) -> TokenStream {
    let mut block = Group::new(Delimiter::Brace, statements);
    block.set_span(brace.span.join());
    quote!(#[allow(unused_braces)] #block)
}

/// A variable of ours. Hygiene hides it from the user's variables, but a constant or a unit struct
/// of the same name in the user's module would be taken for a pattern: hence the underscores. The
/// span is a `mixed_site` one.
fn ours_at(name: &str, span: Span) -> Ident {
    Ident::new(&format!("__{name}"), span)
}

fn ours(name: &str) -> Ident {
    ours_at(name, Span::mixed_site())
}

/// `.name(number of milliseconds)`
fn millis(name: &str, time: Duration) -> TokenStream {
    // `duration::parse` has read every duration, and counts in `u64` milliseconds.
    let millis = Literal::u64_unsuffixed(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let name = Ident::new(name, Span::call_site());
    quote!(.#name(#millis))
}

fn once_per(
    OncePer {
        period,
        skips_after_crash,
    }: &OncePer,
) -> TokenStream {
    let period = millis("once_per", *period);
    let after_crash = skips_after_crash.then(|| quote!(.skip_after_crash()));
    quote!(#period #after_crash)
}

fn max_renewals(number: u32) -> TokenStream {
    let number = Literal::u32_unsuffixed(number);
    quote!(.max_renewals(#number))
}

/// `&expr`: errors about it are shown at `span`, but lints do not take the `&` for the user's.
fn borrow(expr: &TokenStream, span: Span) -> TokenStream {
    let span = Span::mixed_site().located_at(span);
    quote_spanned!(span=> &#expr)
}

/// An expression to put `&` in front of; in parentheses only if needed, else they cause a warning.
fn operand(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Path(_)
        | Expr::Field(_)
        | Expr::MethodCall(_)
        | Expr::Call(_)
        | Expr::Macro(_)
        | Expr::Index(_)
        | Expr::Reference(_) => {
            quote!(#expr)
        }
        _ => quote!((#expr)),
    }
}
