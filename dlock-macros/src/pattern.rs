//! The patterns of arguments: what they bind, what they ignore, and how to look without moving.
//!
//! Purely syntactic: it can't tell a constant from a binding.

use proc_macro2::Span;
use syn::{
    Expr, FieldPat, Ident, Pat, PatIdent, PatWild, Token,
    visit_mut::{self, VisitMut},
};

/// Adds the names that a pattern binds. A constant in a pattern looks the same and does no harm.
pub(crate) fn bound_names(pat: &Pat, names: &mut Vec<Ident>) {
    struct Names<'a>(&'a mut Vec<Ident>);
    impl VisitMut for Names<'_> {
        fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
            self.0.push(pat.ident.clone());
            visit_mut::visit_pat_ident_mut(self, pat);
        }
        // A closure or block inside a pattern's constant binds nothing outside of it.
        fn visit_expr_mut(&mut self, _: &mut Expr) {}
    }
    Names(names).visit_pat_mut(&mut pat.clone());
}

/// Whether it leaves a part of what it matches where that is: it ignores it, or refers to it.
pub(crate) fn ignores_parts(pat: &Pat) -> bool {
    struct Ignored(bool);
    impl VisitMut for Ignored {
        fn visit_pat_mut(&mut self, pat: &mut Pat) {
            match pat {
                Pat::Wild(_) | Pat::Rest(_) => self.0 = true,
                Pat::Ident(it) => self.0 |= it.by_ref.is_some(),
                // Nothing behind a reference is owned.
                Pat::Reference(_) => {}
                other => {
                    self.0 |= matches!(other, Pat::Struct(it) if it.rest.is_some());
                    visit_mut::visit_pat_mut(self, other);
                }
            }
        }
    }
    let mut ignored = Ignored(false);
    ignored.visit_pat_mut(&mut pat.clone());
    ignored.0
}

/// The pattern for a reference to what it matches, with the names that are `wanted` only; `None` if
/// there is none in every edition.
pub(crate) fn borrowed(pat: &Pat, wanted: impl Fn(&Ident) -> bool) -> Option<Pat> {
    struct Borrowed<W> {
        wanted: W,
        is_possible: bool,
    }
    impl<W: Fn(&Ident) -> bool> VisitMut for Borrowed<W> {
        fn visit_pat_mut(&mut self, pat: &mut Pat) {
            visit_mut::visit_pat_mut(self, pat);
            let left = match pat {
                Pat::Ident(it) if (self.wanted)(&it.ident) => {
                    (it.by_ref, it.mutability) = (None, None);
                    return;
                }
                Pat::Ident(it) => it.subpat.take().map(|(_, pat)| *pat),
                Pat::Reference(it) => {
                    let mut names = Vec::new();
                    bound_names(&it.pat, &mut names);
                    self.is_possible &= names.is_empty();
                    None
                }
                _ => return,
            };
            *pat = left.unwrap_or_else(wild);
        }
        fn visit_field_pat_mut(&mut self, field: &mut FieldPat) {
            visit_mut::visit_field_pat_mut(self, field);
            if matches!(*field.pat, Pat::Wild(_)) {
                field
                    .colon_token
                    .get_or_insert(Token![:](Span::mixed_site()));
            }
        }
        fn visit_expr_mut(&mut self, _: &mut Expr) {}
    }
    let mut pat = pat.clone();
    let mut borrowed = Borrowed {
        wanted,
        is_possible: true,
    };
    borrowed.visit_pat_mut(&mut pat);
    borrowed.is_possible.then_some(pat)
}

fn wild() -> Pat {
    Pat::Wild(PatWild {
        attrs: Vec::new(),
        underscore_token: Token![_](Span::mixed_site()),
    })
}
