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
}
