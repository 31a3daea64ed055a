//! Refuses placeholders in the notation of other tools: in a key they are text, so all values would
//! silently share one lock.

use super::Scope;
use crate::model::KeyPart;
use crate::template::{self, Part, Template};
use proc_macro2::{Literal, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Ident, LitStr, ext::IdentExt as _};

/// What begins a placeholder in other tools, and is seldom text.
const SIGNS: &[char] = &['{', '#', '$'];

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
            SIGNS
        };
        let (names, all) = (self.names(), self.names_and_receiver());
        let found = other_notation(&text, signs, false, |root, _| is_one_of(&names, root));
        // `:self` is a word like any other.
        let found =
            found.or_else(|| other_notation(&text, SIGNS, false, |root, _| is_one_of(&all, root)));
        let found = found.or_else(|| unopened(&text, &names));
        let Some((written, meant)) = found else {
            return Some(KeyPart::Text(text));
        };
        let tag = written.starts_with('{') && argument != "owner";
        let verbatim = said(
            argument,
            &format!("dlock_runtime::Key::verbatim({})", literal.token()),
        );
        let message = if tag {
            format!(
                "`{written}` is text in a cluster's hash tag, the same for every value: write `<{meant}>`, `{{<{meant}>}}` for a hash tag, or `{verbatim}` if it shall be"
            )
        } else {
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
        let mut own = Own::No;
        for tree in tokens {
            own = match tree {
                TokenTree::Group(group) if own == Own::No => {
                    found |= self.template_in(group.stream(), argument);
                    Own::No
                }
                TokenTree::Group(group) => {
                    found |= own == Own::Template && self.other_in_lock_key(group.stream());
                    Own::No
                }
                TokenTree::Literal(literal) => {
                    found |= self.is_template(&literal, argument);
                    Own::No
                }
                TokenTree::Punct(punct) if punct.as_char() == '!' => own,
                TokenTree::Ident(ident) if ident == "lock_key" => Own::Template,
                TokenTree::Ident(ident) if ident == "verbatim" => Own::Text,
                TokenTree::Punct(_) | TokenTree::Ident(_) => Own::No,
            };
        }
        found
    }

    /// Whether the template of a `lock_key!` has an argument in another notation. A template with
    /// other faults is reported by the macro itself.
    fn other_in_lock_key(&mut self, tokens: TokenStream) -> bool {
        let literal = tokens.into_iter().next().map(TokenStream::from);
        let Some(literal) = literal.and_then(|it| syn::parse2::<LitStr>(it).ok()) else {
            return false;
        };
        let names = self.names_and_receiver();
        let parsed = template::parse(&literal.value());
        let error = parsed.ok().and_then(|template| {
            in_template(&template, &literal, false, |root, _| {
                is_one_of(&names, root)
            })
        });
        error.map(|error| self.errors.push(error)).is_some()
    }

    fn is_template(&mut self, literal: &Literal, argument: &str) -> bool {
        let Ok(text) = syn::parse2::<LitStr>(literal.to_token_stream()) else {
            return false;
        };
        let text = text.value();
        let found = self.names_and_receiver().into_iter().find(|name| {
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

/// Whether what follows in an expression is the user's own choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    No,
    /// The user calls `lock_key!`,
    Template,
    /// or says that it is text.
    Text,
}

/// The error for a `lock_key!` alone, which does not know what exists: `{id}` beside a placeholder
/// may be a hash tag, the other notations are refused.
pub(super) fn in_lock_key(template: &Template, literal: &LitStr) -> Option<syn::Error> {
    // `{user-7}` and `{eu west}` are tags, `{id}` and `{id:?}` are not.
    let begins_a_name = |root: &str, behind: &str| {
        root.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && (behind.is_empty() || behind.starts_with(':'))
    };
    let has_places = template.parts.iter().any(Part::is_place);
    in_template(template, literal, has_places, begins_a_name)
}

fn in_template(
    template: &Template,
    literal: &LitStr,
    may_be_tag: bool,
    known: impl Fn(&str, &str) -> bool,
) -> Option<syn::Error> {
    let mut texts = template.parts.iter().filter_map(Part::text);
    let (written, meant) =
        texts.find_map(|text| other_notation(text, SIGNS, may_be_tag, &known))?;
    let tag = if written.starts_with('{') {
        format!(", `{{<{meant}>}}` for a hash tag")
    } else {
        String::new()
    };
    // Verbatim, its placeholders would be text too.
    let verbatim = if template.parts.iter().any(Part::is_place) {
        "format!(…)".to_owned()
    } else {
        literal.token().to_string()
    };
    let message = format!(
        "`{written}` is text, the same for every value: write `<{meant}>`{tag}, or `dlock_runtime::Key::verbatim({verbatim})` if it shall be"
    );
    Some(syn::Error::new(literal.span(), message))
}

/// A value as it is written in its argument; the keys of a list have no name.
fn said(argument: &str, value: &str) -> String {
    match argument {
        "keys" => value.to_owned(),
        _ => format!("{argument} = {value}"),
    }
}

/// Finds a placeholder in another notation: `{id}`, `{ id }` and `{id:?}` as in `format!`,
/// `{order.id}`, `#id` as in Spring, `$id` as in a shell, `:id` as in a route, `[id]`, `(id)`, `@id`,
/// `=id`, `'id` as people write. Returns it as written, and the name in it. `may_be_tag`: `{id}` may
/// be meant, unless a `$` or `#` stands before it. `known`: whether that name exists, of what stands
/// behind it in the braces.
fn other_notation(
    text: &str,
    signs: &[char],
    may_be_tag: bool,
    known: impl Fn(&str, &str) -> bool,
) -> Option<(String, String)> {
    for (at, sign) in text.match_indices(signs) {
        let rest = text.get(at + 1..).unwrap_or_default();
        let inside = match sign {
            "{" => rest.trim_start_matches([' ', '&', '*']),
            _ => rest,
        };
        let is_meant = may_be_tag && !text.get(..at).unwrap_or_default().ends_with(['$', '#']);
        let end = inside.find(|c| !of_place(c)).unwrap_or(inside.len());
        let (place, after) = inside.split_at(end);
        let place = place.trim_end_matches('.');
        let (written, behind) = match (sign, rest.split_once('}')) {
            ("{", _) if is_meant => continue,
            ("{", None) => continue,
            ("{", Some((whole, _))) => {
                let behind = after.split('}').next().unwrap_or_default();
                (format!("{{{whole}}}"), behind.trim())
            }
            _ if after.starts_with('>') => continue,
            _ => (format!("{sign}{place}"), ""),
        };
        if known(root(place), behind) {
            return Some((written, place.to_owned()));
        }
    }
    None
}

/// `id>`, with a forgotten `<`.
fn unopened(text: &str, names: &[Ident]) -> Option<(String, String)> {
    text.match_indices('>').find_map(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let place = before.rsplit(|c| !of_place(c)).next().unwrap_or_default();
        is_one_of(names, root(place)).then(|| (format!("{place}>"), place.to_owned()))
    })
}

fn of_place(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

fn root(place: &str) -> &str {
    place.split('.').next().unwrap_or_default()
}

fn is_one_of(names: &[Ident], root: &str) -> bool {
    names.iter().any(|name| name.unraw() == root)
}
