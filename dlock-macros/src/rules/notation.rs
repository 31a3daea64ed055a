//! Refuses placeholders in the notation of other tools: in a key they are text, so all values would
//! silently share one lock.

use super::Scope;
use crate::model::KeyPart;
use proc_macro2::{Literal, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Ident, LitStr, ext::IdentExt as _};

impl Scope<'_> {
    /// Text, unless it names an argument in another notation: then all its values would share one
    /// lock.
    pub(super) fn text(
        &mut self,
        text: String,
        constant: bool,
        literal: &LitStr,
        argument: &str,
    ) -> Option<KeyPart> {
        // `user:id:<id>` is fine, `user:id` is a forgotten placeholder.
        let signs: &[char] = if constant {
            &['{', '#', '$', ':', '[', '(', '@', '=', '\'']
        } else {
            &['{', '#', '$']
        };
        let names = self.names();
        let Some((written, meant)) = other_notation(&text, signs, &names) else {
            return Some(KeyPart::Text(text));
        };
        let tag = written.starts_with('{') && argument != "owner";
        let message = if tag {
            format!(
                "`{written}` is text in a cluster's hash tag, the same for every value: write `<{meant}>`, or `{{<{meant}>}}` for a hash tag"
            )
        } else {
            let verbatim = said(
                argument,
                &format!("dlock_runtime::Key::verbatim({})", literal.token()),
            );
            format!(
                "`{written}` is text, the same for every value: write `<{meant}>`, or `{verbatim}` if it shall be"
            )
        };
        self.errors.push(syn::Error::new(literal.span(), message));
        None
    }

    /// Reports a template inside an expression, where it is text and all its values would share one
    /// lock; `true` if there is one.
    pub(super) fn template_in(&mut self, tokens: TokenStream, argument: &str) -> bool {
        let mut found = false;
        let mut own = false;
        for tree in tokens {
            own = match tree {
                TokenTree::Group(group) if !own => {
                    found |= self.template_in(group.stream(), argument);
                    false
                }
                TokenTree::Literal(literal) => {
                    found |= self.is_template(&literal, argument);
                    false
                }
                TokenTree::Punct(punct) => own && punct.as_char() == '!',
                // The user calls the macro or says that it is text.
                TokenTree::Ident(ident) => ident == "lock_key" || ident == "verbatim",
                TokenTree::Group(_) => false,
            };
        }
        found
    }

    fn is_template(&mut self, literal: &Literal, argument: &str) -> bool {
        let Ok(text) = syn::parse2::<LitStr>(literal.to_token_stream()) else {
            return false;
        };
        let text = text.value();
        let found = self.names().into_iter().find(|name| {
            let begin = format!("<{name}");
            let after = text.split_once(&begin).map(|(_, after)| after);
            after.is_some_and(|after| after.starts_with(['>', '.']))
        });
        if let Some(name) = &found {
            let template = match argument {
                "keys" => format!("keys = [\"item:<{name}>\"]"),
                _ => format!("{argument} = \"item:<{name}>\""),
            };
            let message = format!(
                "in an expression `<{name}>` is text, the same for every value: write the template alone, `{template}`, \
                 or `dlock_runtime::lock_key!(\"item:<{name}>\")`"
            );
            self.errors.at(literal, message);
        }
        found.is_some()
    }
}

/// A value as it is written in its argument; the keys of a list have no name.
fn said(argument: &str, value: &str) -> String {
    match argument {
        "keys" => value.to_owned(),
        _ => format!("{argument} = {value}"),
    }
}

/// Finds a placeholder in another notation: `{id}` and `{id:?}` as in `format!`, `{order.id}`,
/// `#id` as in Spring, `$id` as in a shell, `:id` as in a route, `[id]`, `(id)`, `@id`, `=id`,
/// `'id` as people write, `id>` with a forgotten `<`. Returns it as written, and the name in it.
fn other_notation(text: &str, signs: &[char], names: &[Ident]) -> Option<(String, String)> {
    let of_place = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let known = |place: &str| {
        let root = place.split('.').next().unwrap_or_default();
        names.iter().any(|name| name.unraw() == root)
    };
    for (at, sign) in text.match_indices(signs) {
        let rest = text.get(at + 1..).unwrap_or_default();
        let (place, after) = rest.split_at(rest.find(|c| !of_place(c)).unwrap_or(rest.len()));
        let place = place.trim_end_matches('.');
        let written = match (sign, after.split_once('}')) {
            ("{", None) => continue,
            ("{", Some((spec, _))) => format!("{{{place}{spec}}}"),
            _ if after.starts_with('>') => continue,
            _ => format!("{sign}{place}"),
        };
        if known(place) {
            return Some((written, place.to_owned()));
        }
    }
    text.match_indices('>').find_map(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let place = before.rsplit(|c| !of_place(c)).next().unwrap_or_default();
        known(place).then(|| (format!("{place}>"), place.to_owned()))
    })
}
