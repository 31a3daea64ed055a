//! The item that enters a lock in the list of `dlock_runtime::sites()`.

use crate::model::{Key, Kind, Lock, What};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

impl Lock {
    // Output:
    //     submit! { site(&__DLOCK_SPEC, "exclusive", &[("item:<id>", true)]) }
    pub(super) fn listed(&self) -> TokenStream {
        let krate = &self.krate;
        let kind = match &self.kind {
            Kind::Exclusive => "exclusive",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Permits { .. } => "permits",
            Kind::Reentrant => "reentrant",
            Kind::Lead => "lead",
            Kind::Owned(_) => "owner",
        };
        let keys = match &self.what {
            What::One(one) => vec![key(one)],
            What::List(keys) => keys.iter().map(key).collect(),
            What::ConstantList(keys) | What::ListExpr(keys) => vec![source(keys)],
        };
        quote! {
            #krate::__private::submit! {
                #krate::__private::site(&__DLOCK_SPEC, #kind, &[#(#keys),*])
            }
        }
    }
}

/// Its text, and whether that is a template.
fn key(key: &Key) -> TokenStream {
    match key {
        Key::Template { text, .. } => quote!((#text, true)),
        Key::Constant(expr) | Key::Expr(expr) => source(expr),
    }
}

fn source(expr: &impl ToTokens) -> TokenStream {
    let source = expr.to_token_stream().to_string();
    quote!((#source, false))
}
