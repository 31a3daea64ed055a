//! Glob patterns for keys.
//!
//! They are matched here and not by the server, which takes exponential time for some of them
//! (`*a*a*a*b`) and serves nobody meanwhile; it gets the literal beginning only. Invariant: a match
//! takes at most the product of both lengths.

use std::iter::Peekable;
use std::str::Chars;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Element>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    Literal(char),
    AnyOne,
    AnyText,
    /// One of these ranges, or none of them.
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Self {
        let mut elements = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            elements.push(match c {
                '*' if elements.last() == Some(&Element::AnyText) => continue,
                '*' => Element::AnyText,
                '?' => Element::AnyOne,
                '[' => class(&mut rest),
                '\\' => Element::Literal(rest.next().unwrap_or('\\')),
                literal => Element::Literal(literal),
            });
        }
        Self(elements)
    }

    /// The only text that it matches, if there is only one.
    pub(crate) fn literal(&self) -> Option<String> {
        let prefix = self.prefix();
        (prefix.chars().count() == self.0.len()).then_some(prefix)
    }

    /// The text with which all that it matches begins.
    pub(crate) fn prefix(&self) -> String {
        let literal = |element: &Element| match element {
            Element::Literal(c) => Some(*c),
            _ => None,
        };
        self.0.iter().map_while(literal).collect()
    }

    /// Whether it matches the whole text. After a mismatch the latest `*` takes one character more;
    /// earlier ones need not change.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut next, mut at) = (0, 0);
        let mut star = None;
        while let Some(c) = text.get(at) {
            match self.0.get(next) {
                Some(Element::AnyText) => {
                    star = Some((next, at));
                    next += 1;
                }
                Some(one) if one.matches(*c) => {
                    next += 1;
                    at += 1;
                }
                _ => {
                    let Some((after, from)) = star else {
                        return false;
                    };
                    star = Some((after, from + 1));
                    next = after + 1;
                    at = from + 1;
                }
            }
        }
        let rest = self.0.get(next..).unwrap_or_default();
        rest.iter().all(|element| *element == Element::AnyText)
    }
}

impl Element {
    fn matches(&self, c: char) -> bool {
        match self {
            Element::Literal(literal) => *literal == c,
            Element::AnyOne | Element::AnyText => true,
            Element::Class { is_negated, ranges } => {
                let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                is_in != *is_negated
            }
        }
    }
}

/// Reads a class up to its `]`, or to the end.
fn class(rest: &mut Peekable<Chars<'_>>) -> Element {
    let is_negated = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    while let Some(c) = rest.next().filter(|c| *c != ']') {
        let from = one(c, rest);
        let mut to = from;
        if rest.peek() == Some(&'-') {
            rest.next();
            match rest.next() {
                None => ranges.push(('-', '-')),
                Some(']') => {
                    ranges.extend([(from, from), ('-', '-')]);
                    break;
                }
                Some(c) => to = one(c, rest),
            }
        }
        ranges.push((from.min(to), from.max(to)));
    }
    Element::Class { is_negated, ranges }
}

/// A character of a class, which may be escaped.
fn one(c: char, rest: &mut Peekable<Chars<'_>>) -> char {
    if c == '\\' {
        return rest.next().unwrap_or(c);
    }
    c
}

/// The pattern that the server gets for all keys that begin with this text.
pub(crate) fn beginning_with(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}
