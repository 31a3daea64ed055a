//! The names that a pattern binds.
//!
//! Purely syntactic: it can't tell a constant from a binding.

use syn::{
    Expr, Ident, Pat, PatIdent,
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
