//! The forms of an argument's value, and what to write instead of a value of the wrong form.
//!
//! It distinguishes forms by syntax alone; `rules` checks what a value means.

use super::names::{alone, is_bare};
use dlock_grammar::duration;
use quote::ToTokens;
use syn::{Expr, ExprArray, ExprLit, Ident, Lit, LitInt, LitStr, Path};

/// A value, by its form.
pub(super) enum Shape {
    Text(LitStr),
    Bool(bool, Expr),
    /// Without a suffix.
    Number(LitInt),
    Path(Path),
    List(ExprArray),
    /// A number with a suffix, bytes, a character: a literal that no argument takes.
    Literal(Expr),
    Other(Expr),
}

impl Shape {
    pub(super) fn of(value: Expr) -> Self {
        match value {
            // A value that a `macro_rules!` passed in (`key = $key`) comes in an invisible group.
            Expr::Group(group) => Self::of(*group.expr),
            Expr::Paren(paren) if matches!(*paren.expr, Expr::Lit(_)) => Self::of(*paren.expr),
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                attrs,
            }) if attrs.is_empty() => Self::Text(text),
            Expr::Lit(ExprLit {
                lit: Lit::Bool(ref on),
                ..
            }) => Self::Bool(on.value, value),
            Expr::Lit(ExprLit {
                lit: Lit::Int(number),
                attrs,
            }) if attrs.is_empty() && number.suffix().is_empty() => Self::Number(number),
            Expr::Lit(_) => Self::Literal(value),
            Expr::Path(path) if path.qself.is_none() && path.attrs.is_empty() => {
                Self::Path(path.path)
            }
            Expr::Array(list) if list.attrs.is_empty() => Self::List(list),
            other => Self::Other(other),
        }
    }

    pub(super) fn into_expr(self) -> Expr {
        match self {
            Self::Text(text) => literal(Lit::Str(text)),
            Self::Number(number) => literal(Lit::Int(number)),
            Self::Path(path) => Expr::Path(syn::ExprPath {
                attrs: Vec::new(),
                qself: None,
                path,
            }),
            Self::List(list) => Expr::Array(list),
            Self::Bool(_, value) | Self::Literal(value) | Self::Other(value) => value,
        }
    }
}

fn literal(lit: Lit) -> Expr {
    let attrs = Vec::new();
    Expr::Lit(ExprLit { attrs, lit })
}

/// What to write instead of a value of the wrong form: what was meant, if that is clear, else an
/// example.
pub(super) fn misshapen(name: &str, value: &Expr) -> String {
    let written = value.to_token_stream().to_string();
    let text = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => text.value(),
        _ => String::new(),
    };
    let is_number = written.bytes().all(|byte| byte.is_ascii_digit());
    match name {
        "key" if matches!(value, Expr::Array(_)) => {
            let keys = echo("keys", value.clone());
            let keys = keys.unwrap_or_else(|| "keys = […]".to_owned());
            format!("`key` is one key, and several are a list under `keys`: write `{keys}`")
        }
        "key" => format!("a key is text: write `key = {:?}`", inner(value)),
        "keys" if text.contains(',') => {
            let keys = text.split(',').map(str::trim).filter(|key| !key.is_empty());
            let keys: Vec<_> = keys.map(|key| format!("{key:?}")).collect();
            let keys = keys.join(", ");
            let shown = if keys.chars().count() <= LONGEST {
                keys.as_str()
            } else {
                "…"
            };
            format!(
                "several keys stand in a list, each in its own quotes: write `keys = [{shown}]`"
            )
        }
        "keys" if !text.is_empty() => {
            format!(
                "several keys stand in a list: write `keys = [{written}]`, or `key = {written}` for one"
            )
        }
        "owner" if matches!(value, Expr::Lit(_)) => {
            format!("an owner is text: write `owner = {:?}`", inner(value))
        }
        "wait" if written == "forever" => quoted(name, "a word", &written),
        "after_crash" | "on_busy" | "on_lost" | "on_shutdown" | "release"
            if words(name).contains(&written.as_str()) =>
        {
            quoted(name, "a word", &written)
        }
        "ttl" | "wait" | "renew" | "max_hold" | "min_hold" | "once_per"
            if duration::parse(&written).is_ok() =>
        {
            quoted(name, "a duration", &written)
        }
        "ttl" | "wait" | "renew" | "max_hold" | "min_hold" | "once_per" if is_number => {
            quoted(name, "a duration has a unit and", &format!("{written}s"))
        }
        "permits" | "take" if matches!(value, Expr::Unary(_)) => {
            format!("`{name}` is a number from 1: write `{}`", example(name))
        }
        "ttl" | "wait" | "max_hold" | "min_hold" | "once_per" | "max_renewals"
            if !matches!(value, Expr::Lit(_)) =>
        {
            let value = match value {
                Expr::Path(_) => written.replace(' ', ""),
                _ => "…".to_owned(),
            };
            format!(
                "`{name}` is read when compiling: write `{}`; a value that only the running program knows goes through `pool.lock(key).{name}({value})`",
                example(name)
            )
        }
        "guard" if is_variable(&text) => unquoted(name, "a name", &text),
        "guard" => "the guard needs a name: write `guard = lock`".to_owned(),
        "crate" if syn::parse_str::<Path>(&text).is_ok() => unquoted(name, "a path", &text),
        "map_err" | "on_error" if syn::parse_str::<Path>(&text).is_ok() => {
            unquoted(name, "a function", &text)
        }
        "max_renewals" | "permits" | "take" if text.parse::<u32>().is_ok() => {
            unquoted(name, "a count", &text)
        }
        "max_renewals" | "permits" | "take" if !digits(value).is_empty() => {
            format!("a count has no suffix: write `{name} = {}`", digits(value))
        }
        "reentrant" => match echo("owner", value.clone()) {
            Some(owned) => format!(
                "`reentrant` takes no value: write `{owned}` if that is the owner's name, else `reentrant` alone"
            ),
            None => alone(name),
        },
        _ if is_bare(name) => alone(name),
        _ => format!("write `{}`", example(name)),
    }
}

