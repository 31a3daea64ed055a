//! The function below the attribute: its signature, its return type, and its body as tokens.
//!
//! The body of an async function is never parsed, so syntax that syn does not know yet passes
//! through, and an unfinished line does not cost the editor the function.

use crate::{async_trait::AsyncTrait, pattern::bound_names};
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::{
    Attribute, FnArg, Ident, Pat, ReturnType, Signature, Token, Type, TypeInfer, TypePath,
    Visibility, braced,
    ext::IdentExt as _,
    parse::{Parse, ParseStream},
    spanned::Spanned as _,
    token::Brace,
    visit_mut::{self, VisitMut},
};

/// The static at the beginning of a locked function.
pub(crate) const SPEC: &str = "__DLOCK_SPEC";

/// A function with a body.
pub(crate) struct Function {
    /// Its attributes, except ours.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// `#![…]` at the beginning of the body.
    pub(crate) inner_attrs: Vec<Attribute>,
    pub(crate) brace: Brace,
    pub(crate) body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if !starts_function(input) {
            let item = first(input.parse()?);
            let message = match item.to_string().as_str() {
                "impl" | "trait" => {
                    "`#[distributed_lock]` goes on an `async fn`: put it on the methods inside"
                }
                _ => "`#[distributed_lock]` goes on an `async fn`, not on this item: move it there",
            };
            return Err(syn::Error::new_spanned(item, message));
        }
        let sig: Signature = input.parse()?;
        if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            let message = "this function has no body to lock: write one, or for a method of a trait put `#[distributed_lock]` on those of the `impl` blocks";
            return Err(syn::Error::new_spanned(&sig.ident, message));
        }
        let content;
        let brace = braced!(content in input);
        let inner_attrs = content.call(Attribute::parse_inner)?;
        Ok(Self {
            attrs,
            vis,
            sig,
            inner_attrs,
            brace,
            body: content.parse()?,
        })
    }
}

/// `const`, `async`, `unsafe` and `extern` begin a function, but also blocks and items that are
/// none.
fn starts_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let _ = ahead.parse::<Option<Token![const]>>();
    let _ = ahead.parse::<Option<Token![async]>>();
    let _ = ahead.parse::<Option<Token![unsafe]>>();
    let _ = ahead.parse::<Option<syn::Abi>>();
    ahead.peek(Token![fn])
}

fn first(tokens: TokenStream) -> TokenStream {
    tokens.into_iter().take(1).collect()
}

/// Why `main` can't have a lock, whether above its own attribute or below it.
pub(crate) const ON_MAIN: &str = "the lock of `main` would be taken before its body calls `init`: put `#[distributed_lock]` on an `async fn` \
     that `main` calls";

/// Whether a name, without `r#`, occurs in the tokens, or as a word in a literal: `"{name}"`.
pub(crate) fn mentions(tokens: TokenStream, name: &str) -> bool {
    use syn::ext::IdentExt as _;
    let is_end = |sign: char| !sign.is_alphanumeric() && sign != '_';
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident.unraw() == name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Literal(literal) => literal.to_string().split(is_end).any(|word| word == name),
        TokenTree::Punct(_) => false,
    })
}

/// `impl Future`, `Pin<Box<dyn Future>>`, `BoxFuture`: recognized by the name only.
fn returns_future(output: &ReturnType) -> bool {
    let future = |tree: TokenTree| matches!(tree, TokenTree::Ident(name) if name.to_string().ends_with("Future"));
    match output {
        ReturnType::Type(_, ty) => ty.to_token_stream().into_iter().any(future),
        ReturnType::Default => false,
    }
}

/// The form of the function that the attribute got.
pub(crate) enum Form {
    /// `async fn`
    Async,
    /// What `#[async_trait]` made of an `async fn`: it stands on the whole `impl`, so it is
    /// expanded first.
    AsyncTrait(Box<AsyncTrait>),
}

impl Function {
    /// The function's form, or what is wrong with the function.
    pub(crate) fn form(&self) -> Result<Form, syn::Error> {
        if let Some(token) = &self.sig.constness {
            return Err(syn::Error::new_spanned(
                token,
                "`#[distributed_lock]` cannot go on a `const fn`, since a lock needs a server: write `async fn`",
            ));
        }
        if let Some(abi) = &self.sig.abi {
            return Err(syn::Error::new_spanned(
                abi,
                "`#[distributed_lock]` cannot go on an `extern fn`: put it on an `async fn` that this one calls",
            ));
        }
        if self.sig.asyncness.is_some() {
            return Ok(Form::Async);
        }
        if crate::async_trait::made(&self.sig) {
            return AsyncTrait::find(&self.sig, &self.body).map(|found| Form::AsyncTrait(Box::new(found))).ok_or_else(|| {
                let message = "this body does not have the form that `#[async_trait]` 0.1 writes: move the work into an \
                               `async fn` and put `#[distributed_lock]` there";
                syn::Error::new_spanned(&self.sig.ident, message)
            });
        }
        Err(syn::Error::new_spanned(self.sig.fn_token, self.not_async()))
    }

