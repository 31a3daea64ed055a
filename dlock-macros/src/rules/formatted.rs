//! Refuses `format!` as a key: it leaves values as they are, and a template encodes them. For `a b`
//! the two are different locks, which silently do not exclude each other.
//!
//! It works on the expression of the argument alone; a `format!` behind a variable or a function is
//! not seen.

use super::Scope;
use crate::template::{self, Part};
use proc_macro2::TokenTree;
use quote::ToTokens as _;
use std::collections::BTreeSet;
use syn::{
    Block, Expr, ExprCall, Ident, LitStr, Macro, Member, Stmt, Token, parse::Parser as _,
    punctuated::Punctuated,
};

/// The most characters of a proposed replacement, to keep the message readable.
const LONGEST: usize = 84;

impl Scope<'_> {
    /// Refuses `format!` wherever it gives the key, and proposes the template that means the same.
    pub(super) fn no_format_in(&mut self, expr: &Expr, argument: &str) {
        let mut found = Vec::new();
        find(expr, &mut found);
        for format in found {
            let whole = is_alone(expr);
            let names = self.roots();
            let known = |root: &str| names.iter().any(|name| name == root);
            let shown = Formatted::read(&format).and_then(|it| it.as_key(whole, known));
            let shown =
                shown.unwrap_or_else(|| "{ let part = …; lock_key!(\"item:<part>\") }".to_owned());
            let write = match argument {
                // The keys of a list have no names.
                "keys" => shown,
                _ if whole => format!("{argument} = {shown}"),
                _ => shown,
            };
            let message = format!(
                "`format!` leaves values as they are, templates encode them: write `{write}`, or `Key::verbatim(…)` if that is meant\n  (both are in `dlock_runtime`)"
            );
            self.errors.at(&format, message);
        }
    }

    /// The names that a placeholder can begin with.
    fn roots(&self) -> Vec<String> {
        let receiver = self.function.receiver();
        let names = receiver.into_iter().chain(self.names());
        names.map(|name| name.to_string()).collect()
    }
}

/// Whether the key is the result of `format!`, apart from conversions that the template needs no
/// more.
fn is_alone(expr: &Expr) -> bool {
    match expr {
        Expr::Macro(it) => is_format(&it.mac),
        Expr::Group(it) => is_alone(&it.expr),
        Expr::Paren(it) => is_alone(&it.expr),
        Expr::Reference(it) => is_alone(&it.expr),
        Expr::MethodCall(it) => it.args.is_empty() && is_alone(&it.receiver),
        Expr::Call(it) => is_conversion(it) && it.args.iter().all(is_alone),
        _ => false,
    }
}

/// `String::from(x)`, `Some(x)`: the text is `x`.
fn is_conversion(call: &ExprCall) -> bool {
    let Expr::Path(path) = &*call.func else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| {
        ["from", "Some", "Ok", "Owned"]
            .iter()
            .any(|it| last.ident == it)
    })
}

/// Finds each `format!` whose text is the expression's value or part of it. The argument of a
/// function does not count, for the function may make anything of it.
fn find(expr: &Expr, found: &mut Vec<Macro>) {
    match expr {
        Expr::Macro(it) if is_format(&it.mac) => found.push(it.mac.clone()),
        Expr::Macro(it) if it.mac.path.is_ident("vec") => {
            let list = Punctuated::<Expr, Token![,]>::parse_terminated;
            if let Ok(list) = list.parse2(it.mac.tokens.clone()) {
                list.iter().for_each(|item| find(item, found));
            }
        }
        Expr::Group(it) => find(&it.expr, found),
        Expr::Paren(it) => find(&it.expr, found),
        Expr::Reference(it) => find(&it.expr, found),
        Expr::Unary(it) => find(&it.expr, found),
        Expr::Try(it) => find(&it.expr, found),
        Expr::Array(it) => it.elems.iter().for_each(|item| find(item, found)),
        Expr::Binary(it) if matches!(it.op, syn::BinOp::Add(_)) => {
            find(&it.left, found);
            find(&it.right, found);
        }
        Expr::Call(it) if is_conversion(it) => it.args.iter().for_each(|item| find(item, found)),
        Expr::MethodCall(it) => {
            find(&it.receiver, found);
            for item in &it.args {
                if let Expr::Closure(closure) = item {
                    find(&closure.body, found);
                }
            }
        }
        Expr::Block(it) => find_last(&it.block, found),
        Expr::Unsafe(it) => find_last(&it.block, found),
        Expr::If(it) => {
            find_last(&it.then_branch, found);
            if let Some((_, otherwise)) = &it.else_branch {
                find(otherwise, found);
            }
        }
        Expr::Match(it) => it.arms.iter().for_each(|arm| find(&arm.body, found)),
        _ => {}
    }
}

