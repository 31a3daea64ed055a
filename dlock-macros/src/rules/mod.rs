//! The rules for arguments and function: reports every error of one use, or builds a [`Model`] in
//! which nothing can be wrong.
//!
//! Not decided here: what a duration, a lease or a key may be. That is in `dlock-grammar`, which
//! the runtime uses too.

use crate::{
    args::{self, Args, Named, TextOrExpr},
    errors::Errors,
    lead::{self as each_term, ForEachTerm},
    model::{BodyEnd, Guard, Lock, Model, OnError, Pool, Release, Renew, Wait},
    owned,
    signature::{Form, Function, Output, OutputKind},
};
use dlock_grammar::{bounds, duration, kind::Word};
use proc_macro2::TokenStream;
use std::time::Duration;
use syn::{Attribute, Expr, Ident, LitStr, Meta, Path, ext::IdentExt as _};

mod busy;
mod formatted;
mod hold;
mod key;
mod kind;
mod lead;
mod notation;
mod refused;
mod together;

pub(crate) use key::lock_key;
pub(crate) use refused::{guards, without_stacked};

/// Checks one use of the attribute and the uses stacked below it.
pub(crate) fn model(arguments: TokenStream, item: &TokenStream) -> Result<Model, syn::Error> {
    let mut errors = Errors::default();
    let (function, uses) = read(arguments, item, &mut errors);
    let Some(mut function) = function else {
        return errors.into_result(None);
    };
    let form = function.form().map_err(|error| errors.push(error)).ok();
    let output = form.as_ref().map(|form| Output::of(&function, form));
    if let Some(output) = output
        .as_ref()
        .filter(|output| output.kind == OutputKind::Never)
    {
        let message = if lead::is_asked_for(&uses) {
            "a function that never returns can't tell that it leads no more: give it a return type, such as `Result<(), LockError>`"
        } else {
            "a function that never returns would hold its lock until the lease is lost: give it a return type, such as `Result<(), LockError>`"
        };
        errors.at(&output.ty, message);
    }
    if form.as_ref().is_some_and(|form| function.is_locked(form)) {
        together::refuse_below(&uses, &mut errors);
    }
    together::check(&function, &uses, &mut errors);
    lead::check(&function, &uses, &mut errors);
    let mut scope = Scope {
        function: &function,
        form: form.as_ref(),
        output: output.as_ref(),
        errors: &mut errors,
    };
    let locks: Vec<_> = uses
        .into_iter()
        .filter_map(|(path, args)| scope.lock(path.as_ref(), args))
        .collect();
    let model = form.zip(output).map(|(mut form, output)| {
        let (for_each_term, owned) = if locks.iter().any(Lock::leads) {
            let for_each_term = each_term::take(&mut function, &mut form);
            let owned = for_each_term.iter().map(ForEachTerm::owned).collect();
            (for_each_term, owned)
        } else {
            (Vec::new(), owned::take(&mut function, &form, &locks))
        };
        Model {
            function,
            form,
            output,
            owned,
            for_each_term,
            locks,
        }
    });
    errors.into_result(model)
}

/// Parses the function, and all uses of the attribute on it; a stacked one comes with its path.
fn read(
    arguments: TokenStream,
    item: &TokenStream,
    errors: &mut Errors,
) -> (Option<Function>, Vec<(Option<Path>, Args)>) {
    let mut uses = vec![(None, Args::read(arguments, errors))];
    let mut function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            errors.push(error);
            return (None, uses);
        }
    };
    for attribute in take_stacked(&mut function.attrs) {
        let path = attribute.meta.path().clone();
        let arguments = match attribute.meta {
            Meta::List(list) => list.tokens,
            _ => TokenStream::new(),
        };
        uses.push((Some(path), Args::read(arguments, errors)));
    }
    (Some(function), uses)
}

/// Takes the locks below this one off the function. One expansion writes all of them, because
/// attributes are expanded from the top down: expanded one by one, the first would be the innermost
/// and be acquired last.
fn take_stacked(attributes: &mut Vec<Attribute>) -> Vec<Attribute> {
    let ours = |path: &Path| {
        path.segments
            .last()
            .is_some_and(|last| last.ident == "distributed_lock")
    };
    attributes
        .extract_if(.., |attribute| ours(attribute.meta.path()))
        .collect()
}

