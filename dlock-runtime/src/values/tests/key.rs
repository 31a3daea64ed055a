//! Names: the namespace in front exactly once, and values that can't be mistaken for one another.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::RngSeed;
use proptest::{prop_assert_eq, proptest};

use crate::values::error::LockError;
use crate::values::key::{Key, KeyBuilder};

fn why(key: impl Into<Key>, namespace: &str) -> String {
    match key.into().in_namespace(namespace).map_err(LockError::from) {
        Err(error @ LockError::InvalidKey { .. }) => error.to_string(),
        other => panic!("accepted, or another error: {other:?}"),
    }
}

#[test]
fn the_namespace_stands_in_front() {
    let key = Key::from("item:7").in_namespace("shop:").unwrap();
    assert_eq!(key.as_str(), "shop:item:7");
    assert_eq!(
        (key.to_string(), format!("{key:?}")),
        ("item:7".to_owned(), "\"item:7\" in \"shop:\"".to_owned())
    );
    let none = Key::from("item:7");
    let shown = (none.to_string(), format!("{none:?}"));
    assert_eq!(shown, ("item:7".to_owned(), "\"item:7\"".to_owned()));
}

#[test]
fn the_namespace_of_a_guards_key_is_not_put_in_front_twice() {
    let once = Key::from("item:7").in_namespace("shop:").unwrap();
    assert_eq!(once.clone().in_namespace("shop:").unwrap(), once);
    assert_eq!(
        once.in_namespace("other:").unwrap().as_str(),
        "other:item:7"
    );
}

/// A name that only looks like one with a namespace is the user's own text.
#[test]
fn a_written_namespace_is_part_of_the_name() {
    assert_eq!(
        Key::from("shop:item")
            .in_namespace("shop:")
            .unwrap()
            .as_str(),
        "shop:shop:item"
    );
}

#[test]
fn what_can_be_no_key_is_refused_with_what_to_do() {
    let long = "k".repeat(512);
    for (key, says) in [
        ("", "name what is locked"),
        ("@w", "must not begin with `@`"),
        ("a\nb", "control characters"),
        ("a\u{7f}", "control characters"),
        ("a{b", "write `{tag}`"),
        ("a}", "write `{tag}`"),
        ("{}a", "between `{` and `}`"),
        ("{a}{b}", "at most one hash tag"),
        ("{a{b}", "must not contain `{`"),
        (&long, "513 bytes, namespace included"),
    ] {
        let said = why(key, ":");
        assert!(said.contains(says), "{key:?}: {said}");
    }
}

#[test]
fn the_length_counts_the_namespace_and_512_are_allowed() {
    let key = Key::from("k".repeat(507));
    assert_eq!(key.in_namespace("lock:").unwrap().as_str().len(), 512);
    assert!(why("k".repeat(508), "lock:").contains("513 bytes"));
    assert_eq!(
        Key::from("ä".repeat(256))
            .in_namespace("")
            .unwrap()
            .as_str()
            .len(),
        512
    );
    assert!(why("ä".repeat(257), "").contains("514 bytes"));
}

#[test]
fn an_at_sign_is_refused_where_it_would_begin_our_own_names_only() {
    assert!(Key::from("user:a@b").in_namespace("lock:").is_ok());
    assert!(why("@fence", "lock:").contains('@'));
}

#[test]
fn a_value_that_does_not_print_makes_no_key() {
    struct Broken;
    impl fmt::Display for Broken {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half")?;
            Err(fmt::Error)
        }
    }
    let key = KeyBuilder::of("item:<id>")
        .text("item:")
        .value(&Broken)
        .finish();
    assert!(key.in_namespace("lock:").is_err());
}

/// Text is a template only where a macro sees it: as text it would be one lock for all values.
#[test]
fn text_that_looks_like_a_template_is_refused() {
    let refused = |key: Key| {
        key.in_namespace("lock:")
            .map_err(|error| LockError::from(error).to_string())
    };
    for text in [
        "item:<id>",
        "<id>",
        "a{<id>}",
        "a<-b>:<id>",
        "<<id>",
        "<user id>",
        "<order.id>:x",
        "<ä>",
        "<_>",
        "<a->b>",
    ] {
        for key in [Key::from(text), Key::from(text).of_constant()] {
            let said = refused(key).unwrap_err();
            let [template, verbatim] =
                ["lock_key!", "Key::verbatim"].map(|it| format!("`{it}({text:?})`"));
            assert!(
                said.contains(&template) && said.contains(&verbatim),
                "{said}"
            );
        }
        let meant = refused(Key::verbatim(text)).unwrap();
        assert_eq!(meant.as_str(), format!("lock:{text}"));
        // The key of a guard or an error, and its name written anew.
        assert_eq!(refused(meant.clone()), Ok(meant.clone()));
        assert_eq!(
            refused(Key::verbatim(meant.as_str())).unwrap().bare(),
            meant.as_str()
        );
        assert_eq!(refused(meant.clone().of_constant()), Ok(meant));
    }
    for text in [
        "a < b > c",
        "a<b",
        "a>b",
        "a->b",
        "<>",
        "a<1>",
        "<-b>",
        "b>a<",
    ] {
        assert!(refused(Key::from(text)).is_ok(), "{text}");
    }
    // A value in a template can't look like one, and `<<` is literal text.
    let built = KeyBuilder::of("<<<tag>>")
        .text("<")
        .value("a>:<b")
        .text(">")
        .finish();
    assert_eq!(refused(built).unwrap().as_str(), "lock:<a%3E%3A%3Cb>");
}

#[test]
fn a_long_key_is_shown_by_its_beginning() {
    let said = why("k".repeat(1_000_000), "lock:");
    let (shown, _) = said.split_once(" can't be a lock's key").unwrap();
    assert!(
        shown.starts_with("\"kkk") && shown.ends_with(" more bytes)\""),
        "{shown}"
    );
    assert!(shown.len() <= 82, "{shown}");
    let said = why(format!("<id>{}", "z".repeat(1_000)), "");
    assert!(said.len() < 500, "{said}");
}

/// The inverse of the builder, written from the documentation.
fn decode(encoded: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        let mut digit =
            || u8::try_from(char::from(rest.next().unwrap()).to_digit(16).unwrap()).unwrap();
        bytes.push(if byte == b'%' {
            digit() * 16 + digit()
        } else {
            byte
        });
    }
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    /// Injective, because the values can be read back: split at the separator and decoded.
    #[test]
    fn different_values_make_different_keys(values in vec(any::<String>(), 1..4)) {
        let mut builder = KeyBuilder::of("item").text("item");
        for value in &values {
            builder = builder.text(":").value(value);
        }
        let key = builder.finish();
        let read: Vec<String> = key.as_str().split(':').skip(1).map(decode).collect();
        prop_assert_eq!(&read, &values);
        let fits = key.as_str().len() + 5 <= 512;
        prop_assert_eq!(key.in_namespace("lock:").is_ok(), fits);
    }
}
