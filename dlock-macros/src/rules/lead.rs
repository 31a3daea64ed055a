//! The rules of `lead`: the arguments and functions that it can't stand beside. What it says about the
//! kind is checked with the other kinds.

use super::Scope;
use crate::{
    args::{Args, RenewArg},
    errors::Errors,
    model::{Kind, Lock},
    signature::Function,
};
use quote::ToTokens as _;
use syn::{FnArg, Path, ReceiverKind, Type};

/// The arguments that say something else than `lead`, each with the reason.
const REFUSED: [(&str, &str); 4] = [
    ("wait", "a candidate waits until it leads"),
    (
        "on_busy",
        "a candidate waits until it leads, so the lock is never busy",
    ),
    (
        "on_lost",
        "a body whose term is lost is stopped, and the next term is campaigned for",
    ),
    (
        "min_hold",
        "the next candidate leads as soon as one resigns",
    ),
];

impl Lock {
    pub(crate) fn leads(&self) -> bool {
        matches!(self.kind, Kind::Lead)
    }
}

impl Scope<'_> {
    /// Reports what can't stand beside `lead`, and leaves it out: other rules about it would be noise.
    pub(super) fn lead(&mut self, args: &mut Args) {
        for (name, why) in REFUSED {
            if let Some(written) = args.name(name) {
                let message = format!("with `lead` {why}: remove `{name}`");
                self.errors.at(written, message);
            }
        }
        (args.wait, args.on_busy, args.on_lost, args.min_hold) = (None, None, None, None);
        if let (Some(RenewArg::Switch(false)), Some(renew)) = (&args.renew, args.name("renew")) {
            let message = "with `lead` the lease is renewed: remove `renew = false`";
            self.errors.at(renew, message);
            args.renew = None;
        }
        args.renew.get_or_insert(RenewArg::Switch(true));
    }
}

/// Whether one of these attributes says `lead`.
pub(super) fn is_asked_for(uses: &[(Option<Path>, Args)]) -> bool {
    uses.iter().any(|(_, args)| args.name("lead").is_some())
}

/// Checks a function with `lead`, and its other locks.
pub(super) fn check(function: &Function, uses: &[(Option<Path>, Args)], errors: &mut Errors) {
    if !is_asked_for(uses) {
        return;
    }
    if let [_, rest @ ..] = uses {
        for (path, _) in rest {
            let message = "a function with `lead` has no other lock: put the other `#[distributed_lock]` on a function that its body calls";
            errors.at(path, message);
        }
    }
    for argument in &function.sig.inputs {
        let (is_mutable, instead) = match argument {
            FnArg::Receiver(it) => match &it.kind {
                ReceiverKind::Reference(_, _, mutability) => (mutability.is_some(), "`&self`"),
                ReceiverKind::Typed(_, ty) => (is_mutable(ty), "`&self`"),
                _ => (false, ""),
            },
            FnArg::Typed(it) => (is_mutable(&it.ty), "`&`, or an `Arc`"),
        };
        if is_mutable {
            let message = format!(
                "with `lead` each term has its own clone of each argument, and a `&mut` has none: write {instead}, with a `Mutex` for what changes"
            );
            errors.at(argument.to_token_stream(), message);
        }
    }
}

fn is_mutable(ty: &Type) -> bool {
    match ty {
        Type::Reference(it) => it.mutability.is_some(),
        Type::Paren(it) => is_mutable(&it.elem),
        Type::Group(it) => is_mutable(&it.elem),
        _ => false,
    }
}