/// What the arguments are checked against.
struct Scope<'a> {
    function: &'a Function,
    /// `None` if the function itself is wrong; the arguments are checked nevertheless.
    form: Option<&'a Form>,
    output: Option<&'a Output>,
    errors: &'a mut Errors,
}

impl Scope<'_> {
    /// Checks the arguments of one attribute; `path` is that of a stacked one.
    fn lock(&mut self, path: Option<&Path>, mut args: Args) -> Option<Lock> {
        if !args.meant("key") && !args.meant("keys") {
            let message = "missing `key`: say what is locked, such as `key = \"item:<id>\"`";
            match path {
                Some(path) => self.errors.at(path, message),
                None => self.errors.at_span(proc_macro2::Span::call_site(), message),
            }
        }
        let krate = args.krate();
        let words = kind::words(&args);
        let leads = words.contains(&Word::Lead);
        if leads {
            self.lead(&mut args);
        }
        let ttl = args.ttl.as_ref().and_then(|text| self.ttl(text));
        let skip = self.skips(&args);
        let wait = match &args.wait {
            Some(text) => self.wait(text),
            None if leads => Some(Wait::Forever),
            None => skip.then_some(Wait::Once),
        };
        let renew = args.renew.as_ref().and_then(|renew| self.renew(renew, ttl));
        let bounds = self.bounds(&args, ttl);
        let (on_lost, on_shutdown) = self.body_ends(&args);
        let release = args.release.as_ref().and_then(|text| self.release(text));
        self.check_kind(&args, &words);
        let kind = self.kind(&words, args.owner, (args.permits, args.take));
        let on_error = self.on_error(args.map_err, args.on_error);
        let what = self.what(args.key, args.keys);
        if let Some(TextOrExpr::Text(name)) = args.pool.as_ref().filter(|it| it.is_empty_text()) {
            let message = "a pool's name is not empty: write that of its `init_named`, or leave `pool` out for the one of `init`";
            self.errors.at(name, message);
        }
        let pool = args.pool.map(|pool| match pool {
            TextOrExpr::Text(name) => Pool::Named(name),
            TextOrExpr::Expr(expr) => Pool::Expr(Box::new(self.expr(*expr))),
        });
        let guard = args.guard.map(|name| self.guard(krate.clone(), name));
        Some(Lock {
            krate,
            name: self.function.name(),
            below: path.and_then(|path| Some(path.segments.last()?.ident.span())),
            what: what?,
            kind,
            fair: words.contains(&Word::Fair),
            ttl,
            wait,
            renew,
            max_hold: bounds.max_hold,
            max_renewals: bounds.max_renewals,
            min_hold: bounds.min_hold,
            once_per: bounds.once_per,
            skip,
            on_lost,
            on_shutdown,
            release,
            guard,
            pool,
            on_error,
        })
    }

    fn ttl(&mut self, text: &LitStr) -> Option<Duration> {
        if text.value() == "forever" {
            let message = "a lease has an end: write `ttl = \"10s\", renew`, and it is renewed for as long as the body runs";
            self.errors.at(text, message);
            return None;
        }
        let ttl = self.duration(text, "")?;
        bounds::check_ttl(ttl)
            .map_err(|error| self.errors.at(text, error))
            .ok()?;
        Some(ttl)
    }

    fn wait(&mut self, text: &LitStr) -> Option<Wait> {
        if text.value() == "forever" {
            return Some(Wait::Forever);
        }
        let wait = self.duration(text, "; or write \"forever\"")?;
        Some(if wait.is_zero() {
            Wait::Once
        } else {
            Wait::For(wait)
        })
    }

    fn renew(&mut self, renew: &args::RenewArg, ttl: Option<Duration>) -> Option<Renew> {
        match renew {
            args::RenewArg::Switch(on) => on.then_some(Renew::Default),
            args::RenewArg::Every(text) if ["true", "false"].contains(&text.value().as_str()) => {
                let message = "a switch stands without quotes: write `renew` or `renew = false`";
                self.errors.at(text, message);
                None
            }
            args::RenewArg::Every(text) => {
                let every = self.duration(text, "")?;
                let checked = match ttl {
                    Some(ttl) => bounds::check_renew(every, ttl),
                    None => bounds::check_renew_alone(every),
                };
                checked.map_err(|error| self.errors.at(text, error)).ok()?;
                Some(Renew::Every(every))
            }
        }
    }

    fn duration(&mut self, text: &LitStr, or: &str) -> Option<Duration> {
        duration::parse(&text.value())
            .map_err(|error| self.errors.at(text, format!("{error}{or}")))
            .ok()
    }

    /// What becomes of the body when its lease is lost, and at a shutdown.
    fn body_ends(&mut self, args: &Args) -> (BodyEnd, BodyEnd) {
        let on_lost = args.on_lost.as_ref();
        let on_lost = on_lost.and_then(|text| self.body_end("on_lost", text));
        let on_lost = on_lost.unwrap_or_default();
        let Some(text) = &args.on_shutdown else {
            return (on_lost, on_lost);
        };
        let on_shutdown = self.body_end("on_shutdown", text);
        if (on_lost, on_shutdown) == (BodyEnd::Finish, Some(BodyEnd::Cancel)) {
            let message =
                "with `on_lost = \"finish\"` nothing stops the body: remove one of the two";
            self.errors.at(text, message);
        }
        (on_lost, on_shutdown.unwrap_or_default())
    }

    fn body_end(&mut self, name: &str, text: &LitStr) -> Option<BodyEnd> {
        match text.value().as_str() {
            "cancel" => Some(BodyEnd::Cancel),
            "finish" => Some(BodyEnd::Finish),
            other => {
                let message = format!("unknown `{name}` {other:?}: write \"cancel\" or \"finish\"");
                self.errors.at(text, message);
                None
            }
        }
    }

    fn release(&mut self, text: &LitStr) -> Option<Release> {
        match text.value().as_str() {
            "confirmed" => Some(Release::Confirmed),
            "background" => Some(Release::Background),
            "strict" => Some(Release::Strict),
            other => {
                let message = format!(
                    "unknown `release` {other:?}: write \"confirmed\", \"background\" or \"strict\""
                );
                self.errors.at(text, message);
                None
            }
        }
    }

    fn guard(&mut self, krate: TokenStream, name: Ident) -> Guard {
        if self.hides_argument(&name) {
            let other = if name == "lock" { "held" } else { "lock" };
            let message = format!(
                "the guard `{name}` would hide the argument of that name: write `guard = {other}`"
            );
            self.errors.at(&name, message);
        }
        Guard { krate, name }
    }

    fn hides_argument(&self, guard: &Ident) -> bool {
        (self.names().iter()).any(|name| name.unraw() == guard.unraw())
    }

    fn on_error(&mut self, map_err: Option<Named<Expr>>, on_error: Option<Named<Expr>>) -> OnError {
        if let (Some(_), Some(handler)) = (&map_err, &on_error) {
            self.errors.at(&handler.name, "`on_error` makes the whole return value, so it cannot stand beside `map_err`: remove one");
        }
        let returns = match self.output.map(|output| &output.kind) {
            Some(OutputKind::Unit) => Some("()"),
            Some(OutputKind::Option) => Some("Option"),
            _ => None,
        };
        if let (Some(handler), Some(returns)) = (&map_err, returns) {
            let message = format!(
                "`map_err` needs a function that returns `Result`, and this one returns `{returns}`: write `on_error = |error| …` instead"
            );
            self.errors.at(&handler.name, message);
        }
        match (map_err, on_error) {
            (None, None) => OnError::From,
            (Some(handler), _) => OnError::MapErr(self.expr(handler.value)),
            (None, Some(handler)) => OnError::Output(self.expr(handler.value)),
        }
    }

    /// An expression of the attribute, rewritten for where it is evaluated.
    fn expr(&self, expr: Expr) -> Expr {
        match self.form {
            Some(Form::AsyncTrait(method)) => method.expr(expr),
            _ => expr,
        }
    }
}
