//! Which locks are one class, and how a report names them.

use std::collections::HashSet;
use std::panic::Location;

use crate::values::class::{Class, LockSite, Site};
use crate::values::key::{Key, KeyBuilder};

fn of(key: &Key) -> Class {
    LockSite::new(key, here()).class
}

fn template(text: &'static str) -> Class {
    of(&KeyBuilder::of(text).text("whatever it is").finish())
}

fn constant(text: &str) -> Class {
    of(&Key::from(text).of_constant())
}

#[track_caller]
fn here() -> Site {
    Site::by_hand(Location::caller())
}

/// Both by comparison and in a set: equal ones have one hash.
#[track_caller]
fn check(one: &Class, other: &Class, alike: bool) {
    assert_eq!(one == other, alike, "{one:?} {other:?}");
    let set = HashSet::from([one.clone(), other.clone()]);
    assert_eq!(set.len() == 1, alike, "{one:?} {other:?}");
}

#[test]
fn templates_are_alike_whatever_their_places_are_called() {
    for (one, other, alike) in [
        ("item:<id>", "item:<id>", true),
        ("item:<id>", "item:<self.order.id()>", true),
        ("<a>:<b>", "<b>:<a>", true),
        ("item:<id>", "user:<id>", false),
        ("item:<id>", "item:", false),
        ("item:<id>", "item:<id>:x", false),
        ("item:<id>", "item:<<id>", false),
        ("item:<<id>", "item:<<id>", true),
        ("item:<<id>", "item:<<no>", false),
        ("<<<id>", "<<<no>", true),
        ("<<<id>", "<id>", false),
        ("<<a>:<b>", "<<a>:<c>", true),
    ] {
        check(&template(one), &template(other), alike);
    }
}

#[test]
fn a_constant_is_as_a_template_of_its_text() {
    check(&constant("nightly"), &template("nightly"), true);
    check(&constant("nightly"), &constant("nightly"), true);
    check(&constant("nightly"), &constant("weekly"), false);
    check(&constant("item:<id>"), &template("item:<id>"), false);
    check(&constant("a<b"), &constant("a<c"), false);
}

#[test]
fn a_key_that_is_some_text_is_of_its_site() {
    let class = |site| LockSite::new(&"k".into(), site).class;
    let (one, other) = (here(), here());
    check(&class(one), &class(one), true);
    check(&class(one), &class(other), false);
    check(&class(one), &constant("k"), false);
    let functions = ["f", "g"].map(|name| Site::of_function(name, Location::caller()));
    check(&class(functions[0]), &class(functions[1]), false);
}

#[test]
fn the_namespace_makes_no_difference() {
    let key = KeyBuilder::of("item:<id>").text("item:7").finish();
    let namespaced = key.clone().in_namespace("lock:").unwrap();
    check(&of(&namespaced), &of(&key), true);
    let constant_key = Key::from("nightly").of_constant();
    let namespaced = constant_key.clone().in_namespace("lock:").unwrap();
    check(&of(&namespaced), &of(&constant_key), true);
}

/// The origin of a key is no part of its name.
#[test]
fn keys_of_one_name_are_equal() {
    let text = Key::from("item:7");
    let keys = [
        KeyBuilder::of("item:<id>").text("item:7").finish(),
        Key::from("item:7").of_constant(),
    ];
    for key in keys {
        assert_eq!(key, text);
        assert_eq!(key.cmp(&text), std::cmp::Ordering::Equal);
        assert_eq!(HashSet::from([key, text.clone()]).len(), 1);
    }
}

#[test]
fn a_report_names_text_function_file_and_line() {
    let site = here();
    let line = line!() - 1;
    let file = file!();
    let keys = [
        KeyBuilder::of("item:<id>").text("item:7").finish(),
        Key::from("nightly").of_constant(),
        Key::from("item:7"),
    ];
    let said = keys.map(|key| LockSite::new(&key, site).to_string());
    assert_eq!(
        said,
        [
            format!("`item:<id>` ({file}:{line})"),
            format!("`nightly` ({file}:{line})"),
            format!("the lock of {file}:{line}"),
        ]
    );
    let site = Site::of_function("shop::purchase", Location::caller());
    assert!(site.to_string().starts_with("shop::purchase, "), "{site}");
    assert_eq!(site.name(), "shop::purchase");
}
