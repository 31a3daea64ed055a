//! The parameters that the body must own, whether or not it mentions them: what it does not own is
//! dropped after the release.
//!
//! Invariant: they are dropped in the order of a plain `async fn`, the last one first. An `async
//! move` block drops what it captured in the order of the first mention, after its variables.

use crate::{
    model::{Count, Key, KeyPart, Kind, Lock, OnError, Pool, What},
    pattern::{borrowed, bound_names, ignores_parts},
    signature::{Form, Function, mentions},
};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Attribute, Expr, FnArg, Ident, Pat, PatIdent, PatParen, PatType, Receiver, ReceiverKind, Type,
    ext::IdentExt as _, token::Paren,
};

/// A parameter that the body owns.
pub(crate) struct Owned {
    /// `cfg`, and lints if the body gets a variable of its own.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) name: Ident,
    pub(crate) how: How,
}

pub(crate) enum How {
    /// By a mention: it is stored once.
    Captured,
    /// By a mention that binds its name again, so that the compiler still calls it unused.
    Unused,
    /// By a variable, or those of a pattern with what the pattern leaves, as the compiler does it
    /// for an `async fn`. The names in `used` are used by a key alone.
    Bound { pat: Box<Pat>, used: Vec<Ident> },
}

/// Types that own nothing, if they mean what they say; references are the others.
const PLAIN: [&str; 16] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64", "bool", "char",
];

/// Attributes that do not read the signature; another one may want the names in it.
const BLIND: [&str; 13] = [
    "doc",
    "allow",
    "expect",
    "warn",
    "deny",
    "forbid",
    "must_use",
    "inline",
    "cold",
    "cfg",
    "deprecated",
    "track_caller",
    "clippy",
];

/// Finds them, in the order of the signature, and gives those that have no name one that the body
/// can't see.
pub(crate) fn take(function: &mut Function, form: &Form, locks: &[Lock]) -> Vec<Owned> {
    let blind = function.attrs.iter().all(|it| is_one_of(it, &BLIND));
    let mut finder = Finder {
        body: TokenStream::new(),
        exprs: locks.iter().flat_map(Lock::exprs).collect(),
        roots: locks.iter().flat_map(Lock::roots).cloned().collect(),
        blind,
        binds: false,
        found: Vec::new(),
    };
    match form {
        Form::Async => {
            finder.body = function.body.clone();
            for (index, argument) in function.sig.inputs.iter_mut().enumerate() {
                match argument {
                    FnArg::Receiver(it) if is_owned(it) => {
                        finder.add(Ident::new("self", it.self_token.span), Vec::new());
                    }
                    FnArg::Receiver(_) => {}
                    FnArg::Typed(it) => finder.parameter(index, it),
                }
            }
        }
        Form::AsyncTrait(method) => {
            finder.body = method.body().1;
            for (attrs, name) in method.locals() {
                if function.sig.inputs.iter().all(|it| may_own(it, &name)) {
                    finder.add(name, attrs);
                }
            }
        }
    }
    finder.found
}

/// Whether the variable that `#[async_trait]` made of this argument, if it did, owns anything.
pub(crate) fn may_own(argument: &FnArg, name: &Ident) -> bool {
    match argument {
        FnArg::Receiver(it) => name != "__self" || is_owned(it),
        FnArg::Typed(it) => {
            !matches!(&*it.pat, Pat::Ident(pat) if pat.ident == *name) || owns(&it.ty)
        }
    }
}

pub(crate) fn is_owned(receiver: &Receiver) -> bool {
    match &receiver.kind {
        ReceiverKind::Reference(..) => false,
        ReceiverKind::Typed(_, ty) => owns(ty),
        _ => true,
    }
}

/// Whether dropping a value of this type may do anything.
pub(crate) fn owns(ty: &Type) -> bool {
    match ty {
        Type::Reference(_) => false,
        Type::Path(it) => {
            (it.path.get_ident()).is_none_or(|it| !PLAIN.iter().any(|name| it == name))
        }
        _ => true,
    }
}

pub(crate) fn is_one_of(attribute: &Attribute, names: &[&str]) -> bool {
    let first = attribute.path().segments.first();
    first.is_some_and(|first| names.iter().any(|name| first.ident == name))
}

struct Finder {
    body: TokenStream,
    /// What the attribute evaluates as it is written: it may move an argument.
    exprs: TokenStream,
    /// What the attribute only looks at.
    roots: Vec<Ident>,
    /// Whether no attribute below ours wants to know the names in the signature.
    blind: bool,
    /// Whether an argument before this one was bound, so that this one has to be, too.
    binds: bool,
    found: Vec<Owned>,
}

