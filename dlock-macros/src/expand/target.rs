//! The code that runs when the function is called, before its body takes the arguments: it makes
//! the key, the owner, the number of permits and the pool.

use super::{borrow, key, operand, ours};
use crate::model::{Count, Key, Kind, Lock, Pool, What};
use proc_macro2::{Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Expr, Ident, spanned::Spanned as _};

/// A statement, and the call that uses what it binds.
pub(super) struct Call {
    pub(super) bind: TokenStream,
    pub(super) run: TokenStream,
}

impl Lock {
    // Output, for one key and nothing else:
    //     let __key = …;
    //     run(&__DLOCK_SPEC, __key, __body)
    //
    // Output:
    //     let __target = Target::new(key).owner(&owner).permits(of).take(n).pool(pool);
    //     run_with(&__DLOCK_SPEC, __target, __body)
    //
    // `seen` are the statements that bind what the key needs from inside a parameter.
    pub(super) fn call(&self, seen: &TokenStream) -> Call {
        let krate = &self.krate;
        let [single, target, body] = ["key", "target", "body"].map(ours);
        let owner = match &self.kind {
            Kind::Owned(owner) => Some(self.owner(owner)),
            _ => None,
        };
        let permits = match &self.kind {
            Kind::Permits { of, take } => counts(of, take.as_ref(), false),
            _ => TokenStream::new(),
        };
        let pool = match &self.pool {
            Some(Pool::Expr(pool)) => Some(self.own_pool(pool)),
            _ => None,
        };
        let made = match &self.what {
            What::One(one)
                if owner.is_none() && pool.is_none() && permits.is_empty() && !self.leads() =>
            {
                let one = key(krate, one);
                return Call {
                    bind: bound(&single, seen, &one),
                    run: quote!(run(&__DLOCK_SPEC, #single, #body)),
                };
            }
            What::One(one) => {
                let one = key(krate, one);
                quote!(new(#one))
            }
            What::List(keys) => {
                let keys = keys.iter().map(|one| key(krate, one));
                quote!(all(#krate::__private::into_keys([#(#keys),*])))
            }
            What::ConstantList(keys) => quote!(all(#krate::__private::constant_keys(#keys))),
            What::ListExpr(keys) => quote!(all(#krate::__private::into_keys(#keys))),
        };
        let made = quote!(#krate::__private::Target::#made #owner #permits #pool);
        let run = if self.leads() {
            quote!(lead(&__DLOCK_SPEC, #target))
        } else {
            quote!(run_with(&__DLOCK_SPEC, #target, #body))
        };
        let bind = bound(&target, seen, &made);
        Call { bind, run }
    }

    fn owner(&self, owner: &Key) -> TokenStream {
        match owner {
            Key::Expr(expr) => {
                let span = Span::mixed_site().located_at(expr.span());
                let expr = borrow(&operand(expr), span);
                quote_spanned!(span=> .owner(#expr))
            }
            Key::Template { .. } | Key::Constant(_) => {
                let owner = key(&self.krate, owner);
                quote!(.owner(&#owner))
            }
        }
    }

    fn own_pool(&self, pool: &Expr) -> TokenStream {
        let krate = &self.krate;
        let span = Span::mixed_site().located_at(pool.span());
        let pool = borrow(&operand(pool), span);
        let clone = quote_spanned!(span=> <#krate::LockPool as ::core::clone::Clone>::clone(#pool));
        quote!(.pool(#clone))
    }

    /// The kind, as the static has it.
    pub(super) fn kind(&self) -> TokenStream {
        let kind = match &self.kind {
            Kind::Exclusive | Kind::Lead => TokenStream::new(),
            Kind::Read => quote!(.read()),
            Kind::Write => quote!(.write()),
            Kind::Permits { of, take } => counts(of, take.as_ref(), true),
            Kind::Reentrant | Kind::Owned(_) => quote!(.reentrant()),
        };
        let fair = self.fair.then(|| quote!(.fair()));
        quote!(#kind #fair)
    }
}

fn bound(name: &Ident, seen: &TokenStream, made: &TokenStream) -> TokenStream {
    if seen.is_empty() {
        quote!(let #name = #made;)
    } else {
        quote!(let #name = { #seen #made };)
    }
}

/// The numbers for the static, or those that are known only when the function is called; a `take`
/// goes with its `permits`.
fn counts(of: &Count, take: Option<&Count>, in_the_static: bool) -> TokenStream {
    let known = |count: &Count| matches!(count, Count::Known(_));
    let take_is_static = known(of) && take.is_none_or(known);
    let said = |name: &str, count: &Count| {
        let name = Ident::new(name, Span::call_site());
        match count {
            Count::Known(number) => {
                let number = Literal::u32_unsuffixed(*number);
                quote!(.#name(#number))
            }
            Count::Expr(expr) => {
                quote_spanned!(Span::mixed_site().located_at(expr.span())=> .#name(#expr))
            }
        }
    };
    let of = (known(of) == in_the_static).then(|| said("permits", of));
    let take = take
        .filter(|_| take_is_static == in_the_static)
        .map(|take| said("take", take));
    quote!(#of #take)
}
