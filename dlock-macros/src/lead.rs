//! The parameters of a function with `lead`: for each term the body gets a clone of those that it
//! mentions.
//!
//! The call keeps its arguments, and drops them after its last term. Invariants: only what the body may
//! change keeps the user's `mut`; what owns nothing is copied into each body.

use crate::{
    owned::{How, Owned, is_one_of, is_owned, may_own, owns},
    signature::{Form, Function, mentions},
};
use proc_macro2::TokenStream;
use syn::{
    Attribute, Expr, FnArg, Ident, Pat, PatIdent, Token,
    ext::IdentExt as _,
    visit_mut::{self, VisitMut},
};

/// A variable that each term gets a clone of.
pub(crate) struct ForEachTerm {
    /// `cfg`, and lints.
    pub(crate) attrs: Vec<Attribute>,
    /// The user's, taken from the parameter. `self`, which nothing can hide, has none: the parameter
    /// itself is set again after a term.
    pub(crate) mutability: Option<Token![mut]>,
    pub(crate) name: Ident,
    /// Whether a type parameter stands in the type: then the compiler's own proposal is the best,
    /// `T: Clone`.
    pub(crate) is_generic: bool,
}

impl ForEachTerm {
    /// The body owns it: so a clone is dropped under the lock.
    pub(crate) fn owned(&self) -> Owned {
        Owned {
            attrs: self.attrs.clone(),
            name: self.name.clone(),
            how: How::Captured,
        }
    }

    pub(crate) fn is_self(&self) -> bool {
        self.name == "self"
    }
}

/// Finds them, in the order of the signature, and takes their `mut` from where they are bound.
pub(crate) fn take(function: &mut Function, form: &mut Form) -> Vec<ForEachTerm> {
    let mut variables = match form {
        Form::AsyncTrait(method) if method.has_variables() => {
            let mut variables = Variables::of(method.body().1);
            let arguments = &function.sig.inputs;
            for local in method.variables() {
                variables.bind(&local.attrs, &mut local.pat, |name| {
                    arguments.iter().all(|it| may_own(it, name))
                });
            }
            variables
        }
        Form::AsyncTrait(method) => Variables::in_signature(function, method.body().1),
        Form::Async => Variables::in_signature(function, function.body.clone()),
    };
    for it in &mut variables.found {
        it.is_generic = function.is_of_parameter(&it.name);
    }
    variables.found
}

struct Variables {
    body: TokenStream,
    found: Vec<ForEachTerm>,
}

impl Variables {
    fn of(body: TokenStream) -> Self {
        let found = Vec::new();
        Self { body, found }
    }

    fn in_signature(function: &mut Function, body: TokenStream) -> Self {
        let mut variables = Self::of(body);
        for argument in &mut function.sig.inputs {
            match argument {
                FnArg::Receiver(it) if is_owned(it) => {
                    let name = Ident::new("self", it.self_token.span);
                    if mentions(variables.body.clone(), "self") {
                        // It is set again after each term.
                        it.mutability = Some(Token![mut](it.self_token.span));
                        variables.add(name, Vec::new(), None);
                    }
                }
                FnArg::Receiver(_) => {}
                FnArg::Typed(it) => {
                    let is_owned = owns(&it.ty);
                    variables.bind(&it.attrs, &mut it.pat, |_| is_owned);
                }
            }
        }
        variables
    }

    /// Adds what this pattern binds, if the body mentions it and it may own something.
    fn bind(&mut self, attrs: &[Attribute], pat: &mut Pat, may_own: impl Fn(&Ident) -> bool) {
        struct Bound<'a, M> {
            variables: &'a mut Variables,
            attrs: &'a [Attribute],
            may_own: M,
        }
        impl<M: Fn(&Ident) -> bool> VisitMut for Bound<'_, M> {
            fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
                let text = pat.ident.unraw().to_string();
                if (self.may_own)(&pat.ident) && mentions(self.variables.body.clone(), &text) {
                    // That of `ref mut` is not the variable's.
                    let is_own = pat.by_ref.is_none();
                    let mutability = pat.mutability.take_if(|_| is_own);
                    let lints = ["cfg", "cfg_attr", "allow", "warn", "deny", "forbid"];
                    let attrs = self.attrs.iter().filter(|it| is_one_of(it, &lints));
                    let attrs = attrs.cloned().collect();
                    self.variables.add(pat.ident.clone(), attrs, mutability);
                }
                visit_mut::visit_pat_ident_mut(self, pat);
            }
            // What stands in a constant of a pattern is not bound.
            fn visit_expr_mut(&mut self, _: &mut Expr) {}
        }
        let variables = self;
        Bound {
            variables,
            attrs,
            may_own,
        }
        .visit_pat_mut(pat);
    }

    fn add(&mut self, name: Ident, attrs: Vec<Attribute>, mutability: Option<Token![mut]>) {
        self.found.push(ForEachTerm {
            attrs,
            mutability,
            name,
            is_generic: false,
        });
    }
}
