//! The loop of a function with `lead`: each turn makes a body and lends it to the runtime for a term.
//!
//! What follows a term is decided there. The loop stands here because only the function itself can make
//! its body anew, above all one that owns `self`; and a closure that lends out references is not `Send`
//! enough for a spawned task.

use super::{ours, returned};
use crate::{lead::ForEachTerm, model::Lock, signature::Output};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

impl Lock {
    // Input:
    //     lead(&__DLOCK_SPEC, __target)
    //     async move { user's statements }
    //
    // Output:
    //     let mut __lead = lead(&__DLOCK_SPEC, __target);
    //     let __ended = loop {
    //         let __kept = for_each_term(&self);
    //         let db = for_each_term(&db);
    //         let __body = async move { user's statements };
    //         let __ended = Lead::term(&mut __lead, __body, <R as TermValue>::flow, …).await;
    //         self = __kept;
    //         if let Break(__ended) = __ended {
    //             break __ended;
    //         }
    //     };
    pub(super) fn terms(
        &self,
        begin: &TokenStream,
        body: &TokenStream,
        arguments: &[ForEachTerm],
        output: &Output,
    ) -> TokenStream {
        let krate = &self.krate;
        let [lead, ended, kept, future] = ["lead", "ended", "kept", "body"].map(ours);
        let clones = arguments.iter().map(|it| {
            let (attrs, mutability, name) = (&it.attrs, &it.mutability, &it.name);
            let clone = self.clone_of(it);
            if it.is_self() {
                quote!(let #kept = #clone;)
            } else {
                quote!(#(#attrs)* let #mutability #name = #clone;)
            }
        });
        let restored = arguments.iter().filter(|it| it.is_self());
        let restored = restored.map(|ForEachTerm { name, .. }| quote!(#name = #kept;));
        let (ty, failure) = (&output.ty, returned(krate));
        let flow = quote_spanned!(output.span=> <#ty as #krate::__private::TermValue>::flow);
        quote! {
            let mut #lead = #krate::__private::#begin;
            let #ended = loop {
                #(#clones)*
                let #future = #body;
                let #ended = #krate::__private::Lead::term(&mut #lead, #future, #flow, #failure).await;
                #(#restored)*
                if let ::core::ops::ControlFlow::Break(#ended) = #ended {
                    break #ended;
                }
            };
        }
    }

    /// Errors about it are shown at the argument.
    fn clone_of(&self, argument: &ForEachTerm) -> TokenStream {
        let (krate, name) = (&self.krate, &argument.name);
        let span = Span::mixed_site().located_at(name.span());
        let clone = if argument.is_generic {
            quote_spanned!(span=> generic_for_each_term)
        } else {
            quote_spanned!(span=> for_each_term)
        };
        quote_spanned!(span=> #krate::__private::#clone(&#name))
    }
}