    /// What to write instead of a function that is not async.
    fn not_async(&self) -> &'static str {
        if self.sig.ident == "main" {
            ON_MAIN
        } else if mentions(self.body.clone(), "block_on") {
            "below `#[tokio::test]`, `#[tokio::main]` and the like a function is no longer async: put `#[distributed_lock]` above them"
        } else if returns_future(&self.sig.output) {
            "this function only makes a future, and the lock would end before that runs: write it as `async fn`, above attributes that change it"
        } else {
            "this function is not async, and a lock is waited for: write `async fn`"
        }
    }

    /// The name, if this is a `main` that starts its own runtime below our attribute.
    pub(crate) fn main(&self) -> Option<&Ident> {
        let starts = |attribute: &Attribute| {
            let last = attribute.meta.path().segments.last();
            last.is_some_and(|last| last.ident == "main")
        };
        (self.sig.ident == "main" && self.attrs.iter().any(starts)).then_some(&self.sig.ident)
    }

    /// Whether this function has been expanded by a use of the attribute above us that did not see
    /// us.
    pub(crate) fn is_locked(&self, form: &Form) -> bool {
        let body = match form {
            Form::Async => self.body.clone(),
            Form::AsyncTrait(method) => method.body().1,
        };
        let second = body.into_iter().nth(1);
        matches!(second, Some(TokenTree::Ident(name)) if name == SPEC)
    }

    /// The name for messages and the static, without `r#`.
    pub(crate) fn name(&self) -> String {
        use syn::ext::IdentExt as _;
        self.sig.ident.unraw().to_string()
    }

    /// `self`, as the receiver has it.
    pub(crate) fn receiver(&self) -> Option<Ident> {
        self.sig
            .receiver()
            .map(|receiver| Ident::new("self", receiver.self_token.span))
    }

    /// Whether a type parameter, or `impl …`, stands in the type of the argument that binds this name.
    pub(crate) fn is_of_parameter(&self, name: &Ident) -> bool {
        let parameters = || self.sig.generics.type_params();
        self.sig.inputs.iter().any(|argument| match argument {
            FnArg::Typed(it) => {
                let (mut names, ty) = (Vec::new(), it.ty.to_token_stream());
                bound_names(&it.pat, &mut names);
                names.iter().any(|it| it.unraw() == name.unraw())
                    && (mentions(ty.clone(), "impl")
                        || parameters()
                            .any(|it| mentions(ty.clone(), &it.ident.unraw().to_string())))
            }
            FnArg::Receiver(_) => false,
        })
    }

    /// Whether this is an argument `name: T`, `&T` or `impl …`.
    pub(crate) fn is_generic(&self, name: &Ident) -> bool {
        let sig = &self.sig;
        let is_parameter = |mut ty: &Type| {
            while let Type::Reference(reference) = ty {
                ty = &reference.elem;
            }
            match ty {
                Type::ImplTrait(_) => true,
                Type::Path(path) => {
                    let parameters = || sig.generics.type_params();
                    let ident = path.path.get_ident();
                    ident.is_some_and(|ident| parameters().any(|it| it.ident == *ident))
                }
                _ => false,
            }
        };
        sig.inputs.iter().any(|argument| match argument {
            FnArg::Typed(it) => {
                let named =
                    matches!(&*it.pat, Pat::Ident(pat) if pat.ident.unraw() == name.unraw());
                named && is_parameter(&it.ty)
            }
            FnArg::Receiver(_) => false,
        })
    }

    /// The names that the patterns of the arguments bind.
    pub(crate) fn names(&self) -> Vec<Ident> {
        let mut names = Vec::new();
        for argument in &self.sig.inputs {
            if let FnArg::Typed(argument) = argument {
                bound_names(&argument.pat, &mut names);
            }
        }
        names
    }
}

/// The return type: as it can be written inside the body, and where errors about it are shown.
pub(crate) struct Output {
    /// The return type with every `impl Trait` replaced by `_`.
    pub(crate) ty: TokenStream,
    pub(crate) span: Span,
    pub(crate) kind: OutputKind,
}

#[derive(PartialEq, Eq)]
pub(crate) enum OutputKind {
    Unit,
    Never,
    /// Recognized by its name: the macro can't resolve an alias.
    Option,
    Other,
}

impl Output {
    pub(crate) fn of(function: &Function, form: &Form) -> Self {
        let name = &function.sig.ident;
        match (form, &function.sig.output) {
            (Form::AsyncTrait(body), _) => Self::of_type(body.output()),
            (Form::Async, ReturnType::Type(_, ty)) => Self::of_type(ty),
            (Form::Async, ReturnType::Default) => Self {
                ty: quote_spanned!(name.span()=> ()),
                span: name.span(),
                kind: OutputKind::Unit,
            },
        }
    }

    /// Whether it is nothing but a type parameter of this function.
    pub(crate) fn is_parameter_of(&self, function: &Function) -> bool {
        let (ty, mut parameters) = (self.ty.to_string(), function.sig.generics.type_params());
        parameters.any(|it| it.ident == ty)
    }

    fn of_type(ty: &Type) -> Self {
        let kind = match ty {
            Type::Tuple(tuple) if tuple.elems.is_empty() => OutputKind::Unit,
            Type::Never(_) => OutputKind::Never,
            Type::Path(path) if is_option(path) => OutputKind::Option,
            _ => OutputKind::Other,
        };
        let mut erased = ty.clone();
        EraseImplTrait.visit_type_mut(&mut erased);
        Self {
            ty: quote!(#erased),
            span: ty.span(),
            kind,
        }
    }
}

fn is_option(ty: &TypePath) -> bool {
    let last = ty.path.segments.last();
    last.is_some_and(|last| last.ident == "Option" && !last.arguments.is_none())
}

/// `impl Trait` → `_`: it may stand only in the signature.
struct EraseImplTrait;

impl VisitMut for EraseImplTrait {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::ImplTrait(found) = ty {
            *ty = Type::Infer(TypeInfer {
                attrs: Vec::new(),
                underscore_token: Token![_](found.impl_token.span),
            });
        }
        visit_mut::visit_type_mut(self, ty);
    }
}