/// A value from another argument, written for the one that was meant; `None` if it does not fit
/// there or is too long.
pub(super) fn echo(name: &str, value: Expr) -> Option<String> {
    let written = match (name, Shape::of(value)) {
        ("key" | "owner", Shape::Text(text)) => text.token().to_string(),
        ("ttl" | "wait" | "renew" | "max_hold" | "min_hold" | "once_per", Shape::Text(text)) => {
            duration::parse(&text.value()).ok()?;
            text.token().to_string()
        }
        ("permits" | "take" | "max_renewals", Shape::Text(text)) => {
            text.value().parse::<u32>().ok()?.to_string()
        }
        ("permits" | "take" | "max_renewals", Shape::Number(number)) => number.to_string(),
        ("owner", Shape::Path(path)) => path.to_token_stream().to_string().replace(' ', ""),
        ("keys", Shape::List(list)) => {
            let keys = list.elems.iter().map(ToTokens::to_token_stream);
            let keys: Vec<_> = keys.map(|key| key.to_string()).collect();
            format!("[{}]", keys.join(", "))
        }
        _ => return None,
    };
    let kind = if name == "owner" { "reentrant, " } else { "" };
    (written.chars().count() <= LONGEST).then(|| format!("{kind}{name} = {written}"))
}

/// The most characters of the user's text that a message repeats.
const LONGEST: usize = 80;

/// The digits of a whole number, without its suffix.
fn digits(value: &Expr) -> &str {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => number.base10_digits(),
        _ => "",
    }
}

fn quoted(name: &str, what: &str, value: &str) -> String {
    format!("{what} stands in quotes: write `{name} = \"{value}\"`")
}

fn unquoted(name: &str, what: &str, value: &str) -> String {
    format!("{what} stands without quotes: write `{name} = {value}`")
}

/// The content of a literal that is no text, as text.
pub(super) fn inner(value: &Expr) -> String {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => match lit {
            Lit::ByteStr(bytes) => String::from_utf8_lossy(&bytes.value()).into_owned(),
            Lit::CStr(text) => text.value().to_string_lossy().into_owned(),
            Lit::Char(character) => character.value().to_string(),
            Lit::Byte(byte) => char::from(byte.value()).to_string(),
            other => other.to_token_stream().to_string(),
        },
        other => other.to_token_stream().to_string(),
    }
}

fn words(name: &str) -> &'static [&'static str] {
    match name {
        "after_crash" => &["again", "skip"],
        "on_busy" => &["error", "skip"],
        "on_lost" | "on_shutdown" => &["cancel", "finish"],
        _ => &["confirmed", "background", "strict"],
    }
}

/// An example of an argument.
pub(super) fn example(name: &str) -> &'static str {
    match name {
        "ttl" => "ttl = \"10s\"",
        "wait" => "wait = \"3s\"`, `wait = \"0s\"` or `wait = \"forever\"",
        "renew" => "renew`, `renew = \"3s\"` or `renew = false",
        "max_hold" => "max_hold = \"5m\"",
        "max_renewals" => "max_renewals = 4",
        "min_hold" => "min_hold = \"30s\"",
        "once_per" => "once_per = \"20h\"",
        "after_crash" => "after_crash = \"skip\"` or `after_crash = \"again\"",
        "keys" => "keys = [\"account:<from>\", \"account:<to>\"]",
        "read" => "read",
        "write" => "write",
        "permits" => "permits = 5",
        "take" => "permits = 5, take = 2",
        "reentrant" => "reentrant",
        "owner" => "reentrant, owner = \"<workflow>\"",
        "fair" => "fair",
        "lead" => "lead",
        "on_busy" => "on_busy = \"skip\"` or `on_busy = \"error\"",
        "release" => {
            "release = \"confirmed\"`, `release = \"background\"` or `release = \"strict\""
        }
        "on_lost" => "on_lost = \"cancel\"` or `on_lost = \"finish\"",
        "on_shutdown" => "on_shutdown = \"cancel\"` or `on_shutdown = \"finish\"",
        "guard" => "guard = lock",
        "pool" => "pool = \"billing\"` or `pool = self.locks",
        "map_err" => "map_err = |error| …",
        "on_error" => "on_error = |error| …",
        "crate" => "crate = path::to::dlock_runtime",
        _ => "key = \"item:<id>\"",
    }
}

/// Whether a variable can have this name.
pub(super) fn is_variable(name: &str) -> bool {
    name != "_" && syn::parse_str::<Ident>(name).is_ok()
}
