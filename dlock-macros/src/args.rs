//! What was written between the parentheses of the attribute, spans kept: names, and values of the right shape.
//!
//! What a value means is for `rules`. Nothing here stops at the first error: a bad argument is skipped up to the next comma.

use crate::{errors::Errors, spelling::nearest};
use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Expr, ExprLit, Ident, Lit, LitInt, LitStr, Path, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

/// Arguments that work, in the order of the documentation.
const ARGUMENTS: [&str; 15] = [
    "key",
    "ttl",
    "wait",
    "renew",
    "max_hold",
    "max_renewals",
    "min_hold",
    "on_busy",
    "on_lost",
    "release",
    "guard",
    "pool",
    "map_err",
    "on_error",
    "crate",
];

/// Arguments that the design has and no code yet.
const LATER: [&str; 7] = [
    "keys",
    "reentrant",
    "read",
    "write",
    "fair",
    "permits",
    "owner",
];

/// The arguments of one attribute. `None` is: not written, or written wrongly and already reported.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<TextOrExpr>,
    pub(crate) ttl: Option<LitStr>,
    pub(crate) wait: Option<LitStr>,
    pub(crate) renew: Option<Renew>,
    pub(crate) max_hold: Option<Named<LitStr>>,
    pub(crate) max_renewals: Option<Named<LitInt>>,
    pub(crate) min_hold: Option<Named<LitStr>>,
    pub(crate) on_busy: Option<LitStr>,
    pub(crate) on_lost: Option<LitStr>,
    pub(crate) release: Option<LitStr>,
    pub(crate) guard: Option<Ident>,
    pub(crate) pool: Option<TextOrExpr>,
    pub(crate) map_err: Option<Named<Expr>>,
    pub(crate) on_error: Option<Named<Expr>>,
    pub(crate) krate: Option<Path>,
    /// Names seen so far, for duplicates.
    seen: Vec<String>,
    /// Names that were probably meant by what is none.
    near: Vec<&'static str>,
}

/// `"text"` or any other expression.
pub(crate) enum TextOrExpr {
    Text(LitStr),
    Expr(Box<Expr>),
}

pub(crate) enum Renew {
    /// `renew`, `renew = true`, `renew = false`
    Switch(bool),
    /// `renew = "3s"`
    Every(LitStr),
}

/// A value beside the argument's name, for errors that are not about the value.
pub(crate) struct Named<T> {
    pub(crate) name: Ident,
    pub(crate) value: T,
}

impl Args {
    /// Whether the argument was written, be it so that it could not be read: that it is missing would be noise.
    pub(crate) fn meant(&self, name: &str) -> bool {
        self.seen.iter().any(|seen| seen == name) || self.near.contains(&name)
    }

    /// Reads all arguments; what cannot be read is reported and left out.
    pub(crate) fn read(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                args.read_one(input, errors);
                if !input.is_empty() && !input.peek(Token![,]) {
                    errors.at_span(input.span(), "expected `,` between two arguments");
                    skip_to_comma(input);
                }
                input.parse::<Option<Token![,]>>()?;
            }
            Ok(())
        };
        if let Err(error) = all.parse2(tokens) {
            errors.push(error);
        }
        args
    }

    fn read_one(&mut self, input: ParseStream<'_>, errors: &mut Errors) {
        if let Some(literal) = input.fork().parse::<Option<LitStr>>().ok().flatten() {
            self.near.push("key");
            errors.at(
                &literal,
                format!(
                    "an argument needs its name: write `key = {}`",
                    literal.token()
                ),
            );
            return skip_to_comma(input);
        }
        let Ok(name) = input.call(Ident::parse_any) else {
            errors.at_span(
                input.span(),
                "expected an argument such as `key = \"item:<id>\"`",
            );
            return skip_to_comma(input);
        };
        let text = name.to_string();
        if !ARGUMENTS.contains(&text.as_str()) {
            self.refuse(&name, &text, errors);
            return skip_to_comma(input);
        }
        if self.seen.contains(&text) {
            errors.at(&name, format!("duplicate argument `{text}`: write it once"));
            return skip_to_comma(input);
        }
        let value = read_value(&name, input, errors);
        if let Ok(value) = value {
            self.store(name, &text, value, errors);
        }
        self.seen.push(text);
    }

    /// An argument that is none, or none yet.
    fn refuse(&mut self, name: &Ident, text: &str, errors: &mut Errors) {
        if LATER.contains(&text) {
            if text == "keys" {
                self.near.push("key");
            }
            return errors.at(name, format!("`{text}` is not supported yet"));
        }
        match nearest(text, &ARGUMENTS) {
            Some(near) => {
                self.near.push(near);
                errors.at(
                    name,
                    format!("unknown argument `{text}`, did you mean `{near}`?"),
                );
            }
            None => errors.at(
                name,
                format!(
                    "unknown argument `{text}`, arguments are: {}",
                    ARGUMENTS.join(", ")
                ),
            ),
        }
    }

    /// Puts a value where it belongs if it has the shape that the argument takes.
    fn store(&mut self, name: Ident, text: &str, value: Option<Expr>, errors: &mut Errors) {
        let Some(value) = value else {
            match text {
                "renew" => self.renew = Some(Renew::Switch(true)),
                _ => errors.at(
                    &name,
                    format!("`{text}` needs a value: write `{}`", example(text)),
                ),
            }
            return;
        };
        let mut wrong_shape = |value: &Expr| errors.at(value, format!("write `{}`", example(text)));
        match (text, Shape::of(value)) {
            ("key", Shape::Text(text)) => self.key = Some(TextOrExpr::Text(text)),
            ("key", other) => self.key = Some(TextOrExpr::Expr(Box::new(other.into_expr()))),
            ("pool", Shape::Text(text)) => self.pool = Some(TextOrExpr::Text(text)),
            ("pool", other) => self.pool = Some(TextOrExpr::Expr(Box::new(other.into_expr()))),
            ("ttl", Shape::Text(text)) => self.ttl = Some(text),
            ("wait", Shape::Text(text)) => self.wait = Some(text),
            ("max_hold", Shape::Text(value)) => self.max_hold = Some(Named { name, value }),
            ("max_renewals", Shape::Number(value)) => {
                self.max_renewals = Some(Named { name, value });
            }
            ("min_hold", Shape::Text(value)) => self.min_hold = Some(Named { name, value }),
            ("on_busy", Shape::Text(text)) => self.on_busy = Some(text),
            ("on_lost", Shape::Text(text)) => self.on_lost = Some(text),
            ("release", Shape::Text(text)) => self.release = Some(text),
            ("renew", Shape::Text(text)) => self.renew = Some(Renew::Every(text)),
            ("renew", Shape::Bool(on, _)) => self.renew = Some(Renew::Switch(on)),
            ("map_err", other) => {
                let value = other.into_expr();
                self.map_err = Some(Named { name, value });
            }
            ("on_error", other) => {
                let value = other.into_expr();
                self.on_error = Some(Named { name, value });
            }
            ("guard", Shape::Path(path)) => match path.get_ident() {
                Some(ident) if is_variable(ident) => self.guard = Some(ident.clone()),
                _ => wrong_shape(&Shape::Path(path).into_expr()),
            },
            ("crate", Shape::Path(path)) => self.krate = Some(path),
            (_, other) => wrong_shape(&other.into_expr()),
        }
    }
}

