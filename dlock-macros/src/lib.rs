//! The attribute `#[distributed_lock]` of dlock. Depend on `dlock-runtime`, which re-exports it.
//!
//! A use goes through four stages, one file or folder each; past `model` nothing can be invalid, so
//! `expand` cannot fail:
//!
//! `args` (what was written) → `rules` (every error at once) → `model` → `expand` (the rewrite)
//!
//! Beside them: `signature` (the function), `owned` and `lead` (its parameters), `async_trait` (a method that
//! `#[async_trait]` has rewritten), `template` (the key's text). `dlock-grammar` says what a duration, a lease or a key
//! may be; the runtime uses it too. Generated code uses only `dlock_runtime::__private` and the
//! public types of the runtime.

mod args;
mod async_trait;
mod errors;
mod expand;
mod lead;
mod model;
mod owned;
mod pattern;
mod rules;
mod signature;
mod template;

#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use quote::quote;

#[cfg_attr(not(doctest), doc = include_str!("attribute.md"))]
#[proc_macro_attribute]
pub fn distributed_lock(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expanded(arguments.into(), &item.into(), cfg!(feature = "sites")).into()
}

/// The macro behind `dlock_runtime::lock_key!`: turns the crate's path, a comma and a key template
/// into the expression of a `Key`.
///
/// ```text
/// let key = dlock_runtime::lock_key!("item:<id>");
/// ```
#[doc(hidden)]
#[proc_macro]
pub fn lock_key_impl(input: TokenStream) -> TokenStream {
    lock_key(input.into()).into()
}

/// Expands the attribute on `proc_macro2` tokens, so that tests can call it. `are_listed`: its
/// locks are in `sites()`.
fn expanded(
    arguments: proc_macro2::TokenStream,
    item: &proc_macro2::TokenStream,
    are_listed: bool,
) -> proc_macro2::TokenStream {
    match rules::model(arguments.clone(), item) {
        Ok(model) => expand::function(&model, are_listed),
        Err(errors) => {
            let errors = errors.to_compile_error();
            let item = match rules::guards(arguments, item) {
                Some((function, form, guards)) => expand::refused(&function, &form, &guards),
                None => rules::without_stacked(item),
            };
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
