//! The one place in `#[async_trait]`'s output where a body can be exchanged.
//!
//! `async_trait` stands on the whole `impl` and is expanded first, so that our attribute meets a plain `fn`. The form is that of
//! async-trait 0.1.92; a body of another form is refused, never guessed at.

use crate::signature::bound_names;
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::{
    Block, Expr, ExprAsync, ExprCall, GenericParam, Local, Pat, Signature, Stmt, Type,
    parse::Parser as _, token::Brace,
};

/// Whether the signature is one that `async_trait` wrote: it adds a lifetime of its own name to every method.
pub(crate) fn made(sig: &Signature) -> bool {
    sig.generics.params.iter().any(|param| matches!(param, GenericParam::Lifetime(param) if param.lifetime.ident == "async_trait"))
}

/// `Box::pin(async move { …; let __ret: T = { body }; … })`, taken apart at the body.
pub(crate) struct AsyncTrait {
    call: ExprCall,
    future: ExprAsync,
    /// What stands before the body: among it `let __self = self;` and one `let` per argument.
    before: Vec<Stmt>,
    /// `let __ret: T = { body };` without the body.
    local: Local,
    output: Type,
    body: Block,
    after: Vec<Stmt>,
}

impl AsyncTrait {
    /// Finds the body, or `None` if the form is another.
    pub(crate) fn find(tokens: &TokenStream) -> Option<Self> {
        let statements = Block::parse_within.parse2(tokens.clone()).ok()?;
        let Ok([Stmt::Expr(Expr::Call(mut call), None)]) = <[Stmt; 1]>::try_from(statements) else {
            return None;
        };
        let (Some(Expr::Async(mut future)), true) = (call.args.pop(), call.args.is_empty()) else {
            return None;
        };
        let mut before = std::mem::take(&mut future.block.stmts);
        let at = before.iter().position(is_body)?;
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
        Some(Self {
            call,
            future,
            before,
            local,
            output,
            body: body.block,
            after: rest.collect(),
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

    /// The names that are bound where the body stands, besides the arguments of the signature.
    pub(crate) fn names(&self) -> Vec<Ident> {
        let mut names = Vec::new();
        for statement in &self.before {
            if let Stmt::Local(local) = statement {
                bound_names(&local.pat, &mut names);
            }
        }
        names.retain(|name| name != "__self" && !name.to_string().starts_with("__arg"));
        names
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
            before,
            local,
            after,
            ..
        } = self;
        let (function, token, capture) = (&call.func, &future.async_token, &future.capture);
        let (let_token, pat, semi) = (&local.let_token, &local.pat, &local.semi_token);
        quote! {
            #function(#token #capture {
                #(#before)*
                #let_token #pat = { #statements } #semi
                #(#after)*
            })
        }
    }
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
pub(crate) fn rename_self_in(expr: &Expr) -> Expr {
    let renamed = rename_self(expr.to_token_stream());
    // One name for another: it parses as it did.
    syn::parse2(renamed.clone()).unwrap_or(Expr::Verbatim(renamed))
}
