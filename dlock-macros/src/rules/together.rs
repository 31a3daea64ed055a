//! The rules for several attributes on one function, and for a function that is `main`.
//!
//! The arguments of each single attribute are checked in `super`.

use crate::{
    args::{Args, Keys, TextOrExpr},
    errors::Errors,
    signature::{Function, ON_MAIN},
};
use quote::ToTokens as _;
use std::collections::HashSet;
use syn::{LitStr, Path};

/// Checks the uses of one function, from the top down; a stacked one comes with its path.
pub(super) fn check(function: &Function, uses: &[(Option<Path>, Args)], errors: &mut Errors) {
    // A pool that is an expression may come from elsewhere than `init`.
    let own_pool = |args: &Args| matches!(args.pool, Some(TextOrExpr::Expr(_)));
    if let Some(main) = function.main()
        && !uses.iter().all(|(_, args)| own_pool(args))
    {
        errors.at(main, ON_MAIN);
    }
    refuse_skips_of_a_run(uses, errors);
    let mut locked = HashSet::new();
    for (_, args) in uses {
        let pool = args.pool.as_ref().map(|pool| match pool {
            TextOrExpr::Text(name) => name.token().to_string(),
            TextOrExpr::Expr(expr) => expr.to_token_stream().to_string(),
        });
        let mut listed = HashSet::new();
        for key in templates(args) {
            let lock = (key.value(), pool.clone());
            // The same template of the same pool is the same lock in every call: always
            // `WouldDeadlock`, unless the lock is of a kind that may be taken again. Whether the
            // held lock is of that kind is known at run time.
            let again = ["read", "reentrant"].iter().any(|word| args.meant(word));
            if !listed.insert(lock.clone()) {
                let message = "this key stands in the list already: remove one of the two";
                errors.at(key, message);
            } else if !locked.insert(lock) && !again {
                let message = "this function locks the same key already and would wait for itself: remove one of the two";
                errors.at(key, message);
            }
        }
    }
}

/// Refuses to skip a body inside a run that is once per period: the run would be recorded, and nothing
/// was done.
fn refuse_skips_of_a_run(uses: &[(Option<Path>, Args)], errors: &mut Errors) {
    let inside = uses
        .iter()
        .skip_while(|(_, args)| args.name("once_per").is_none());
    for (_, args) in inside.skip(1) {
        if let Some(skip) = args.on_busy.as_ref().filter(|it| it.value() == "skip") {
            let message = "a body that this lock skips would count as a run for the lock with `once_per` above: put that one below, or write `on_busy = \"error\"`";
            errors.at(skip, message);
        }
    }
}

/// The keys of one use that are templates.
fn templates(args: &Args) -> impl Iterator<Item = &LitStr> {
    let list = match &args.keys {
        Some(Keys::List(list)) => list.as_slice(),
        _ => &[],
    };
    let keys = args.key.iter().chain(list);
    keys.filter_map(|key| match key {
        TextOrExpr::Text(key) => Some(key),
        TextOrExpr::Expr(_) => None,
    })
}

/// Refuses uses below one that did not see them, because they have another name or stand in a
/// `cfg_attr`: expanded one after the other, the upper lock would be the inner one.
pub(super) fn refuse_below(uses: &[(Option<Path>, Args)], errors: &mut Errors) {
    let message = "this lock stands below another and would yet be taken first: write both as `#[distributed_lock(…)]`, and put a \
                   `cfg_attr` with one in it above them";
    for (_, args) in uses {
        match &args.key {
            Some(TextOrExpr::Text(key)) => errors.at(key, message),
            Some(TextOrExpr::Expr(key)) => errors.at(key, message),
            None => {
                if let Some(keys) = args.name("keys") {
                    errors.at(keys, message);
                }
            }
        }
    }
}
