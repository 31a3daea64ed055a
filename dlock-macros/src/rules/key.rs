//! The rules of a key template: every placeholder begins with a name that exists.
//!
//! The syntax of a template is checked in `template`.

use super::{Scope, notation};
use crate::{
    errors::Errors,
    model::{Key, KeyPart},
    signature::Form,
    template::{self, Fault, Part, Place, Template},
};
use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Expr, Ident, LitStr, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

/// Checks `lock_key!`: the crate's path, a comma, the template.
pub(crate) fn lock_key(input: TokenStream) -> Result<(TokenStream, Key), syn::Error> {
    let parser = |input: ParseStream<'_>| {
        let mut krate = TokenStream::new();
        while !input.is_empty() && !input.peek(Token![,]) {
            krate.extend([input.parse::<TokenTree>()?]);
        }
        input.parse::<Token![,]>()?;
        let literal: LitStr = input.parse().map_err(|e| {
            syn::Error::new(
                e.span(),
                "expected a key template: write `lock_key!(\"item:<id>\")`",
            )
        })?;
        input.parse::<Option<Token![,]>>()?;
        if input.is_empty() {
            Ok((krate, literal))
        } else {
            Err(input.error("`lock_key!` takes one key template, values in it: write `lock_key!(\"item:<id>\")`"))
        }
    };
    let (krate, literal) = parser.parse2(input)?;
    let mut errors = Errors::default();
    let span = literal.span();
    let template = checked(template::parse, &literal, &mut errors);
    if let Some(error) = template
        .as_ref()
        .and_then(|it| notation::in_lock_key(it, &literal))
    {
        errors.push(error);
    }
    let key = template.map(|template| {
        let part = |part| match part {
            Part::Text(text) => KeyPart::Text(text),
            Part::Place(place) => KeyPart::Value {
                root: template::ident(&place.root, span),
                place,
                generic: false,
                span,
            },
        };
        Key::Template {
            text: literal.value(),
            parts: template.parts.into_iter().map(part).collect(),
        }
    });
    errors.into_result(key.map(|key| (krate, key)))
}

fn checked(
    parse: fn(&str) -> Result<Template, Vec<Fault>>,
    literal: &LitStr,
    errors: &mut Errors,
) -> Option<Template> {
    match parse(&literal.value()) {
        Ok(template) => Some(template),
        Err(faults) => {
            for fault in faults {
                errors.push(fault.at(literal));
            }
            None
        }
    }
}