impl Finder {
    fn parameter(&mut self, index: usize, argument: &mut PatType) {
        if !owns(&argument.ty) {
            return;
        }
        let cfgs = attributes(argument, &["cfg"]);
        let hidden = Ident::new(&format!("__arg{index}"), Span::mixed_site());
        match &*argument.pat {
            Pat::Wild(_) if !self.binds => {
                *argument.pat = in_parentheses(&hidden);
                self.add(hidden, cfgs);
            }
            Pat::Ident(it) if it.by_ref.is_none() && it.subpat.is_none() => {
                let name = it.ident.clone();
                if self.binds && !is_moved_by(&self.exprs, &name) {
                    self.bind(name, argument);
                } else if self.is_used(&name) {
                    self.add(name, cfgs);
                } else {
                    let attrs = taken_lints(argument);
                    self.add(name, attrs);
                }
            }
            pat if (self.binds || ignores_parts(pat)) && self.can_bind(pat) => {
                self.binds = true;
                self.bind(hidden, argument);
            }
            pat => {
                for name in names(pat) {
                    self.add(name, cfgs.clone());
                }
            }
        }
    }

    /// A pattern is bound in the body only: keys see it by reference.
    fn can_bind(&self, pat: &Pat) -> bool {
        let is_root = |name: &Ident| self.roots.contains(name);
        let moved = |name: &Ident| is_moved_by(&self.exprs, name);
        self.blind && !names(pat).iter().any(moved) && borrowed(pat, is_root).is_some()
    }

    fn bind(&mut self, name: Ident, argument: &mut PatType) {
        let attrs = taken_lints(argument);
        let visible = match &mut *argument.pat {
            Pat::Ident(it) if it.ident == name => Pat::Ident(PatIdent {
                mutability: None,
                ..it.clone()
            }),
            _ => in_parentheses(&name),
        };
        let pat = std::mem::replace(&mut argument.pat, Box::new(visible));
        let body = &self.body;
        let mut used = names(&pat);
        used.retain(|name| self.roots.contains(name) && !mentions(body.clone(), &plain(name)));
        let how = How::Bound { pat, used };
        self.found.push(Owned { attrs, name, how });
    }

    /// Adds a captured name, unless an expression of the attribute may have moved it.
    fn add(&mut self, name: Ident, attrs: Vec<Attribute>) {
        if !is_moved_by(&self.exprs, &name) {
            let how = if self.is_used(&name) {
                How::Captured
            } else {
                How::Unused
            };
            self.found.push(Owned { attrs, name, how });
        }
    }

    /// Whether the compiler would not call it unused. A name in capitals may be a constant, which
    /// can't be bound.
    fn is_used(&self, name: &Ident) -> bool {
        let text = plain(name);
        text == "self"
            || text.starts_with('_')
            || text.starts_with(char::is_uppercase)
            || self.roots.contains(name)
            || mentions(self.body.clone(), &text)
    }
}

fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}

fn is_moved_by(exprs: &TokenStream, name: &Ident) -> bool {
    mentions(exprs.clone(), &plain(name))
}

fn names(pat: &Pat) -> Vec<Ident> {
    let mut names = Vec::new();
    bound_names(pat, &mut names);
    names
}

fn attributes(argument: &PatType, names: &[&str]) -> Vec<Attribute> {
    let attrs = argument.attrs.iter().filter(|it| is_one_of(it, names));
    attrs.cloned().collect()
}

/// The attributes for a variable of the body. Its expectations leave the signature, where the lint
/// no longer fires.
fn taken_lints(argument: &mut PatType) -> Vec<Attribute> {
    let lints = [
        "cfg", "cfg_attr", "allow", "expect", "warn", "deny", "forbid",
    ];
    let attrs = attributes(argument, &lints);
    argument.attrs.retain(|it| !is_one_of(it, &["expect"]));
    attrs
}

/// `(name)`: attributes such as `tracing::instrument`, which record what an argument is called,
/// look for a name without parentheses.
fn in_parentheses(name: &Ident) -> Pat {
    Pat::Paren(PatParen {
        attrs: Vec::new(),
        paren_token: Paren(name.span()),
        pat: Box::new(Pat::Ident(PatIdent {
            attrs: Vec::new(),
            by_ref: None,
            mutability: None,
            ident: name.clone(),
            subpat: None,
        })),
    })
}