fn find_last(block: &Block, found: &mut Vec<Macro>) {
    match block.stmts.last() {
        Some(Stmt::Expr(expr, None)) => find(expr, found),
        Some(Stmt::Macro(it)) if it.semi_token.is_none() && is_format(&it.mac) => {
            found.push(it.mac.clone());
        }
        _ => {}
    }
}

fn is_format(it: &Macro) -> bool {
    let last = it.path.segments.last();
    last.is_some_and(|last| last.ident == "format" || last.ident == "format_args")
}

/// A `format!` as a template: text with placeholders, and variables for values that can't be one.
#[derive(Default)]
struct Formatted {
    text: String,
    /// `let name = value;`, in order.
    lets: Vec<(String, String)>,
    /// The names that the placeholders begin with.
    roots: Vec<String>,
}

/// The arguments of a `format!` after its text.
struct Arguments {
    positional: Vec<Expr>,
    named: Vec<(Ident, Expr)>,
    /// All identifiers in them, so that new names differ.
    taken: BTreeSet<String>,
}

impl Formatted {
    /// `None` if it has no such form or is no valid `format!`: rustc reports that once the key is
    /// changed.
    fn read(format: &Macro) -> Option<Self> {
        let (literal, arguments) = Arguments::read(format)?;
        let text = literal.value();
        let mut rest = text.as_str();
        let mut next = 0;
        let mut formatted = Self::default();
        while let Some(at) = rest.find(['{', '}', '<']) {
            let (before, sign) = rest.split_at(at);
            formatted.text.push_str(before);
            // Each turn removes at least one character from `rest`.
            if let Some(after) = sign.strip_prefix('<') {
                formatted.text.push_str("<<");
                rest = after;
            } else if let Some(after) = sign.strip_prefix("{{") {
                formatted.text.push('{');
                rest = after;
            } else if let Some(after) = sign.strip_prefix("}}") {
                formatted.text.push('}');
                rest = after;
            } else {
                let (hole, after) = sign.strip_prefix('{')?.split_once('}')?;
                formatted.hole(hole, &mut next, &arguments)?;
                rest = after;
            }
        }
        formatted.text.push_str(rest);
        template::parse(&formatted.text).ok()?;
        Some(formatted)
    }

    /// One `{…}`: a placeholder, or a variable for a value that can't stand in one.
    fn hole(&mut self, hole: &str, next: &mut usize, arguments: &Arguments) -> Option<()> {
        let (name, spec) = hole.split_once(':').unwrap_or((hole, ""));
        let (name, spec) = (name.trim(), spec.trim());
        if spec.contains(['$', '*']) {
            return None;
        }
        let value = if name.is_empty() {
            *next += 1;
            arguments.positional.get(*next - 1)?.clone()
        } else if let Ok(at) = name.parse::<usize>() {
            arguments.positional.get(at)?.clone()
        } else {
            let named = arguments.named.iter().find(|(it, _)| it == name);
            match named {
                Some((_, value)) => value.clone(),
                None => syn::parse_str(name).ok()?,
            }
        };
        let place = place(&value).filter(|_| spec.is_empty());
        let place = match place {
            Some(place) => place,
            None => self.name(&value, spec, arguments),
        };
        let root = place.split('.').next().unwrap_or_default();
        self.roots.push(root.to_owned());
        self.text.push('<');
        self.text.push_str(&place);
        self.text.push('>');
        Some(())
    }