/// The forms that an argument's value is told apart by.
enum Shape {
    Text(LitStr),
    Bool(bool, Expr),
    /// Without a suffix.
    Number(LitInt),
    Path(Path),
    Other(Expr),
}

impl Shape {
    fn of(value: Expr) -> Self {
        match value {
            // What a `macro_rules!` passed in (`key = $key`) comes in an invisible group.
            Expr::Group(group) => Self::of(*group.expr),
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
            Expr::Path(path) if path.qself.is_none() && path.attrs.is_empty() => {
                Self::Path(path.path)
            }
            other => Self::Other(other),
        }
    }

    fn into_expr(self) -> Expr {
        match self {
            Self::Text(text) => literal(Lit::Str(text)),
            Self::Number(number) => literal(Lit::Int(number)),
            Self::Path(path) => Expr::Path(syn::ExprPath {
                attrs: Vec::new(),
                qself: None,
                path,
            }),
            Self::Bool(_, value) | Self::Other(value) => value,
        }
    }
}

fn literal(lit: Lit) -> Expr {
    let attrs = Vec::new();
    Expr::Lit(ExprLit { attrs, lit })
}

/// The expression after `=`, or `None` for a bare name; `Err` if it was reported.
fn read_value(
    name: &Ident,
    input: ParseStream<'_>,
    errors: &mut Errors,
) -> Result<Option<Expr>, ()> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(None);
    }
    if input.parse::<Option<Token![=]>>().ok().flatten().is_none() {
        errors.at_span(
            input.span(),
            format!("expected `=`: write `{}`", example(&name.to_string())),
        );
        skip_to_comma(input);
        return Err(());
    }
    if input.is_empty() || input.peek(Token![,]) {
        errors.at(
            name,
            format!(
                "`{name}` needs a value: write `{}`",
                example(&name.to_string())
            ),
        );
        return Err(());
    }
    let start = input.fork();
    match input.parse() {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            // At the end of the input syn points at the whole attribute; the value's beginning says more.
            let span = if input.is_empty() {
                start.span()
            } else {
                error.span()
            };
            errors.at_span(span, error);
            skip_to_comma(input);
            Err(())
        }
    }
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) && input.parse::<TokenTree>().is_ok() {}
}

/// How an argument is written.
fn example(name: &str) -> &'static str {
    match name {
        "ttl" => "ttl = \"10s\"",
        "wait" => "wait = \"3s\"`, `wait = \"0s\"` or `wait = \"forever\"",
        "renew" => "renew`, `renew = \"3s\"` or `renew = false",
        "max_hold" => "max_hold = \"5m\"",
        "max_renewals" => "max_renewals = 4",
        "min_hold" => "min_hold = \"30s\"",
        "on_busy" => "on_busy = \"skip\"` or `on_busy = \"error\"",
        "release" => "release = \"confirmed\"` or `release = \"background\"",
        "on_lost" => "on_lost = \"cancel\"` or `on_lost = \"finish\"",
        "guard" => "guard = lock",
        "pool" => "pool = \"billing\"` or `pool = self.locks",
        "map_err" => "map_err = |error| …",
        "on_error" => "on_error = |error| …",
        "crate" => "crate = path::to::dlock_runtime",
        _ => "key = \"item:<id>\"",
    }
}

fn is_variable(ident: &Ident) -> bool {
    syn::parse_str::<Ident>(&ident.to_string()).is_ok()
}
