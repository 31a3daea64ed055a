//! Finds the user's body in the output of `#[async_trait]`, and replaces it.
//!
//! `async_trait` stands on the whole `impl` and is expanded first, so our attribute gets a plain
//! `fn`. The form is that of async-trait 0.1.92. If an attribute between the two
//! (`#[tracing::instrument]`) has wrapped the body in a future of its own, the lock goes around all
//! of that, as on an `async fn`. A body of another form is refused, never guessed at.

use crate::pattern::bound_names;
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::{
    Attribute, Block, Expr, ExprAsync, ExprCall, GenericArgument, GenericParam, Local, Pat,
    Signature, Stmt, Type, parse::Parser as _, token::Brace, visit_mut::VisitMut,
};

/// Whether `async_trait` wrote this signature: it adds a lifetime of its own name to every method.
pub(crate) fn made(sig: &Signature) -> bool {
    sig.generics.params.iter().any(|param| matches!(param, GenericParam::Lifetime(param) if param.lifetime.ident == "async_trait"))
}

/// `Box::pin(async move { …; let __ret: T = { body }; … })`, split at the body.
pub(crate) struct AsyncTrait {
    call: ExprCall,
    future: ExprAsync,
    output: Type,
    body: Block,
    /// `None` if the body is the whole future.
    around: Option<Around>,
}

/// The statements of the future around the body.
struct Around {
    /// Includes `let __self = self;` and one `let` per argument.
    before: Vec<Stmt>,
    /// `let __ret: T = { body };` without the body.
    local: Local,
    after: Vec<Stmt>,
}

impl AsyncTrait {
    /// Finds the body; `None` if the function has another form.
    pub(crate) fn find(sig: &Signature, tokens: &TokenStream) -> Option<Self> {
        let statements = Block::parse_within.parse2(tokens.clone()).ok()?;
        let Ok([Stmt::Expr(Expr::Call(mut call), None)]) = <[Stmt; 1]>::try_from(statements) else {
            return None;
        };
        let (Some(Expr::Async(mut future)), true) = (call.args.pop(), call.args.is_empty()) else {
            return None;
        };
        let Some(at) = future.block.stmts.iter().position(is_body) else {
            let output = output_of(sig)?;
            let block = Block {
                brace_token: future.block.brace_token,
                stmts: Vec::new(),
            };
            let body = std::mem::replace(&mut future.block, block);
            return Some(Self {
                call,
                future,
                output,
                body,
                around: None,
            });
        };
        let mut before = std::mem::take(&mut future.block.stmts);
        let mut rest = before.split_off(at).into_iter();
        let Some(Stmt::Local(mut local)) = rest.next() else {
            return None;
        };
        let Pat::Type(pat) = &local.pat else {
            return None;
        };
        let output = (*pat.ty).clone();
        let Expr::Block(body) = *local.init.take()?.expr else {
            return None;
        };
        let after = rest.collect();
        Some(Self {
            call,
            future,
            output,
            body: body.block,
            around: Some(Around {
                before,
                local,
                after,
            }),
        })
    }

    pub(crate) fn output(&self) -> &Type {
        &self.output
    }

