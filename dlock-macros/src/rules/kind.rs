//! The rules of a lock's kind: `dlock-grammar` checks which words go together; this file reads the
//! kind and the keys.

use super::{Scope, key::is_constant_path};
use crate::{
    args::{self, Args, Keys, TextOrExpr},
    model::{Count, Key, Kind, What},
};
use dlock_grammar::kind::{self, KindError, Word};
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::LitInt;

/// The words about the kind that were written or meant, in order.
pub(super) fn words(args: &Args) -> Vec<Word> {
    let word = |name: String| {
        Some(match name.as_str() {
            "read" => Word::Read,
            "write" => Word::Write,
            "permits" => Word::Permits(args.permits.as_ref().and_then(number)),
            "take" => Word::Take(args.take.as_ref().and_then(number)),
            "reentrant" => Word::Reentrant,
            "owner" => Word::Owner,
            "fair" => Word::Fair,
            "once_per" => Word::OncePer,
            "after_crash" => Word::AfterCrash,
            "lead" => Word::Lead,
            "keys" => Word::Keys,
            _ => return None,
        })
    };
    args.names().into_iter().filter_map(word).collect()
}

impl Scope<'_> {
    /// Compares them with each other.
    pub(super) fn check_kind(&mut self, args: &Args, words: &[Word]) {
        if let (Some(_), Some(keys)) = (args.name("key"), args.name("keys")) {
            let message = "`keys` locks all that is in its list, so it cannot stand beside `key`: put the key into the list";
            self.errors.at(keys, message);
        }
        if let Some(Keys::List(list)) = &args.keys
            && let Err(error) = kind::check_keys(list.len())
        {
            self.errors.at(args.name("keys"), error);
        }
        for error in kind::check(words) {
            if let Some(tokens) = at_fault(args, error) {
                self.errors.at(tokens, error);
            }
        }
    }

    /// The kind that the words name. After an error any kind will do.
    pub(super) fn kind(
        &mut self,
        words: &[Word],
        owner: Option<TextOrExpr>,
        (mut permits, mut take): (Option<args::CountArg>, Option<args::CountArg>),
    ) -> Kind {
        let owner = owner.and_then(|owner| match owner {
            TextOrExpr::Text(literal) => self.owner(&literal),
            TextOrExpr::Expr(_) => self.key("owner", owner),
        });
        let mut kinds = words.iter().filter_map(|word| match word {
            Word::Read => Some(Kind::Read),
            Word::Write => Some(Kind::Write),
            Word::Permits(_) => Some(Kind::Permits {
                of: permits
                    .take()
                    .map_or(Count::Known(0), |of| self.how_many(of)),
                take: take.take().map(|take| self.how_many(take)),
            }),
            Word::Reentrant => Some(Kind::Reentrant),
            Word::Lead => Some(Kind::Lead),
            _ => None,
        });
        let kind = kinds.next().unwrap_or(Kind::Exclusive);
        match (kind, owner) {
            (Kind::Reentrant, Some(owner)) => Kind::Owned(owner),
            (kind, _) => kind,
        }
    }

    fn how_many(&self, count: args::CountArg) -> Count {
        match count {
            args::CountArg::Expr(expr) => Count::Expr(Box::new(self.expr(*expr))),
            args::CountArg::Literal(literal) => Count::Known(digits(&literal)),
        }
    }

    /// What is locked.
    pub(super) fn what(&mut self, key: Option<TextOrExpr>, keys: Option<Keys>) -> Option<What> {
        let key = key.map(|key| self.key("key", key).map(What::One));
        let keys = keys.map(|keys| match keys {
            // After a wrong key the others are still checked.
            Keys::List(list) => {
                let keys: Vec<_> = list.into_iter().map(|key| self.key("keys", key)).collect();
                keys.into_iter().collect::<Option<_>>().map(What::List)
            }
            Keys::Expr(expr) => match self.key("keys", TextOrExpr::Expr(expr))? {
                Key::Constant(expr) => Some(What::ConstantList(expr)),
                Key::Expr(expr) => Some(What::ListExpr(expr)),
                Key::Template { .. } => None,
            },
        });
        key.or(keys)?
    }

    /// A template, or an expression rewritten for where it is evaluated.
    pub(super) fn key(&mut self, argument: &'static str, key: TextOrExpr) -> Option<Key> {
        match key {
            TextOrExpr::Text(literal) => self.template(&literal, argument),
            TextOrExpr::Expr(expr) => {
                if !self.template_in(expr.to_token_stream(), argument) {
                    self.no_format_in(&expr, argument);
                }
                let expr = Box::new(self.expr(*expr));
                Some(if is_constant_path(&expr) {
                    Key::Constant(expr)
                } else {
                    Key::Expr(expr)
                })
            }
        }
    }
}

/// The number, if it is known now.
fn number(count: &args::CountArg) -> Option<u32> {
    match count {
        args::CountArg::Literal(literal) => Some(digits(literal)),
        args::CountArg::Expr(_) => None,
    }
}

/// A number that does not fit is too large for any rule.
fn digits(literal: &LitInt) -> u32 {
    literal.base10_parse().unwrap_or(u32::MAX)
}

/// The number if another one would do, else the name; `None` if it was not written, only meant by
/// an unknown word that is already reported.
fn at_fault(args: &Args, error: KindError) -> Option<TokenStream> {
    let count = match error {
        KindError::NoPermits | KindError::TooManyPermits => &args.permits,
        KindError::TakeNothing | KindError::TakeTooMany | KindError::TakeOverPermits { .. } => {
            &args.take
        }
        _ => return Some(args.name(error.argument())?.to_token_stream()),
    };
    count.as_ref().map(|count| match count {
        args::CountArg::Literal(literal) => literal.to_token_stream(),
        args::CountArg::Expr(expr) => expr.to_token_stream(),
    })
}
