//! Reads the arguments of the attribute, with their spans: names, and values of the right form.
//!
//! What a value means is checked in `rules`. Invariant: no error stops the reading; a bad argument
//! is skipped up to the next comma.

use crate::errors::Errors;
pub(crate) use names::ARGUMENTS;
use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use shape::{Shape, example, is_variable, misshapen};
use syn::{
    Expr, Ident, LitInt, LitStr, Path, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

mod kind;
mod names;
mod shape;
mod unknown;

/// The arguments of one attribute. `None`: not written, or written wrongly and already reported.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<TextOrExpr>,
    pub(crate) keys: Option<Keys>,
    pub(crate) ttl: Option<LitStr>,
    pub(crate) wait: Option<LitStr>,
    pub(crate) renew: Option<RenewArg>,
    pub(crate) max_hold: Option<Named<LitStr>>,
    pub(crate) max_renewals: Option<Named<LitInt>>,
    pub(crate) min_hold: Option<Named<LitStr>>,
    pub(crate) once_per: Option<Named<LitStr>>,
    pub(crate) after_crash: Option<LitStr>,
    pub(crate) permits: Option<CountArg>,
    pub(crate) take: Option<CountArg>,
    pub(crate) owner: Option<TextOrExpr>,
    pub(crate) on_busy: Option<LitStr>,
    pub(crate) on_lost: Option<LitStr>,
    pub(crate) on_shutdown: Option<LitStr>,
    pub(crate) release: Option<LitStr>,
    pub(crate) guard: Option<Ident>,
    pub(crate) pool: Option<TextOrExpr>,
    pub(crate) map_err: Option<Named<Expr>>,
    pub(crate) on_error: Option<Named<Expr>>,
    krate: Option<Path>,
    /// The names as they were written, in that order; a bare word has no other trace.
    seen: Vec<Ident>,
    /// Names that an unknown argument probably meant.
    near: Vec<&'static str>,
}

/// A number that is checked now, or an expression that is checked when the function is called.
pub(crate) enum CountArg {
    Literal(LitInt),
    Expr(Box<Expr>),
}

/// `"text"` or any other expression.
pub(crate) enum TextOrExpr {
    Text(LitStr),
    Expr(Box<Expr>),
}

impl TextOrExpr {
    pub(crate) fn is_empty_text(&self) -> bool {
        matches!(self, Self::Text(text) if text.value().is_empty())
    }
}

pub(crate) enum Keys {
    /// `["item:<id>", other()]`
    List(Vec<TextOrExpr>),
    /// Any other expression.
    Expr(Box<Expr>),
}

pub(crate) enum RenewArg {
    /// `renew`, `renew = true`, `renew = false`
    Switch(bool),
    /// `renew = "3s"`
    Every(LitStr),
}

/// A value with the argument's name, for errors that are not about the value.
pub(crate) struct Named<T> {
    pub(crate) name: Ident,
    pub(crate) value: T,
}

impl Args {
    /// Whether the argument was written, even unreadably: then an error that it is missing would be
    /// noise.
    pub(crate) fn meant(&self, name: &str) -> bool {
        self.name(name).is_some() || self.near.contains(&name)
    }

    /// The argument's name where it was written.
    pub(crate) fn name(&self, name: &str) -> Option<&Ident> {
        self.seen.iter().find(|seen| *seen == name)
    }

    /// All names that were written or meant, each once, in that order.
    pub(crate) fn names(&self) -> Vec<String> {
        let seen = self.seen.iter().map(ToString::to_string);
        let near = self.near.iter().map(ToString::to_string);
        let mut names: Vec<String> = seen.collect();
        names.extend(near.filter(|near| self.name(near).is_none()));
        names
    }

    /// The path of `dlock_runtime`.
    pub(crate) fn krate(&self) -> TokenStream {
        let written = self.krate.as_ref();
        written.map_or_else(|| quote!(::dlock_runtime), Path::to_token_stream)
    }