    /// The user's statements.
    pub(crate) fn body(&self) -> (Brace, TokenStream) {
        let statements = &self.body.stmts;
        (self.body.brace_token, quote!(#(#statements)*))
    }

    /// The name of `self` where the body stands.
    pub(crate) fn receiver(&self) -> &'static str {
        if self.around.is_some() {
            "__self"
        } else {
            "self"
        }
    }

    /// An expression of our attribute, rewritten for where the body stands.
    pub(crate) fn expr(&self, expr: Expr) -> Expr {
        match self.around {
            Some(_) => rename_self_in(&expr),
            None => expr,
        }
    }

    /// The names that are bound where the body stands, besides the arguments of the signature.
    pub(crate) fn names(&self) -> Vec<Ident> {
        let mut names: Vec<_> = self.locals().map(|(_, name)| name).collect();
        names.retain(|name| name != "__self" && !name.to_string().starts_with("__arg"));
        names
    }

    /// Whether it has bound the arguments to variables around the body.
    pub(crate) fn has_variables(&self) -> bool {
        self.around.is_some()
    }

    /// The statements that bind variables around the body.
    pub(crate) fn variables(&mut self) -> impl Iterator<Item = &mut Local> {
        let around = self.around.iter_mut();
        let before = around.flat_map(|around| &mut around.before);
        before.filter_map(|statement| match statement {
            Stmt::Local(local) => Some(local),
            _ => None,
        })
    }

    /// The variables around the body, with the attributes of their statements.
    pub(crate) fn locals(&self) -> impl Iterator<Item = (Vec<Attribute>, Ident)> {
        let before = self.around.iter().flat_map(|around| &around.before);
        let locals = before.filter_map(|statement| match statement {
            Stmt::Local(local) => Some(local),
            _ => None,
        });
        locals.flat_map(|local| {
            let mut names = Vec::new();
            bound_names(&local.pat, &mut names);
            names.into_iter().map(|name| (local.attrs.clone(), name))
        })
    }

    // Input:
    //     let __key = …;
    //     match run(&__DLOCK_SPEC, __key, __body).await { … }
    //
    // Output:
    //     Box::pin(async move {
    //         let __self = self;
    //         let id = id;
    //         let __ret: Result<(), E> = {
    //             let __key = …;
    //             match run(&__DLOCK_SPEC, __key, __body).await { … }
    //         };
    //         __ret
    //     })
    pub(crate) fn fill(&self, statements: &TokenStream) -> TokenStream {
        let Self {
            call,
            future,
            around,
            ..
        } = self;
        let (function, token, capture) = (&call.func, &future.async_token, &future.capture);
        let filled = match around {
            Some(Around {
                before,
                local,
                after,
            }) => {
                let (let_token, pat, semi) = (&local.let_token, &local.pat, &local.semi_token);
                quote! {
                    #(#before)*
                    #let_token #pat = { #statements } #semi
                    #(#after)*
                }
            }
            None => statements.clone(),
        };
        quote!(#function(#token #capture { #filled }))
    }
}

/// `T` of `Pin<Box<dyn Future<Output = T> + …>>`.
fn output_of(sig: &Signature) -> Option<Type> {
    struct Outputs(Option<Type>);
    impl VisitMut for Outputs {
        fn visit_generic_argument_mut(&mut self, argument: &mut GenericArgument) {
            match argument {
                GenericArgument::AssocType(found) if found.ident == "Output" => {
                    self.0.get_or_insert_with(|| found.ty.clone());
                }
                _ => syn::visit_mut::visit_generic_argument_mut(self, argument),
            }
        }
    }
    let mut found = Outputs(None);
    found.visit_return_type_mut(&mut sig.output.clone());
    found.0
}

/// `let __ret: T = { … };`, or `let _: () = { … };` for a method that returns nothing.
fn is_body(statement: &Stmt) -> bool {
    let Stmt::Local(Local {
        pat: Pat::Type(pat),
        init: Some(init),
        ..
    }) = statement
    else {
        return false;
    };
    let name = match &*pat.pat {
        Pat::Ident(name) => name.ident == "__ret",
        Pat::Wild(_) => true,
        _ => false,
    };
    name && init.diverge.is_none() && matches!(*init.expr, Expr::Block(_))
}

/// `self` → `__self`, as `async_trait` does in the body, for an expression of our attribute.
fn rename_self(tokens: TokenStream) -> TokenStream {
    let rename = |tree| match tree {
        TokenTree::Ident(ident) if ident == "self" => {
            TokenTree::Ident(Ident::new("__self", ident.span()))
        }
        TokenTree::Group(group) => {
            let mut renamed = Group::new(group.delimiter(), rename_self(group.stream()));
            renamed.set_span(group.span());
            TokenTree::Group(renamed)
        }
        other => other,
    };
    tokens.into_iter().map(rename).collect()
}

/// [`rename_self`] for an expression.
fn rename_self_in(expr: &Expr) -> Expr {
    let renamed = rename_self(expr.to_token_stream());
    // Only names were replaced, so it parses as before.
    syn::parse2(renamed.clone()).unwrap_or(Expr::Verbatim(renamed))
}
