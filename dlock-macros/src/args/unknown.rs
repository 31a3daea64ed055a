//! An unknown argument: what was probably meant, and what to write instead.
//!
//! It only makes the message; `super` reports it and skips the argument.

use super::{
    names::{ARGUMENTS, elsewhere},
    shape::{Shape, echo, example},
};
use dlock_grammar::spelling::nearest;
use syn::Expr;

/// The error about an unknown argument.
pub(super) struct Unknown {
    /// The arguments that were probably meant.
    pub(super) near: Vec<&'static str>,
    pub(super) message: String,
}

/// Words for an exclusive lock, which needs none.
const EXCLUSIVE: [&str; 3] = ["exclusive", "exclusivelock", "mutex"];

/// Arguments that name a kind, and `fair`, which goes with one.
const KINDS: [&str; 6] = ["read", "write", "permits", "reentrant", "fair", "lead"];

/// The error for a name that is not in [`ARGUMENTS`], with its value if there is one that can be
/// read.
pub(super) fn unknown(text: &str, value: Option<Expr>) -> Unknown {
    let plain = plain(text);
    let (near, what) = match plain.as_str() {
        "timeout" => (
            vec!["wait", "ttl"],
            ": write `wait = \"3s\"` for how long to wait, `ttl = \"10s\"` for how long to hold".to_owned(),
        ),
        "namespace" | "prefix" | "keyprefix" => pools(".namespace(\"shop:\")"),
        "token" | "fence" | "fencing" | "fencingtoken" => (
            vec!["guard"],
            ": the token is the guard's, so write `guard = lock`, and `lock.fence()` in the body".to_owned(),
        ),
        "retry" | "retries" | "retrycount" | "retrydelay" | "retryinterval" | "interval" | "pollinterval" => (
            Vec::new(),
            ": nobody tries again at intervals, for a waiter is told when it is its turn; how long it waits is `wait = \"3s\"`".to_owned(),
        ),
        "cron" | "schedule" | "scheduled" | "every" => (
            vec!["once_per"],
            ": dlock starts nothing, so let a timer call the function, and write `once_per = \"20h\"` for one run a day".to_owned(),
        ),
        "lockorder" => pools(".lock_order(LockOrder::Refuse)"),
        "kind" | "mode" | "type" | "locktype" | "lockmode" | "lockkind" => kind(value),
        "upgrade" | "upgradable" | "upgradeable" => (
            Vec::new(),
            ", for a reader can't become the writer: write `write` from the start, or let the reader end before a writer begins".to_owned(),
        ),
        word if EXCLUSIVE.contains(&word) => exclusive(),
        _ => other(text, &plain, value),
    };
    let message = format!("unknown argument `{text}`{what}");
    Unknown { near, message }
}

/// The arguments that were meant, and the rest of the message.
type Meant = (Vec<&'static str>, String);

/// A setting of the pool.
fn pools(call: &str) -> Meant {
    let what = format!(", which is the pool's: write `Config::new(…){call}`, once in `main`");
    (Vec::new(), what)
}

fn exclusive() -> Meant {
    let what = ": a lock is exclusive unless it says another kind, so leave this out";
    (Vec::new(), what.to_owned())
}

/// The kind in `kind = "read"` or `mode = LockMode::Shared`.
fn kind(value: Option<Expr>) -> Meant {
    let word = match value.map(Shape::of) {
        Some(Shape::Text(text)) => plain(&text.value()),
        Some(Shape::Path(path)) => path
            .segments
            .last()
            .map(|last| plain(&last.ident.to_string()))
            .unwrap_or_default(),
        _ => String::new(),
    };
    if EXCLUSIVE.contains(&word.as_str()) {
        return exclusive();
    }
    let ours = KINDS.into_iter().find(|kind| *kind == word);
    let ours = ours.or_else(|| elsewhere(&word).filter(|ours| KINDS.contains(ours)));
    let Some(ours) = ours else {
        let what = ": a lock is exclusive, or says `read`, `write`, `permits = 5` or `reentrant`";
        return (Vec::new(), what.to_owned());
    };
    let what = format!(
        ": a kind is an argument itself, so write `{}`",
        example(ours)
    );
    (vec![ours], what)
}

/// Another library's word, a misspelling, or neither.
fn other(text: &str, plain: &str, value: Option<Expr>) -> Meant {
    if let Some(ours) = elsewhere(plain) {
        let echo = value.and_then(|value| echo(ours, value));
        let write = echo.unwrap_or_else(|| example(ours).to_owned());
        let what = format!(", which is `{ours}` here: write `{write}`");
        return (vec![ours], what);
    }
    let spelled = ARGUMENTS
        .into_iter()
        .find(|name| name.replace('_', "") == plain);
    if let Some(near) = spelled.or_else(|| nearest(text, ARGUMENTS)) {
        return (vec![near], format!(", did you mean `{near}`?"));
    }
    let what = format!(", arguments are:\n{}", ARGUMENTS.join(", "));
    (Vec::new(), what)
}

/// Removes the spelling of other languages: `maxHold`, `TTL`, `read-lock`.
fn plain(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}