    /// Reads all arguments; those that cannot be read are reported and left out.
    pub(crate) fn read(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                let well = args.read_one(input, errors);
                let comma = "expected `,` between two arguments";
                if !ends_argument(input) && !begins_argument(input) {
                    if well {
                        errors.at_span(input.span(), comma);
                    }
                    skip_argument(input);
                }
                // The argument after a forgotten comma is read too, so that its errors are shown
                // now.
                if !input.is_empty() && !input.peek(Token![,]) {
                    errors.at_span(input.span(), comma);
                    input.parse::<Option<Token![;]>>()?;
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

    /// Reads one argument; `false` if an error was reported, so that errors about the rest of it
    /// are noise.
    fn read_one(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> bool {
        let skip = |input: ParseStream<'_>| {
            skip_argument(input);
            false
        };
        if let Some(literal) = input.fork().parse::<Option<LitStr>>().ok().flatten() {
            let ahead = input.fork();
            let quoted = literal.value();
            let known = ARGUMENTS.into_iter().find(|name| *name == quoted);
            if let Some(name) =
                known.filter(|_| ahead.parse::<LitStr>().is_ok() && ahead.peek(Token![=]))
            {
                self.near.push(name);
                let message =
                    format!("an argument's name stands without quotes: write `{name} = …`");
                errors.at(&literal, message);
                return skip(input);
            }
            self.near.push("key");
            let message = format!(
                "an argument needs its name: write `key = {}`",
                literal.token()
            );
            errors.at(&literal, message);
            return skip(input);
        }
        let Ok(name) = input.call(Ident::parse_any) else {
            errors.at_span(
                input.span(),
                "expected an argument such as `key = \"item:<id>\"`",
            );
            return skip(input);
        };
        let text = name.to_string();
        if input.peek(Token![!]) || input.peek(Token![::]) || input.peek(Token![.]) {
            self.near.push("key");
            let message = match text.as_str() {
                "format" => {
                    "an argument needs its name, and a key is a template: write `key = \"item:<id>\"`"
                        .to_owned()
                }
                _ => format!("an argument needs its name: write `key = {text}…`"),
            };
            errors.at(&name, message);
            return skip(input);
        }
        if !ARGUMENTS.contains(&text.as_str()) {
            let unknown = unknown::unknown(&text, value_ahead(input));
            self.near.extend(unknown.near);
            errors.at(&name, unknown.message);
            return skip(input);
        }
        if self.name(&text).is_some() {
            let message = format!("duplicate argument `{text}`: remove one");
            errors.at(&name, message);
            return skip(input);
        }
        self.seen.push(name.clone());
        let Ok(value) = read_value(&name, input, errors) else {
            return skip(input);
        };
        let template = text == "key" && matches!(value, Some(Expr::Path(_)));
        if template && (input.peek(Token![:]) || input.peek(Token![#])) {
            let message = "a key template stands in quotes: write `key = \"item:<id>\"`";
            errors.at(value, message);
            return skip(input);
        }
        self.store(name, &text, value, errors)
    }

    /// Stores a value if it has the form that the argument takes; `false` if an error was reported.
    fn store(&mut self, name: Ident, text: &str, value: Option<Expr>, errors: &mut Errors) -> bool {
        let Some(value) = value else {
            if text == "renew" {
                self.renew = Some(RenewArg::Switch(true));
                return true;
            }
            if names::is_bare(text) {
                return true;
            }
            let message = format!("`{text}` needs a value: write `{}`", example(text));
            errors.at(&name, message);
            return false;
        };
        match (text, Shape::of(value)) {
            ("key", Shape::Text(text)) => self.key = Some(TextOrExpr::Text(text)),
            (
                "key" | "pool",
                value @ (Shape::Number(_) | Shape::Bool(..) | Shape::Literal(_) | Shape::List(_)),
            ) => return refuse(text, value, errors),
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
            ("once_per", Shape::Text(value)) => self.once_per = Some(Named { name, value }),
            ("after_crash", Shape::Text(text)) => self.after_crash = Some(text),
            ("on_busy", Shape::Text(text)) => self.on_busy = Some(text),
            ("on_lost", Shape::Text(text)) => self.on_lost = Some(text),
            ("on_shutdown", Shape::Text(text)) => self.on_shutdown = Some(text),
            ("release", Shape::Text(text)) => self.release = Some(text),
            ("renew", Shape::Text(text)) => self.renew = Some(RenewArg::Every(text)),
            ("renew", Shape::Bool(on, _)) => self.renew = Some(RenewArg::Switch(on)),
            ("map_err" | "on_error", Shape::Text(value)) => {
                return refuse(text, Shape::Text(value), errors);
            }
            ("map_err", other) => {
                let value = other.into_expr();
                self.map_err = Some(Named { name, value });
            }
            ("on_error", other) => {
                let value = other.into_expr();
                self.on_error = Some(Named { name, value });
            }
            ("guard", Shape::Path(path)) => match path.get_ident() {
                Some(ident) if is_variable(&ident.to_string()) => self.guard = Some(ident.clone()),
                _ => return refuse(text, Shape::Path(path), errors),
            },
            ("crate", Shape::Path(path)) => self.krate = Some(path),
            (_, other) => return self.store_kind(text, other, errors),
        }
        true
    }
}

/// Reports a value of the wrong form.
fn refuse(name: &str, value: Shape, errors: &mut Errors) -> bool {
    let value = value.into_expr();
    errors.at(&value, misshapen(name, &value));
    false
}

/// Whether an argument seems to begin here.
fn begins_argument(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(name) = ahead.call(Ident::parse_any) else {
        return false;
    };
    ahead.peek(Token![=]) || ends_argument(&ahead) && ARGUMENTS.contains(&name.to_string().as_str())
}

/// The expression after `=`, or `None` for a bare name; `Err` if an error was reported.
fn read_value(
    name: &Ident,
    input: ParseStream<'_>,
    errors: &mut Errors,
) -> Result<Option<Expr>, ()> {
    if ends_argument(input) {
        return Ok(None);
    }
    let text = name.to_string();
    let bare = names::is_bare(&text);
    if bare && input.peek(Ident::peek_any) {
        return Ok(None); // the next argument, its comma is missing
    }
    let write = |what: &str| {
        if bare {
            names::alone(&text)
        } else {
            format!("{what}: write `{}`", example(&text))
        }
    };
    if input.peek(Token![==]) || input.peek(Token![=>]) || !input.peek(Token![=]) {
        errors.at_span(input.span(), write("expected `=`"));
        return Err(());
    }
    input.parse::<Token![=]>().map_err(|_| ())?;
    if ends_argument(input) {
        errors.at(name, write(&format!("`{name}` needs a value")));
        return Err(());
    }
    let start = input.fork();
    input.parse().map(Some).map_err(|error| {
        // At the end of the input, syn points at the whole attribute; the start of the value is
        // more precise.
        let span = if input.is_empty() {
            start.span()
        } else {
            error.span()
        };
        errors.at_span(span, write(&error.to_string()));
    })
}

/// The expression after `=`, without consuming it; `None` if there is none that can be read.
fn value_ahead(input: ParseStream<'_>) -> Option<Expr> {
    let ahead = input.fork();
    ahead.parse::<Token![=]>().ok()?;
    ahead.parse().ok()
}

fn skip_argument(input: ParseStream<'_>) {
    while !ends_argument(input) && input.parse::<TokenTree>().is_ok() {}
}

fn ends_argument(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,]) || input.peek(Token![;])
}
