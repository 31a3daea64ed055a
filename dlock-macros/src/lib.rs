//! x

mod args;
mod async_trait;
mod errors;
mod expand;
mod model;
mod rules;
mod signature;
mod template;

use proc_macro::TokenStream;
use quote::quote;

#[proc_macro_attribute]
pub fn distributed_lock(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute(arguments.into(), item.into()).into()
}

#[doc(hidden)]
#[proc_macro]
pub fn lock_key_impl(input: TokenStream) -> TokenStream {
    lock_key(input.into()).into()
}

/// The attribute on any tokens, so that tests can call it.
fn attribute(
    arguments: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    match rules::model(arguments, item.clone()) {
        Ok(model) => expand::function(&model),
        Err(errors) => {
            let errors = errors.to_compile_error();
            quote!(#errors #item)
        }
    }
}

fn lock_key(input: proc_macro2::TokenStream) -> proc_macro2::TokenStream {
    match rules::lock_key(input) {
        Ok((krate, key)) => expand::key(&krate, &key),
        Err(errors) => {
            let errors = errors.to_compile_error();
            quote!({ #errors })
        }
    }
}
