//! The item of a use with errors: it is written back as it was, so that the errors cause no others
//! in the file.

use super::{Scope, read, take_stacked};
use crate::{
    errors::Errors,
    model::Guard,
    signature::{Form, Function},
};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Attribute,
    parse::{ParseStream, Parser as _},
};

/// The function and the guards that its body expects; `None` if it expects none. Errors are not
/// reported again.
pub(crate) fn guards(
    arguments: TokenStream,
    item: &TokenStream,
) -> Option<(Function, Form, Vec<Guard>)> {
    let mut errors = Errors::default();
    let (function, uses) = read(arguments, item, &mut errors);
    let function = function?;
    let form = function.form().ok()?;
    let scope = Scope {
        function: &function,
        form: Some(&form),
        output: None,
        errors: &mut errors,
    };
    let guards = uses.into_iter().filter_map(|(_, args)| {
        let krate = args.krate();
        let name = args.guard.filter(|guard| !scope.hides_argument(guard))?;
        Some(Guard { krate, name })
    });
    let guards: Vec<_> = guards.collect();
    (!guards.is_empty()).then_some((function, form, guards))
}

/// The item without the locks stacked below a use with errors: the errors were about all of them,
/// and the stacked ones would report theirs again.
pub(crate) fn without_stacked(item: &TokenStream) -> TokenStream {
    let parser = |input: ParseStream<'_>| {
        let mut attributes = input.call(Attribute::parse_outer)?;
        let stacked = take_stacked(&mut attributes);
        let rest: TokenStream = input.parse()?;
        Ok((!stacked.is_empty()).then(|| quote!(#(#attributes)* #rest)))
    };
    let stripped = parser.parse2(item.clone()).ok().flatten();
    stripped.unwrap_or_else(|| item.clone())
}