impl Scope<'_> {
    /// The template of a key in this argument.
    pub(super) fn template(&mut self, literal: &LitStr, argument: &str) -> Option<Key> {
        let template = checked(template::parse, literal, self.errors)?;
        self.parts(template, literal, argument)
    }

    pub(super) fn owner(&mut self, literal: &LitStr) -> Option<Key> {
        let template = checked(template::parse_owner, literal, self.errors)?;
        self.parts(template, literal, "owner")
    }

    fn parts(&mut self, template: Template, literal: &LitStr, argument: &str) -> Option<Key> {
        let mut parts = Some(Vec::new());
        let mut unknown = Vec::new();
        let constant = !template.parts.iter().any(Part::is_place);
        for part in template.parts {
            let part = match part {
                Part::Text(text) => self.text(text, constant, literal, argument),
                Part::Place(place) => self.value(place, literal, argument, &mut unknown),
            };
            // After an unknown name the other names are still checked.
            parts = parts.zip(part).map(|(mut parts, part)| {
                parts.push(part);
                parts
            });
        }
        let text = literal.value();
        parts.map(|parts| Key::Template { text, parts })
    }

    /// A placeholder whose root is known to exist, or may be a constant, which only rustc can know.
    ///
    /// The tokens resolve as the argument does and are shown at the literal: if a `macro_rules!`
    /// writes the key and the function is passed in, or the other way round, the placeholder means
    /// the arguments either way.
    fn value(
        &mut self,
        place: Place,
        literal: &LitStr,
        argument: &str,
        unknown: &mut Vec<String>,
    ) -> Option<KeyPart> {
        let found = if place.root == "self" {
            self.function.receiver().map(|receiver| match self.form {
                Some(Form::AsyncTrait(method)) => Ident::new(method.receiver(), receiver.span()),
                _ => receiver,
            })
        } else {
            let root = template::ident(&place.root, literal.span());
            let bound = self
                .names()
                .into_iter()
                .find(|name| name.unraw() == root.unraw());
            bound.or_else(|| self.may_be_constant(&place.root).then_some(root))
        };
        let Some(mut root) = found else {
            if unknown.contains(&place.root) {
                return None;
            }
            let message = self.unknown(&place.root, argument);
            let end = place.range.start + place.root.len();
            self.errors
                .push(Fault::new(place.range.start..end, message).at(literal));
            unknown.push(place.root);
            return None;
        };
        let span = root.span().located_at(literal.span());
        root.set_span(span);
        let generic = place.steps.is_empty() && self.function.is_generic(&root);
        Some(KeyPart::Value {
            root,
            place,
            generic,
            span,
        })
    }

    /// Whether the root may be a constant. Not if it is an argument in capitals: the compiler would
    /// propose `key = id` for it, which is another key.
    fn may_be_constant(&self, root: &str) -> bool {
        let constants = self.function.sig.generics.const_params();
        let is_parameter = constants.into_iter().any(|it| it.ident == root);
        let is_slip = |name: &Ident| name.unraw().to_string().eq_ignore_ascii_case(root);
        is_parameter || is_constant(root) && !self.names().iter().any(is_slip)
    }

    fn unknown(&self, root: &str, argument: &str) -> String {
        let template = match argument {
            "owner" => "owner's template",
            _ => "key template",
        };
        let function = self.function.name();
        let names = self.names_and_receiver();
        let names: Vec<_> = names.iter().map(Ident::to_string).collect();
        let names = names.join(", ");
        if root == "self" && names.is_empty() {
            return format!(
                "`self` in the {template}, but `{function}` has no receiver: add one, or an argument"
            );
        }
        if root == "self" {
            return format!(
                "`self` in the {template}, but `{function}` has no receiver, arguments are: {names}"
            );
        }
        if names.is_empty() && self.function.sig.inputs.is_empty() {
            return format!(
                "unknown name `{root}` in the {template}, and `{function}` has no arguments: add one, or write plain text"
            );
        }
        if names.is_empty() {
            return format!(
                "unknown name `{root}` in the {template}, and no argument of `{function}` has a name: give it one"
            );
        }
        format!("unknown name `{root}` in the {template}, arguments are: {names}")
    }

    /// As [`names`](Self::names), with the receiver.
    pub(super) fn names_and_receiver(&self) -> Vec<Ident> {
        let receiver = self.function.receiver().into_iter();
        receiver.chain(self.names()).collect()
    }

    /// The names that a placeholder can begin with, in the order of the signature.
    pub(super) fn names(&self) -> Vec<Ident> {
        let mut names = self.function.names();
        if let Some(Form::AsyncTrait(body)) = self.form {
            names.retain(|name| !name.to_string().starts_with("__arg"));
            for name in body.names() {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }
}

/// `KEY`, `keys::KEY`.
pub(super) fn is_constant_path(expr: &Expr) -> bool {
    match expr {
        Expr::Path(path) => path.path.segments.last().is_some_and(|last| {
            let name = last.ident.to_string();
            is_constant(&name) && !name.contains(char::is_lowercase)
        }),
        _ => false,
    }
}

/// Constants and const generics begin with a capital letter.
fn is_constant(name: &str) -> bool {
    name.trim_start_matches("r#")
        .trim_start_matches('_')
        .starts_with(char::is_uppercase)
}
