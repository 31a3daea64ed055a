//! `keys`: its form, what it goes with, and what each of its keys must be.

use super::{check, check_on};

#[test]
fn several_keys_stand_in_a_list() {
    for (value, message) in [
        (
            "\"a\"",
            "several keys stand in a list: write `keys = [\"a\"]`, or `key = \"a\"` for one",
        ),
        ("7", "write `keys = [\"account:<from>\", \"account:<to>\"]`"),
        (
            "\"\"",
            "write `keys = [\"account:<from>\", \"account:<to>\"]`",
        ),
    ] {
        check(&format!("keys = {value}"), &[(value, message)]);
    }
    check(
        "keys",
        &[(
            "keys",
            "`keys` needs a value: write `keys = [\"account:<from>\", \"account:<to>\"]`",
        )],
    );
}

#[test]
fn a_list_is_keys() {
    let long = format!("[\"{}\", \"b\"]", "k".repeat(75));
    for (value, write) in [
        (
            "[\"a\", \"b:<id>\"]".to_owned(),
            "keys = [\"a\", \"b:<id>\"]",
        ),
        ("[\"a\"]".to_owned(), "keys = [\"a\"]"),
        (long, "keys = […]"),
    ] {
        let message =
            format!("`key` is one key, and several are a list under `keys`: write `{write}`");
        check(&format!("key = {value}"), &[(&value, &message)]);
    }
}

#[test]
fn one_or_several() {
    let message = "`keys` locks all that is in its list, so it cannot stand beside `key`: put the key into the list";
    check(r#"key = "a", keys = ["b"]"#, &[("keys", message)]);
    check(r#"keys = all(id), key = "b""#, &[("keys", message)]);
}

/// The keys after a wrong one are checked as well.
#[test]
fn each_key_keeps_the_rules() {
    check(
        r#"keys = ["a:<x>", 7, "", "b:<buyer", f("<id>"), "c:<id>"]"#,
        &[
            ("7", "a key is text: write `\"7\"`"),
            (
                "\"a:<x>\"",
                "unknown name `x` in the key template, arguments are: id, buyer\n  | \"a:<x>\"\n  |     ^",
            ),
            (
                "\"\"",
                "the key is empty: name what is locked, such as \"item:7\"",
            ),
            (
                "\"b:<buyer\"",
                "this placeholder is not closed: write `>` after it, or `<<` for a literal `<`\n  | \"b:<buyer\"\n  |    ^^^^^^",
            ),
            (
                "\"<id>\"",
                "in an expression `<id>` is text, the same for every value: write the template alone, `keys = [\"item:<id>\"]`, or \
                 `dlock_runtime::lock_key!(\"item:<id>\")`",
            ),
        ],
    );
    check(
        r#"keys = ["a:id"]"#,
        &[(
            "\"a:id\"",
            "`:id` is text, the same for every value: write `<id>`, or `dlock_runtime::Key::verbatim(\"a:id\")` if it shall be",
        )],
    );
    check(
        r#"keys = "a:<id>, b,""#,
        &[(
            "\"a:<id>, b,\"",
            "several keys stand in a list, each in its own quotes: write `keys = [\"a:<id>\", \"b\"]`",
        )],
    );
    check(
        r#"keys = vec!["a:<id>"]"#,
        &[(
            "\"a:<id>\"",
            "in an expression `<id>` is text, the same for every value: write the template alone, `keys = [\"item:<id>\"]`, or \
             `dlock_runtime::lock_key!(\"item:<id>\")`",
        )],
    );
    check(
        r#"keys = ["a:<id>", "b", "a:<id>"]"#,
        &[(
            "\"a:<id>\"",
            "this key stands in the list already: remove one of the two",
        )],
    );
}

#[test]
fn how_many() {
    check(
        "keys = []",
        &[("keys", "there are no keys to lock: give at least one")],
    );
    let list = |count: usize| {
        let keys: Vec<_> = (0..count).map(|id| format!("\"k{id}\"")).collect();
        format!("keys = [{}]", keys.join(","))
    };
    let item = super::ITEM.parse().unwrap();
    assert!(crate::rules::model(list(1000).parse().unwrap(), &item).is_ok());
    check(
        &list(1001),
        &[(
            "keys",
            "1001 keys are more than the 1000 that can be locked at once: lock what they have in common",
        )],
    );
}

#[test]
fn kinds_of_one_key() {
    let text =
        |kind| format!("`{kind}` with `keys` is not supported yet: remove it, or lock one `key`");
    check(
        r#"keys = ["a"], permits = 5, take = 2"#,
        &[("permits", &text("permits"))],
    );
    check(
        r#"reentrant, keys = ["a"], owner = "<id>""#,
        &[("reentrant", &text("reentrant")), ("owner", &text("owner"))],
    );
}

/// A lock below one that did not see it is refused, whatever it locks.
#[test]
fn below_one_that_did_not_see_it() {
    let message = "this lock stands below another and would yet be taken first: write both as `#[distributed_lock(…)]`, and put a \
                   `cfg_attr` with one in it above them";
    let item = "async fn f() -> R { 1 }".parse().unwrap();
    let locked = crate::tests::attribute("key = \"upper\"".parse().unwrap(), &item);
    check_on(
        &locked.to_string(),
        "keys = [\"lower\"]",
        &[("keys", message)],
    );
}
