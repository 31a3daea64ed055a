//! A valid use of the attribute: `rules` builds it, `expand` rewrites it.
//!
//! Data only. Invariant: nothing in a [`Model`] can be wrong, so `expand` returns no errors.

use crate::{
    lead::ForEachTerm,
    owned::Owned,
    signature::{Form, Function, Output},
    template::Place,
};
use proc_macro2::{Span, TokenStream};
use std::time::Duration;
use syn::{Expr, Ident, LitStr};

/// A function and its locks.
pub(crate) struct Model {
    pub(crate) function: Function,
    pub(crate) form: Form,
    pub(crate) output: Output,
    /// In the order of the signature.
    pub(crate) owned: Vec<Owned>,
    /// With `lead`, which stands alone: what each term gets a clone of, in that order.
    pub(crate) for_each_term: Vec<ForEachTerm>,
    /// From the top down: the first one is acquired first and is the outermost.
    pub(crate) locks: Vec<Lock>,
}

/// One attribute.
pub(crate) struct Lock {
    /// The path of `dlock_runtime`.
    pub(crate) krate: TokenStream,
    /// The function's name, under which the lock is reported.
    pub(crate) name: String,
    /// The span of the attribute, if it stands below another one; the expansion of the topmost one
    /// has its own.
    pub(crate) below: Option<Span>,
    pub(crate) what: What,
    pub(crate) kind: Kind,
    pub(crate) fair: bool,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Wait>,
    pub(crate) renew: Option<Renew>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) max_renewals: Option<u32>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) once_per: Option<OncePer>,
    /// Whether the body is skipped if the lock is busy, or its job not due.
    pub(crate) skip: bool,
    pub(crate) on_lost: BodyEnd,
    pub(crate) on_shutdown: BodyEnd,
    pub(crate) release: Option<Release>,
    pub(crate) guard: Option<Guard>,
    pub(crate) pool: Option<Pool>,
    pub(crate) on_error: OnError,
}

/// The variable through which the body uses its guard.
pub(crate) struct Guard {
    /// The path of `dlock_runtime`.
    pub(crate) krate: TokenStream,
    pub(crate) name: Ident,
}

/// What is locked.
pub(crate) enum What {
    One(Key),
    List(Vec<Key>),
    /// A constant, recognized by its capitals.
    ConstantList(Box<Expr>),
    ListExpr(Box<Expr>),
}

/// Who may hold the lock at the same time.
pub(crate) enum Kind {
    Exclusive,
    Read,
    Write,
    Permits {
        of: Count,
        take: Option<Count>,
    },
    Reentrant,
    /// Exclusive, and asked for again after each term.
    Lead,
    /// Reentrant for everything with this owner, whose name is built like a key.
    Owned(Key),
}

/// A number of permits.
pub(crate) enum Count {
    Known(u32),
    /// Known, and checked, when the function is called.
    Expr(Box<Expr>),
}

pub(crate) enum Key {
    Template {
        /// As written: it names the class of the lock.
        text: String,
        parts: Vec<KeyPart>,
    },
    /// A constant, recognized by its capitals.
    Constant(Box<Expr>),
    Expr(Box<Expr>),
}

pub(crate) enum KeyPart {
    Text(String),
    /// The root is an identifier that resolves where the key is built.
    Value {
        root: Ident,
        place: Place,
        /// Whether the type is a type parameter: then the compiler's own proposal is the best,
        /// `T: Display`.
        generic: bool,
        span: Span,
    },
}

pub(crate) enum Wait {
    Once,
    For(Duration),
    Forever,
}

pub(crate) enum Renew {
    Default,
    Every(Duration),
}

/// What becomes of a body that has lost its lease, or that outlasts a shutdown's grace.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    #[default]
    Cancel,
    Finish,
}

/// How often a job may run.
pub(crate) struct OncePer {
    pub(crate) period: Duration,
    /// Whether a run that crashed counts.
    pub(crate) skips_after_crash: bool,
}

pub(crate) enum Release {
    Confirmed,
    Background,
    Strict,
}

pub(crate) enum Pool {
    Named(LitStr),
    Expr(Box<Expr>),
}

/// What an error of the lock turns into.
pub(crate) enum OnError {
    /// The return type's `FromLockError`.
    From,
    /// The function gives the error of the `Result`.
    MapErr(Expr),
    /// The function gives the whole return value.
    Output(Expr),
}