impl Lock {
    /// The names that placeholders begin with, and the pool, which is cloned: they are not moved.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Ident> {
        let parts = self.keys().into_iter().flat_map(|key| match key {
            Key::Template { parts, .. } => parts.as_slice(),
            Key::Constant(_) | Key::Expr(_) => &[],
        });
        let roots = parts.filter_map(|part| match part {
            KeyPart::Value { root, .. } => Some(root),
            KeyPart::Text(_) => None,
        });
        let pool = match &self.pool {
            Some(Pool::Expr(pool)) => root_of(pool),
            _ => None,
        };
        roots.chain(pool)
    }

    fn keys(&self) -> Vec<&Key> {
        let owner = match &self.kind {
            Kind::Owned(owner) => Some(owner),
            _ => None,
        };
        let keys = match &self.what {
            What::One(one) => std::slice::from_ref(one),
            What::List(keys) => keys.as_slice(),
            What::ConstantList(_) | What::ListExpr(_) => &[],
        };
        keys.iter().chain(owner).collect()
    }

    /// What it evaluates as it is written, and not by reference.
    fn exprs(&self) -> TokenStream {
        let keys = self.keys().into_iter().filter_map(|key| match key {
            Key::Expr(expr) => Some(&**expr),
            Key::Template { .. } | Key::Constant(_) => None,
        });
        let list = match &self.what {
            What::ListExpr(list) => Some(&**list),
            _ => None,
        };
        let counts = match &self.kind {
            Kind::Permits { of, take } => [Some(of), take.as_ref()],
            _ => [None, None],
        };
        let counts = counts
            .into_iter()
            .flatten()
            .filter_map(|count| match count {
                Count::Expr(expr) => Some(&**expr),
                Count::Known(_) => None,
            });
        let pool = match &self.pool {
            Some(Pool::Expr(pool)) if root_of(pool).is_none() => Some(&**pool),
            _ => None,
        };
        let on_error = match &self.on_error {
            OnError::MapErr(function) | OnError::Output(function) => Some(function),
            OnError::From => None,
        };
        let all = keys.chain(list).chain(counts).chain(pool).chain(on_error);
        all.map(quote::ToTokens::to_token_stream).collect()
    }
}

/// `self` of `self.locks`; `None` if it is more than a variable and its fields.
fn root_of(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Field(it) => root_of(&it.base),
        Expr::Path(it) => it.path.get_ident(),
        _ => None,
    }
}

/// The statements at the beginning of a body. Around another lock it only passes them on.
pub(crate) fn statements(owned: &[Owned], is_innermost: bool) -> TokenStream {
    let captured = owned.iter().rev().filter_map(|it| match &it.how {
        How::Unused if is_innermost => {
            let (attrs, name) = (&it.attrs, &it.name);
            Some(quote!(#(#attrs)* let #name = &#name;))
        }
        How::Bound { .. } if is_innermost => None,
        _ => Some(it.mention()),
    });
    let bound = owned.iter().filter_map(|it| match &it.how {
        How::Bound { pat, used } if is_innermost => Some(it.bound(pat, used)),
        _ => None,
    });
    captured.chain(bound).collect()
}

/// The variables of patterns, for the templates of one lock.
pub(crate) fn seen_by(lock: &Lock, owned: &[Owned]) -> TokenStream {
    let is_root = |name: &Ident| lock.roots().any(|root| root == name);
    let seen = owned.iter().filter_map(|it| match &it.how {
        How::Bound { pat, .. } if !is_name(pat, &it.name) => {
            let pat = borrowed(pat, is_root)?;
            let mut names = names(&pat);
            names.retain(is_root);
            let (cfgs, name) = (it.cfgs(), &it.name);
            (!names.is_empty()).then(|| quote!(#(#cfgs)* let #pat = &#name;))
        }
        _ => None,
    });
    seen.collect()
}

fn is_name(pat: &Pat, name: &Ident) -> bool {
    matches!(pat, Pat::Ident(it) if it.ident == *name)
}

impl Owned {
    fn cfgs(&self) -> impl Iterator<Item = &Attribute> {
        self.attrs.iter().filter(|it| is_one_of(it, &["cfg"]))
    }

    fn mention(&self) -> TokenStream {
        let (cfgs, allow, name) = (self.cfgs(), self.allow(), &self.name);
        quote!(#(#cfgs)* #allow let _ = &#name;)
    }

    fn bound(&self, pat: &Pat, used: &[Ident]) -> TokenStream {
        let (attrs, cfgs, allow, name) = (&self.attrs, self.cfgs(), self.allow(), &self.name);
        // It is `mut` because the pattern may have a `ref mut`.
        let whole = (!is_name(pat, name)).then(|| quote!(#(#cfgs)* let mut #name = #name;));
        let cfgs = self.cfgs().collect::<Vec<_>>();
        let used = used.iter().map(|name| quote!(#(#cfgs)* let _ = &#name;));
        quote!(#whole #(#attrs)* #allow let #pat = #name; #(#used)*)
    }

    /// A `_name` that the user does not use.
    fn allow(&self) -> Option<TokenStream> {
        let name = self.name.to_string();
        let is_hushed = name.starts_with('_') && !name.starts_with("__");
        is_hushed.then(|| quote!(#[allow(clippy::used_underscore_binding)]))
    }
}
