//! A use of the attribute in which nothing can be wrong any more: what `rules` hands to `expand`.

use crate::{
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
    /// From the top down, so the first is acquired first and is the outermost.
    pub(crate) locks: Vec<Lock>,
}

/// One attribute.
pub(crate) struct Lock {
    /// Where `dlock_runtime` is.
    pub(crate) krate: TokenStream,
    /// The function's name, which the lock is reported under.
    pub(crate) name: String,
    /// Where the attribute stands, if below another: else the expansion stands there itself.
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
    /// Whether a busy lock leaves the body out.
    pub(crate) skip: bool,
    pub(crate) on_lost: OnLost,
    pub(crate) release: Option<Release>,
    pub(crate) guard: Option<Guard>,
    pub(crate) pool: Option<Pool>,
    pub(crate) on_error: OnError,
}

/// The name that the body has its guard under.
pub(crate) struct Guard {
    /// Where `dlock_runtime` is.
    pub(crate) krate: TokenStream,
    pub(crate) name: Ident,
}

/// What is locked.
pub(crate) enum What {
    One(Key),
    List(Vec<Key>),
    /// By its capitals.
    ConstantList(Box<Expr>),
    ListExpr(Box<Expr>),
}

/// Who may hold it at the same time.
pub(crate) enum Kind {
    Exclusive,
    Read,
    Write,
    Permits {
        of: Count,
        take: Option<Count>,
    },
    Reentrant,
    /// Reentrant for all of this owner, whose name is put together as a key is.
    Owned(Key),
}

/// How many.
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
    /// By its capitals.
    Constant(Box<Expr>),
    Expr(Box<Expr>),
}

pub(crate) enum KeyPart {
    Text(String),
    /// The root is an identifier that resolves where the key is built.
    Value {
        root: Ident,
        place: Place,
        /// Of a type parameter: there the compiler's own proposal is the best, `T: Display`.
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

#[derive(Default)]
pub(crate) enum OnLost {
    #[default]
    Cancel,
    Finish,
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

/// What becomes of an error of the lock.
pub(crate) enum OnError {
    /// `FromLockError` of the return type.
    From,
    /// The error of the `Result`.
    MapErr(Expr),
    /// The whole return value.
    Output(Expr),
}
