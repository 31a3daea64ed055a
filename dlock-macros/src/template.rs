//! The key template: splits `item:<id>` into text and placeholders, and finds every fault of the
//! text at once.
//!
//! It works on the string alone: `rules` knows which names exist, and its callers have the
//! literal's span.

use dlock_grammar::{key, kind};
use proc_macro2::{Literal, Span, TokenStream};
use quote::quote;
use std::ops::Range;
use syn::{Ident, LitStr, ext::IdentExt as _, parse::Parser as _};

/// What a placeholder may hold, for error messages.
const PLACES: &str = "a placeholder holds a name, then fields, tuple indices or calls without arguments, such as `<order.user.id>`: \
                      else write `key = { let part = …; dlock_runtime::lock_key!(\"item:<part>\") }`";

/// A template without a fault that is visible in its text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Place(Place),
}

impl Part {
    pub(crate) fn is_place(&self) -> bool {
        matches!(self, Self::Place(_))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Place(_) => None,
        }
    }
}

/// `order.user.id`: a root and the steps from it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// As written, so perhaps with `r#`.
    pub(crate) root: String,
    pub(crate) steps: Vec<Step>,
    /// Its position in the template's text, without the angle brackets.
    pub(crate) range: Range<usize>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Field(String),
    Index(u32),
    Call(String),
}

/// What is wrong with a template, and the range of its text that is wrong, if any.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) range: Option<Range<usize>>,
}

impl Fault {
    pub(crate) fn new(range: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            range: Some(range),
        }
    }

    /// The error at the literal. Stable Rust cannot underline a part of a literal
    /// (`Literal::subspan`), so a line of the message does.
    pub(crate) fn at(&self, literal: &LitStr) -> syn::Error {
        let text = literal.value();
        let Some(range) = &self.range else {
            return syn::Error::new(literal.span(), &self.message);
        };
        let width = |part: Option<&str>| part.unwrap_or_default().escape_debug().count();
        let before = width(text.get(..range.start)) + 1;
        let carets = width(text.get(range.clone())).max(1);
        let shown = text.escape_debug();
        let (spaces, carets) = (" ".repeat(before), "^".repeat(carets));
        syn::Error::new(
            literal.span(),
            format!("{}\n  | \"{shown}\"\n  | {spaces}{carets}", self.message),
        )
    }
}

/// Parses a key template.
pub(crate) fn parse(text: &str) -> Result<Template, Vec<Fault>> {
    read(text, "key", Reader::check_key)
}

/// Parses the template of an owner, which is built like a key but may be any text.
pub(crate) fn parse_owner(text: &str) -> Result<Template, Vec<Fault>> {
    read(text, "owner", Reader::check_owner)
}

/// Parses a template; `what` names its argument in messages.
fn read(text: &str, what: &str, check: fn(&mut Reader)) -> Result<Template, Vec<Fault>> {
    let mut reader = Reader::default();
    reader.read(text);
    reader.check_separators(what);
    if reader.faults.is_empty() {
        check(&mut reader);
    }
    if reader.faults.is_empty() {
        Ok(Template {
            parts: merge(reader.pieces),
        })
    } else {
        Err(reader.faults)
    }
}

/// A part and its position in the template. Text is cut at every `<<`, so that positions within a
/// piece match those in the template.
#[derive(Debug)]
struct Piece {
    part: Part,
    at: usize,
}

#[derive(Debug, Default)]
struct Reader {
    pieces: Vec<Piece>,
    faults: Vec<Fault>,
}

impl Reader {
    fn read(&mut self, text: &str) {
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let plain = rest.find('<').unwrap_or(rest.len());
            if let Some(part) = rest.get(..plain).filter(|part| !part.is_empty()) {
                self.text(part, at);
                at += plain;
            } else if rest.starts_with("<<") {
                self.text("<", at);
                at += 2;
            } else if let Some(end) = rest.find('>') {
                self.place(rest.get(1..end).unwrap_or_default(), at + 1);
                at += end + 1;
            } else {
                let message =
                    "this placeholder is not closed: write `>` after it, or `<<` for a literal `<`";
                self.faults.push(Fault::new(at..text.len(), message));
                return;
            }
        }
    }

    fn text(&mut self, part: &str, at: usize) {
        for (offset, _) in part.match_indices('%') {
            let message = "`%` is what encoded values are written with: write another character, or `<id>` for the value of `id`";
            self.faults
                .push(Fault::new(at + offset..at + offset + 1, message));
        }
        self.pieces.push(Piece {
            part: Part::Text(part.to_owned()),
            at,
        });
    }

    fn place(&mut self, inner: &str, at: usize) {
        match place(inner, at) {
            Ok(place) => self.pieces.push(Piece {
                part: Part::Place(place),
                at,
            }),
            Err(fault) => self.faults.push(fault),
        }
    }

    /// Two values without a separator are ambiguous: `<a><b>` is `12` for 1 and 2, but also for 12
    /// and an empty value.
    fn check_separators(&mut self, what: &str) {
        let mut last: Option<&Place> = None;
        let mut separated = true;
        for piece in &self.pieces {
            match &piece.part {
                Part::Text(text) => separated |= text.contains(key::is_separator),
                Part::Place(place) => {
                    if let Some(last) = last.filter(|_| !separated) {
                        let message = format!(
                            "different values of these two placeholders could give the same {what}: \
                             put a separator between them that no value can contain, such as `:` or `/`"
                        );
                        self.faults.push(Fault::new(
                            last.range.start - 1..place.range.end + 1,
                            message,
                        ));
                    }
                    (last, separated) = (Some(place), false);
                }
            }
        }
    }

    fn check_owner(&mut self) {
        let pieces = self.pieces.iter().map(|piece| match &piece.part {
            Part::Text(text) => text.as_str(),
            Part::Place(_) => "x",
        });
        if let Err(error) = kind::check_owner(&pieces.collect::<String>()) {
            self.faults.push(Fault {
                message: error.to_string(),
                range: None,
            });
        }
    }

    /// Finds what the runtime would refuse whatever the values are; `x` stands for a value.
    fn check_key(&mut self) {
        let mut rendered = String::new();
        let mut starts = Vec::new();
        for piece in &self.pieces {
            starts.push((rendered.len(), piece.at));
            rendered.push_str(match &piece.part {
                Part::Text(text) => text,
                Part::Place(_) => "x",
            });
        }
        if let Err(error) = key::check(&rendered) {
            let range = error.at().and_then(|at| {
                let (begins, written) = starts.iter().rev().find(|(start, _)| *start <= at)?;
                let start = written + at - begins;
                let wrong = rendered.get(at..)?.chars().next()?;
                Some(start..start + wrong.len_utf8())
            });
            self.faults.push(Fault {
                message: error.to_string(),
                range,
            });
        }
    }
}

