//! What several attributes on one function, and a function that is `main`, must fulfil.

use crate::{
    args::{Args, TextOrExpr},
    errors::Errors,
    signature::{Function, ON_MAIN},
};
use quote::ToTokens as _;
use std::collections::HashSet;
use syn::Path;

/// Checks the uses of one function, from the top down; the path is that of a stacked one.
pub(super) fn check(function: &Function, uses: &[(Option<Path>, Args)], errors: &mut Errors) {
    // A pool that is an expression may come from elsewhere than `init`.
    let own_pool = |args: &Args| matches!(args.pool, Some(TextOrExpr::Expr(_)));
    if let Some(main) = function.main()
        && !uses.iter().all(|(_, args)| own_pool(args))
    {
        errors.at(main, ON_MAIN);
    }
    let mut locked = HashSet::new();
    for (_, args) in uses {
        let Some(TextOrExpr::Text(key)) = &args.key else {
            continue;
        };
        let pool = args.pool.as_ref().map(|pool| match pool {
            TextOrExpr::Text(name) => name.token().to_string(),
            TextOrExpr::Expr(expr) => expr.to_token_stream().to_string(),
        });
        // The same template of the same pool is the same lock in every call: `WouldDeadlock`, always.
        if !locked.insert((key.value(), pool)) {
            let message = "this function locks the same key already and would wait for itself: remove one of the two";
            errors.at(key, message);
        }
    }
}
