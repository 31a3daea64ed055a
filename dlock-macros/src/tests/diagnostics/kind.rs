//! The words about a lock's kind: their form, their numbers, and which do not go together.

use super::{check, check_on};

#[test]
fn words_stand_alone() {
    for word in ["read", "write", "reentrant", "fair"] {
        let message = format!("`{word}` takes no value: write `{word}` alone, or leave it out");
        for (value, at) in [
            (" = 5", "5"),
            (" =", word),
            (" == 5", "="),
            ("(5)", "("),
            (": true", ":"),
        ] {
            check(&format!("key = \"a\", {word}{value}"), &[(at, &message)]);
        }
    }
    for word in ["read", "write", "reentrant", "fair"] {
        super::accept(&format!("key = \"a\", {word} = true"));
        super::accept(&format!("key = \"a\", permits = 5, {word} = false"));
    }
    check(
        r#"key = "a", read = true, write = true"#,
        &[(
            "write",
            "`write` and `read` are two kinds of lock, and a lock has one: remove either",
        )],
    );
    for word in ["read", "write", "fair"] {
        let message = format!("`{word}` takes no value: write `{word}` alone, or leave it out");
        for value in ["\"x\"", "me"] {
            check(
                &format!("key = \"a\", {word} = {value}"),
                &[(value, &message)],
            );
        }
    }
    check(
        r#"key = "a", reentrant fair"#,
        &[("fair", "expected `,` between two arguments")],
    );
}

/// A name given to `reentrant` is the owner's.
#[test]
fn a_name_for_reentrant_is_its_owners() {
    for name in ["\"w\"", "\"step:<id>\"", "workflow", "self::WORKFLOW"] {
        let message = format!(
            "`reentrant` takes no value: write `reentrant, owner = {name}` if that is the owner's name, else `reentrant` alone"
        );
        check(
            &format!("key = \"a\", reentrant = {name}"),
            &[(name, &message)],
        );
    }
}

#[test]
fn numbers_have_no_quotes() {
    for (argument, value, message) in [
        (
            "permits",
            "\"5\"",
            "a count stands without quotes: write `permits = 5`",
        ),
        ("permits", "\"many\"", "write `permits = 5`"),
        (
            "permits",
            "5u8",
            "a count has no suffix: write `permits = 5`",
        ),
        ("permits", "5.0", "write `permits = 5`"),
        (
            "permits",
            "-1",
            "`permits` is a number from 1: write `permits = 5`",
        ),
    ] {
        check(
            &format!("key = \"a\", take = 2, {argument} = {value}"),
            &[(value, message)],
        );
    }
    check(
        r#"key = "a", permits = 5, take = "2""#,
        &[("\"2\"", "a count stands without quotes: write `take = 2`")],
    );
    for after in ["", " ="] {
        check(
            &format!("key = \"a\", permits{after}"),
            &[("permits", "`permits` needs a value: write `permits = 5`")],
        );
    }
}

#[test]
fn numbers_have_bounds() {
    check(
        r#"key = "a", permits = 0, take = 0"#,
        &[
            ("0", "permits 0 would let nobody in: give at least 1"),
            (
                "0",
                "take 0 would hold nothing: give at least 1, or leave `take` out to take one",
            ),
        ],
    );
    let permits = "a lock has at most 1000000 permits: lower the number, or count in larger units";
    for number in ["1000001", "4294967296", "99999999999999999999999"] {
        check(
            &format!("key = \"a\", permits = {number}"),
            &[(number, permits)],
        );
    }
    check(
        r#"key = "a", permits = 5000, take = 1001"#,
        &[(
            "1001",
            "one holder takes at most 1000 permits: lower `take`, or count in larger units",
        )],
    );
    check(
        r#"key = "a", take = 6, permits = 5"#,
        &[(
            "6",
            "take 6 is more than the 5 permits that there are, so it would wait for ever: lower `take` or raise `permits`",
        )],
    );
}

