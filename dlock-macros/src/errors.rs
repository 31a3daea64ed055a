//! All errors of one use of the macro, collected so that one compile shows them all.
//!
//! It decides nothing: after an error its callers go on with what can still be checked.

use proc_macro2::Span;
use quote::ToTokens;

/// The errors so far. A stage that reads or checks adds to it and goes on with the rest.
#[derive(Debug, Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// Adds an error that underlines all of `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds an error that underlines `span`.
    pub(crate) fn at_span(&mut self, span: Span, message: impl std::fmt::Display) {
        self.push(syn::Error::new(span, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The value if there was no error, else all errors.
    pub(crate) fn into_result<T>(self, value: Option<T>) -> Result<T, syn::Error> {
        match (self.0, value) {
            (None, Some(value)) => Ok(value),
            (Some(errors), _) => Err(errors),
            // A rule that refuses always reports; should one not, the user still gets an error.
            (None, None) => Err(syn::Error::new(
                Span::call_site(),
                "dlock refused this use without saying why: please report it",
            )),
        }
    }
}
