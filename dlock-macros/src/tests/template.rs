//! Parsed key templates: their parts, or each fault with the text that it underlines.

use crate::template::{Part, Step, parse};

/// Text in quotes, placeholders as expressions in Rust.
fn show(part: &Part) -> String {
    match part {
        Part::Text(text) => format!("{text:?}"),
        Part::Place(place) => {
            place
                .steps
                .iter()
                .fold(place.root.clone(), |root, step| match step {
                    Step::Field(name) => format!("{root}.{name}"),
                    Step::Index(index) => format!("{root}.{index}"),
                    Step::Call(name) => format!("{root}.{name}()"),
                })
        }
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let shown = match parse(text) {
        Ok(template) => template
            .parts
            .iter()
            .map(show)
            .collect::<Vec<_>>()
            .join(" "),
        Err(faults) => format!("{faults:?}"),
    };
    assert_eq!(shown, expected, "{text}");
}

/// The text under the carets of each fault, and the beginning of its message.
#[track_caller]
fn check_fault(text: &str, expected: &[(&str, &str)]) {
    let Err(faults) = parse(text) else {
        panic!("{text} was accepted")
    };
    let found: Vec<_> = faults
        .iter()
        .map(|f| {
            (
                f.range.clone().map_or("", |range| &text[range]),
                f.message.as_str(),
            )
        })
        .collect();
    assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.0, expected.0, "{text}: {found:?}");
        assert!(found.1.starts_with(expected.1), "{text}: {found:?}");
    }
}

#[test]
fn places() {
    check("item:7", r#""item:7""#);
    check("item:<id>", r#""item:" id"#);
    check("<id>", "id");
    check("<order.user.id>:<pair.0>", r#"order.user.id ":" pair.0"#);
    check("<pair.0.1>", "pair.0.1");
    check("<id.simple()>", "id.simple()");
    check("<a.b().c.0.d()>", "a.b().c.0.d()");
    check(
        "<r#type>/<self>/<self.r#fn>/<SHARD>/<_x>/<größe>",
        r#"r#type "/" self "/" self.r#fn "/" SHARD "/" _x "/" größe"#,
    );
}

#[test]
fn angle_brackets() {
    check("a<<b", r#""a<b""#);
    check("<<<id>", r#""<" id"#);
    check("<<<<id>", r#""<<id>""#);
    check("a>b>", r#""a>b>""#);
    check("<id>>", r#"id ">""#);
    check("<<a><b>", r#""<a>" b"#);
}

#[test]
fn hash_tags() {
    check("{<id>}:a", r#""{" id "}:a""#);
    check("{a}<b>", r#""{a}" b"#);
    check_fault("a{b", &[("{", "braces in a key are")]);
    check_fault("<<<<a}b", &[("}", "braces in a key are")]);
    check_fault("{a}:{<id>}", &[("{", "a key has at most one hash tag")]);
    check_fault("{a{b}}", &[("{", "a hash tag must not contain")]);
    check_fault("<id>{}", &[("{", "the hash tag is empty")]);
}

#[test]
fn separators() {
    for separator in [":", "/", " ", "{", "<<", "@", "é", "a:b", "-:-"] {
        let close = if separator == "{" { "}" } else { "" };
        assert!(
            parse(&format!("<a>{separator}<b>{close}")).is_ok(),
            "{separator}"
        );
    }
    for separator in ["", "-", "_", ".", "x", "9", "a.b-c_D"] {
        let text = format!("k:<a>{separator}<b>:x");
        check_fault(
            &text,
            &[(
                &format!("<a>{separator}<b>"),
                "different values of these two placeholders",
            )],
        );
    }
    check_fault(
        "<a>-<b>x<c>:<d>",
        &[("<a>-<b>", "different"), ("<b>x<c>", "different")],
    );
}

#[test]
fn faults() {
    check_fault("", &[("", "the key is empty")]);
    check_fault("@a", &[("@", "a key must not begin with `@`")]);
    check_fault(
        "a\n",
        &[("\n", "a key must not contain control characters")],
    );
    check_fault(
        "é\u{202e}b",
        &[("\u{202e}", "a key must not contain control characters")],
    );
    check_fault(&"x".repeat(513), &[("", "the key has 513 bytes")]);
    check_fault("a%b%", &[("%", "`%` is what"), ("%", "`%` is what")]);
    check_fault("a<>b", &[("<>", "this placeholder is empty")]);
    check_fault("a<b", &[("<b", "this placeholder is not closed")]);
    check_fault("<a<b>", &[("a<b", "a placeholder holds a name")]);
    check_fault(
        "< id>",
        &[(" id", "a placeholder has no spaces: write `<id>`")],
    );
    check_fault(
        "<a.b >",
        &[("a.b ", "a placeholder has no spaces: write `<a.b>`")],
    );
    check_fault("<fn>", &[("fn", "`fn` is a keyword: write `r#fn`")]);
    check_fault(
        "<a.type>",
        &[("type", "`type` is a keyword: write `r#type`")],
    );
    let places = [
        ("a/**/", "a/**/"),
        ("a..b", "a..b"),
        ("a.", "a."),
        (".a", ".a"),
        ("f()", "f()"),
        ("x.y(1)", "y(1)"),
        ("a.01", "01"),
        ("a.1u8", "1u8"),
        ("0", "0"),
        ("a.99999999999", "99999999999"),
        ("a::b", "a::b"),
        ("a+b", "a+b"),
        ("_", "_"),
        ("Self", "Self"),
        ("a.self", "self"),
        ("crate", "crate"),
        ("r#self", "r#self"),
        ("r#", "r#"),
        ("a.()", "()"),
        ("&a", "&a"),
        ("a\"", "a\""),
    ];
    for (place, underlined) in places {
        check_fault(
            &format!("é:<{place}>"),
            &[(underlined, "a placeholder holds a name")],
        );
    }
    check_fault(
        "<>%<a b>-<c>",
        &[
            ("<>", "this placeholder is empty"),
            ("%", "`%` is"),
            ("a b", "a placeholder holds"),
        ],
    );
}
