//! The macro as a function of tokens: its output, its errors with their positions, and that it
//! never panics.

mod diagnostics;
mod expansion;
mod properties;
mod template;

use proc_macro2::TokenStream;

/// The attribute, as it is without the feature `sites`.
fn attribute(arguments: TokenStream, item: &TokenStream) -> TokenStream {
    crate::expanded(arguments, item, false)
}