/// A number that is known later is checked later.
#[test]
fn numbers_of_the_running_program() {
    for value in [
        "N",
        "limits::SEATS",
        "2 * N",
        "self.limit()",
        "{ n }",
        "(2 + n)",
    ] {
        super::accept(&format!("key = \"a\", take = 2, permits = {value}"));
        super::accept(&format!("key = \"a\", permits = 5, take = {value}"));
    }
    for value in ["|| 5", "(5, 6)", "[5]"] {
        check(
            &format!("key = \"a\", permits = {value}"),
            &[(value, "write `permits = 5`")],
        );
    }
    // The known number is checked now nevertheless.
    let take = "one holder takes at most 1000 permits: lower `take`, or count in larger units";
    check(r#"key = "a", permits = N, take = 1001"#, &[("1001", take)]);
}

/// The second word is at fault, whatever stands between the two.
#[test]
fn two_kinds() {
    let text = |first, second| {
        format!("`{second}` and `{first}` are two kinds of lock, and a lock has one: remove either")
    };
    check(
        r#"write, key = "a", renew, read"#,
        &[("read", &text("write", "read"))],
    );
    check(
        r#"key = "a", permits = 5, reentrant, read"#,
        &[
            ("reentrant", &text("permits", "reentrant")),
            ("read", &text("permits", "read")),
        ],
    );
    // The second kind was only meant, and is reported already.
    check(
        r#"key = "a", read, semaphore = 5"#,
        &[(
            "semaphore",
            "unknown argument `semaphore`, which is `permits` here: write `permits = 5`",
        )],
    );
}

#[test]
fn fair_is_for_the_others() {
    for (kind, name) in [
        ("read", "read"),
        ("write", "write"),
        ("permits = 5", "permits"),
        ("reentrant, owner = \"<id>\"", "owner"),
    ] {
        let message = format!(
            "with `{name}` a lock is granted in order of arrival anyway, and `fair` is for exclusive locks: remove it"
        );
        check(&format!("key = \"a\", fair, {kind}"), &[("fair", &message)]);
    }
}

#[test]
fn what_needs_another() {
    let take = "`take` says how many of the `permits` are taken at once, and this lock has none: add `permits`, or remove `take`";
    let owner = "`owner` says who may take the lock again, and this one can't be taken again: add `reentrant`, or remove `owner`";
    check(r#"key = "a", take = 2"#, &[("take", take)]);
    check(r#"key = "a", owner = "<id>""#, &[("owner", owner)]);
    check(
        r#"key = "a", take = 2, owner = id, write"#,
        &[("take", take), ("owner", owner)],
    );
    // The missing word was meant.
    check(
        r#"key = "a", take = 2, permit = 5"#,
        &[(
            "permit",
            "unknown argument `permit`, which is `permits` here: write `permits = 5`",
        )],
    );
    check(
        r#"key = "a", owner = "<id>", rentrant"#,
        &[(
            "rentrant",
            "unknown argument `rentrant`, did you mean `reentrant`?",
        )],
    );
}

#[test]
fn owners_have_a_text() {
    let owned = |owner: &str| format!("key = \"a\", reentrant, owner = {owner}");
    let long = format!("{:?}", "x".repeat(257));
    for (owner, message) in [
        (
            "\"\"",
            "the owner is empty, so everybody would be the same one: name who may take the lock again",
        ),
        (
            long.as_str(),
            "the owner has 257 bytes, and at most 256 are allowed: hash the long part",
        ),
        ("7", "an owner is text: write `owner = \"7\"`"),
        ("'x'", "an owner is text: write `owner = \"x\"`"),
        ("true", "an owner is text: write `owner = \"true\"`"),
    ] {
        check(&owned(owner), &[(owner, message)]);
    }
    check(
        &owned(""),
        &[(
            "owner",
            "`owner` needs a value: write `reentrant, owner = \"<workflow>\"`",
        )],
    );
}

/// The rules of a template, in messages about an owner.
#[test]
fn owners_are_templates() {
    let owned = |owner: &str| format!("key = \"a\", reentrant, owner = {owner}");
    for (owner, message) in [
        (
            "\"<workflow>\"",
            "unknown name `workflow` in the owner's template, arguments are: id, buyer\n  | \"<workflow>\"\n  |   ^^^^^^^^",
        ),
        (
            "\"<id><buyer>\"",
            "different values of these two placeholders could give the same owner: put a separator between them that no value can \
             contain, such as `:` or `/`\n  | \"<id><buyer>\"\n  |  ^^^^^^^^^^^",
        ),
        (
            "\"step:{id}\"",
            "`{id}` is text, the same for every value: write `<id>`, or `owner = dlock_runtime::Key::verbatim(\"step:{id}\")` if it shall be",
        ),
        (
            "\"step:id>\"",
            "`id>` is text, the same for every value: write `<id>`, or `owner = dlock_runtime::Key::verbatim(\"step:id>\")` if it shall be",
        ),
    ] {
        check(&owned(owner), &[(owner, message)]);
    }
    let message = "in an expression `<id>` is text, the same for every value: write the template alone, `owner = \"item:<id>\"`, or \
                   `dlock_runtime::lock_key!(\"item:<id>\")`";
    check(&owned("String::from(\"<id>\")"), &[("\"<id>\"", message)]);
    check_on(
        "async fn f(&self) {}",
        "key = \"a\", on_error = f, reentrant, owner = \"<id>\"",
        &[(
            "\"<id>\"",
            "unknown name `id` in the owner's template, arguments are: self\n  | \"<id>\"\n  |   ^^",
        )],
    );
}
