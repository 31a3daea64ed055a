//! Keys that are accepted and refused, and an encoding that keeps all values apart.
use super::{Encoder, KeyError, MAX_KEY_BYTES, check, check_len, encode, is_separator};
use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_assume, proptest};
use std::{collections::HashSet, fmt::Write as _};

fn encoded(value: &str) -> String {
    let mut out = String::new();
    encode(value, &mut out);
    out
}

#[test]
fn accepts_keys() {
    for key in [
        "a",
        "item:7",
        "order:{7}:pay",
        "{a}",
        "a@b",
        "ann@fence.org",
        "ann@fence:7",
        "ann@w:{7}x",
        "ann@w#7",
        "{ann}@fence",
        "a@b@fence",
        "é",
        "%",
        "<>",
        " ",
        &"x".repeat(MAX_KEY_BYTES),
    ] {
        assert_eq!(check(key), Ok(()), "{key}");
    }
}

#[test]
fn refuses_keys() {
    for (key, error) in [
        ("", KeyError::Empty),
        ("@a", KeyError::Reserved),
        ("a@fence", KeyError::Companion { at: 1 }),
        ("a@quorum", KeyError::Companion { at: 1 }),
        ("a@h:{b}", KeyError::Companion { at: 1 }),
        ("a@h#b{c}d", KeyError::Companion { at: 1 }),
        ("a:@fence:{7}", KeyError::Companion { at: 2 }),
        ("a@w:{b}", KeyError::Companion { at: 1 }),
        ("a@s:{b}", KeyError::Companion { at: 1 }),
        ("a@s#b:{7}", KeyError::Companion { at: 1 }),
        ("a@a:{b}", KeyError::Companion { at: 1 }),
        ("a@w#{b}", KeyError::Companion { at: 1 }),
        ("a@a#b{c}d", KeyError::Companion { at: 1 }),
        ("a@r:{b}", KeyError::Companion { at: 1 }),
        ("a@r#b{c}d", KeyError::Companion { at: 1 }),
        ("a\n", KeyError::Hidden { at: 1 }),
        ("a\u{0}", KeyError::Hidden { at: 1 }),
        ("ab\u{7f}", KeyError::Hidden { at: 2 }),
        ("é\u{85}", KeyError::Hidden { at: 2 }),
        ("a\u{200b}", KeyError::Hidden { at: 1 }),
        ("a\u{2028}", KeyError::Hidden { at: 1 }),
        ("a\u{202e}b", KeyError::Hidden { at: 1 }),
        ("a\u{2066}b", KeyError::Hidden { at: 1 }),
        ("\u{feff}a", KeyError::Hidden { at: 0 }),
        ("a{b", KeyError::LoneBrace { at: 1 }),
        ("a}b", KeyError::LoneBrace { at: 1 }),
        ("{a}}", KeyError::LoneBrace { at: 3 }),
        ("}{", KeyError::LoneBrace { at: 0 }),
        ("{a{b}}", KeyError::NestedTag { at: 2 }),
        ("{{a}}", KeyError::NestedTag { at: 1 }),
        ("{a}{b}", KeyError::SecondTag { at: 3 }),
        ("x{}", KeyError::EmptyTag { at: 1 }),
        (&"x".repeat(513), KeyError::TooLong { bytes: 513 }),
    ] {
        assert_eq!(check(key), Err(error), "{key}");
    }
}

#[test]
fn length_counts_bytes() {
    assert_eq!(check(&"é".repeat(256)), Ok(()));
    assert_eq!(
        check(&"é".repeat(257)),
        Err(KeyError::TooLong { bytes: 514 })
    );
    assert_eq!(check_len(512), Ok(()));
    assert_eq!(
        check_len(513).unwrap_err().to_string(),
        "the key has 513 bytes, namespace included, and at most 512 are allowed: hash the long part"
    );
}

#[test]
fn encodes() {
    for (value, expected) in [
        ("", ""),
        ("aZ09_.-", "aZ09_.-"),
        ("a:b", "a%3Ab"),
        ("%3A", "%253A"),
        ("{}@", "%7B%7D%40"),
        ("é", "%C3%A9"),
        ("\u{0}\n\u{7f}", "%00%0A%7F"),
    ] {
        assert_eq!(encoded(value), expected);
    }
}

/// Random strings seldom differ only in an encoding; these consist of little else.
#[test]
fn encoding_is_injective_over_look_alikes() {
    let pieces = ["", "%", "3", "A", ":", "%3A", "%25", "a", "%3a", "{", "%7B"];
    let mut values = HashSet::new();
    for a in pieces {
        for b in pieces {
            for c in pieces {
                values.insert([a, b, c].concat());
            }
        }
    }
    let keys: HashSet<_> = values.iter().map(|value| encoded(value)).collect();
    assert_eq!(keys.len(), values.len());
}

proptest! {
    #[test]
    fn encoding_is_injective_over_tuples(a in any::<(String, String)>(), b in any::<(String, String)>()) {
        prop_assume!(a != b);
        prop_assert!(joined(&a) != joined(&b));
    }

    #[test]
    fn an_encoded_value_holds_plain_characters_and_percent(value in any::<String>()) {
        let out = encoded(&value);
        prop_assert!(!out.contains(is_separator), "{}", out);
        prop_assert!(out.bytes().all(|b| (b' '..=b'~').contains(&b)));
    }

    /// No value can break the tag or begin another.
    #[test]
    fn values_cannot_make_a_key_invalid(a in "\\PC{1,20}", b in any::<[char; 4]>()) {
        let b: String = b.iter().collect();
        prop_assert_eq!(check(&format!("{{{}}}:{}", encoded(&a), encoded(&b))), Ok(()));
    }

    #[test]
    fn encoder_equals_encode_however_it_is_cut(parts in any::<Vec<String>>()) {
        let mut key = String::new();
        for part in &parts {
            write!(Encoder(&mut key), "{part}").unwrap();
        }
        prop_assert_eq!(key, encoded(&parts.concat()));
    }

    #[test]
    fn check_never_panics(key in any::<String>()) {
        let _ = check(&key);
    }
}

fn joined((a, b): &(String, String)) -> String {
    format!("{}:{}", encoded(a), encoded(b))
}