    /// Gives a value a name that is not taken.
    fn name(&mut self, value: &Expr, spec: &str, arguments: &Arguments) -> String {
        let written = tight(value);
        let value = match (value, spec) {
            (_, spec) if !spec.is_empty() => format!("format!(\"{{:{spec}}}\", {written})"),
            // A place expression would be moved out of; `format!` borrows.
            (Expr::Field(_) | Expr::Index(_) | Expr::Path(_) | Expr::Unary(_), _) => {
                format!("&{written}")
            }
            _ => written,
        };
        let names = (1..).map(|n| {
            if n == 1 {
                "part".to_owned()
            } else {
                format!("part{n}")
            }
        });
        let mut free = names.filter(|name| {
            !arguments.taken.contains(name) && self.lets.iter().all(|(it, _)| it != name)
        });
        // There are more numbers than taken names.
        let name = free.next().unwrap_or_default();
        self.lets.push((name.clone(), value));
        name
    }

    /// The replacement: the template alone if possible, else `lock_key!`.
    fn as_key(&self, whole: bool, known: impl Fn(&str) -> bool) -> Option<String> {
        let literal = proc_macro2::Literal::string(&self.text).to_string();
        let alone = whole && self.lets.is_empty() && self.roots.iter().all(|root| known(root));
        let shown = if alone {
            literal
        } else if self.lets.is_empty() {
            format!("lock_key!({literal})")
        } else {
            let lets = self.lets.iter();
            let lets: Vec<_> = lets
                .map(|(name, value)| format!("let {name} = {value};"))
                .collect();
            let lets = lets.join(" ");
            format!("{{ {lets} lock_key!({literal}) }}")
        };
        (shown.chars().count() <= LONGEST).then_some(shown)
    }
}

impl Arguments {
    fn read(format: &Macro) -> Option<(LitStr, Self)> {
        let all = Punctuated::<Expr, Token![,]>::parse_terminated;
        let all = all.parse2(format.tokens.clone()).ok()?;
        let mut all = all.into_iter();
        let literal = syn::parse2(all.next()?.to_token_stream()).ok()?;
        let mut arguments = Self {
            positional: Vec::new(),
            named: Vec::new(),
            taken: BTreeSet::new(),
        };
        identifiers(format.tokens.clone(), &mut arguments.taken);
        for argument in all {
            match argument {
                Expr::Assign(it) => {
                    let Expr::Path(name) = &*it.left else {
                        return None;
                    };
                    let name = name.path.get_ident()?.clone();
                    arguments.named.push((name, *it.right));
                }
                other => arguments.positional.push(other),
            }
        }
        Some((literal, arguments))
    }
}

fn identifiers(tokens: proc_macro2::TokenStream, into: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                into.insert(ident.to_string());
            }
            TokenTree::Group(group) => identifiers(group.stream(), into),
            _ => {}
        }
    }
}

/// The text of a placeholder for this value; `None` if there is none.
fn place(value: &Expr) -> Option<String> {
    let written = match value {
        Expr::Path(it) => it.path.get_ident()?.to_string(),
        Expr::Group(it) => place(&it.expr)?,
        Expr::Paren(it) => place(&it.expr)?,
        Expr::Reference(it) => place(&it.expr)?,
        Expr::Field(it) => {
            let base = place(&it.base)?;
            match &it.member {
                Member::Named(name) => format!("{base}.{name}"),
                Member::Unnamed(index) => format!("{base}.{}", index.index),
            }
        }
        Expr::MethodCall(it) if it.args.is_empty() && it.turbofish.is_none() => {
            format!("{}.{}()", place(&it.receiver)?, it.method)
        }
        _ => return None,
    };
    let parsed = template::parse(&format!("<{written}>")).ok()?;
    let [Part::Place(_)] = parsed.parts.as_slice() else {
        return None;
    };
    Some(written)
}

/// The expression as people write it, without the spaces between tokens. (A stable macro can't read
/// the source of more than one token.)
fn tight(value: &Expr) -> String {
    let mut written = value.to_token_stream().to_string();
    for (loose, close) in [
        (" . ", "."),
        (" :: ", "::"),
        (" (", "("),
        (" [", "["),
        ("& ", "&"),
        (" !", "!"),
        (" ,", ","),
    ] {
        written = written.replace(loose, close);
    }
    written
}
