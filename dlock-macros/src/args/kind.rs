//! Reads the arguments for the kind of a lock, and the list of several keys.
//!
//! Which kinds go together is checked in `rules::kind`.

use super::{
    Args, CountArg, Keys, TextOrExpr,
    names::is_bare,
    refuse,
    shape::{Shape, inner},
};
use crate::errors::Errors;
use syn::{Expr, ExprArray, UnOp};

impl Args {
    /// Stores a value if it has the form that the argument takes; `false` if an error was reported.
    pub(super) fn store_kind(&mut self, name: &str, value: Shape, errors: &mut Errors) -> bool {
        match (name, value) {
            // Like `renew = true`: a `macro_rules!` passes in a value.
            (word, Shape::Bool(on, _)) if is_bare(word) => {
                if !on {
                    self.seen.retain(|seen| seen != word);
                }
            }
            ("permits", value) => match count(value) {
                Ok(count) => self.permits = Some(count),
                Err(other) => return refuse(name, *other, errors),
            },
            ("take", value) => match count(value) {
                Ok(count) => self.take = Some(count),
                Err(other) => return refuse(name, *other, errors),
            },
            ("owner", Shape::Text(text)) => self.owner = Some(TextOrExpr::Text(text)),
            ("owner", Shape::Path(path)) => {
                let expr = Box::new(Shape::Path(path).into_expr());
                self.owner = Some(TextOrExpr::Expr(expr));
            }
            ("owner", Shape::Other(expr)) => self.owner = Some(TextOrExpr::Expr(Box::new(expr))),
            ("keys", Shape::List(list)) => {
                let all = list.elems.len();
                let keys = list_of_keys(list, errors);
                let well = keys.len() == all;
                // An empty rest is not an empty list: its errors were reported already.
                self.keys = (well || !keys.is_empty()).then_some(Keys::List(keys));
                return well;
            }
            ("keys", value @ (Shape::Path(_) | Shape::Other(_))) => {
                self.keys = Some(Keys::Expr(Box::new(value.into_expr())));
            }
            (_, other) => return refuse(name, other, errors),
        }
        true
    }
}

/// A number, or an expression that may give one; else the value unchanged.
fn count(value: Shape) -> Result<CountArg, Box<Shape>> {
    match value {
        Shape::Number(number) => Ok(CountArg::Literal(number)),
        Shape::Other(
            Expr::Unary(syn::ExprUnary {
                op: UnOp::Neg(_), ..
            })
            | Expr::Closure(_)
            | Expr::Tuple(_),
        ) => Err(Box::new(value)),
        Shape::Path(_) | Shape::Other(_) => Ok(CountArg::Expr(Box::new(value.into_expr()))),
        other => Err(Box::new(other)),
    }
}

/// The keys that can be read; the others are reported.
fn list_of_keys(list: ExprArray, errors: &mut Errors) -> Vec<TextOrExpr> {
    let key = |key| match Shape::of(key) {
        Shape::Text(text) => Some(TextOrExpr::Text(text)),
        value @ (Shape::Number(_) | Shape::Bool(..) | Shape::Literal(_)) => {
            let value = value.into_expr();
            errors.at(
                &value,
                format!("a key is text: write `{:?}`", inner(&value)),
            );
            None
        }
        other => Some(TextOrExpr::Expr(Box::new(other.into_expr()))),
    };
    list.elems.into_iter().filter_map(key).collect()
}