fn merge(pieces: Vec<Piece>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for piece in pieces {
        match (parts.last_mut(), piece.part) {
            (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
            (_, part) => parts.push(part),
        }
    }
    parts
}

/// Parses the text between `<` and `>`.
fn place(inner: &str, at: usize) -> Result<Place, Fault> {
    let whole = at..at + inner.len();
    if inner.is_empty() {
        let message =
            "this placeholder is empty: name an argument, or write `<<` for a literal `<`";
        return Err(Fault::new(at - 1..at + 1, message));
    }
    let trimmed = inner.trim();
    if trimmed != inner && place(trimmed, at).is_ok() {
        let message = format!("a placeholder has no spaces: write `<{trimmed}>`");
        return Err(Fault::new(whole, message));
    }
    let mut segments = Vec::new();
    let mut start = at;
    for segment in inner.split('.') {
        segments.push((segment, start..start + segment.len()));
        start += segment.len() + 1;
    }
    let mut segments = segments.into_iter();
    let root = match segments.next() {
        Some(("self", _)) => "self".to_owned(),
        Some((name, range)) => identifier(name, range, &whole)?,
        None => String::new(),
    };
    let steps = segments
        .map(|(segment, range)| step(segment, range, &whole))
        .collect::<Result<_, _>>()?;
    Ok(Place {
        root,
        steps,
        range: whole,
    })
}

fn step(segment: &str, range: Range<usize>, whole: &Range<usize>) -> Result<Step, Fault> {
    if let Some(method) = segment.strip_suffix("()") {
        identifier(method, range, whole).map(Step::Call)
    } else if segment.starts_with(|c: char| c.is_ascii_digit()) {
        // `01` or `1_0` is no tuple index in Rust either.
        let index = segment
            .parse()
            .ok()
            .filter(|index: &u32| index.to_string() == segment);
        index
            .map(Step::Index)
            .ok_or_else(|| Fault::new(range, PLACES))
    } else {
        identifier(segment, range, whole).map(Step::Field)
    }
}

fn identifier(text: &str, range: Range<usize>, whole: &Range<usize>) -> Result<String, Fault> {
    // Checked first: the lexer would skip spaces and comments, and it reports words without a raw
    // form by itself.
    let word = text.strip_prefix("r#").unwrap_or(text);
    let never = ["", "_", "self", "Self", "super", "crate"].contains(&word)
        || word.starts_with(|c: char| c.is_ascii_digit());
    if never || word.contains(|c: char| !(c.is_alphanumeric() || c == '_')) {
        return Err(Fault::new(
            if range.is_empty() {
                whole.clone()
            } else {
                range
            },
            PLACES,
        ));
    }
    if syn::parse_str::<Ident>(text).is_ok() {
        return Ok(text.to_owned());
    }
    let keyword = Ident::parse_any.parse_str(text).is_ok()
        && syn::parse_str::<Ident>(&format!("r#{text}")).is_ok();
    let message = if keyword {
        format!("`{text}` is a keyword: write `r#{text}` for a thing of that name")
    } else {
        PLACES.to_owned()
    };
    Err(Fault::new(range, message))
}

impl Place {
    /// The expression, from `root` on; `span` is where its errors are shown. The steps are not the
    /// user's tokens: for a misspelt field the compiler would propose to replace the whole literal
    /// by a name.
    pub(crate) fn tokens(&self, root: &Ident, span: Span) -> TokenStream {
        let span = Span::mixed_site().located_at(span);
        let mut tokens = quote!(#root);
        for step in &self.steps {
            let step = match step {
                Step::Field(name) => {
                    let name = ident(name, span);
                    quote::quote_spanned!(span=> .#name)
                }
                Step::Index(index) => {
                    let mut index = Literal::u32_unsuffixed(*index);
                    index.set_span(span);
                    quote::quote_spanned!(span=> .#index)
                }
                Step::Call(name) => {
                    let name = ident(name, span);
                    quote::quote_spanned!(span=> .#name())
                }
            };
            tokens.extend(step);
        }
        tokens
    }
}

/// An identifier from text that [`parse`] has checked.
pub(crate) fn ident(text: &str, span: Span) -> Ident {
    match text.strip_prefix("r#") {
        Some(name) => Ident::new_raw(name, span),
        None => Ident::new(text, span),
    }
}
