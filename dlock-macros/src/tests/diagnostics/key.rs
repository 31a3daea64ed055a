use super::{check, check_on};

/// One error about the key literal: the message, and the text above the carets.
#[track_caller]
fn check_key(key: &str, message: &str, carets: &str) {
    let literal = format!("{key:?}");
    let message = format!("{message}\n  | {literal}\n  | {carets}");
    check(&format!("key = {literal}"), &[(&literal, &message)]);
}

#[test]
fn names_in_the_key() {
    check_key(
        "a:<idd>",
        "unknown name `idd` in the key template, arguments are: id, buyer",
        "    ^^^",
    );
    check_key(
        "é\\:<self.x>",
        "`self` in the key template, but `f` has no receiver",
        "      ^^^^",
    );
    check(
        r#"key = "<a>:<b.c>""#,
        &[
            (
                "\"<a>:<b.c>\"",
                "unknown name `a` in the key template, arguments are: id, buyer\n  | \"<a>:<b.c>\"\n  |   ^",
            ),
            (
                "\"<a>:<b.c>\"",
                "unknown name `b` in the key template, arguments are: id, buyer\n  | \"<a>:<b.c>\"\n  |       ^",
            ),
        ],
    );
    let literal = "\"<x>\"";
    let caret = "\n  | \"<x>\"\n  |   ^";
    for (item, names) in [
        ("async fn f() {}", ", and `f` has no arguments"),
        ("async fn f(_: u8) {}", ", and `f` has no arguments"),
        ("async fn f(&self) {}", ", arguments are: self"),
        (
            "async fn f(self: Arc<Self>, P { y: (z, mut r#fn), .. }: P) {}",
            ", arguments are: self, z, r#fn",
        ),
    ] {
        check_on(
            item,
            r#"key = "<x>""#,
            &[(
                literal,
                &format!("unknown name `x` in the key template{names}{caret}"),
            )],
        );
    }
}

#[test]
fn key_templates() {
    let places = "a placeholder holds a name, then fields, tuple indices or argument-less method calls, such as `<order.user.id>`; \
                  for anything else write `key = <expression>`";
    check_key("item:é<x.y(1)>", places, "          ^^^^");
    check_key(
        "<id><buyer>",
        "different values of these two placeholders could give the same key: put a separator between them that no value can \
         contain, such as `:` or `/`",
        " ^^^^^^^^^^^",
    );
    check_key(
        "a{<id>",
        "braces in a key are the cluster's hash tag and come in a pair: write `{tag}` or no brace",
        "  ^",
    );
    check(
        r#"key = """#,
        &[(
            "\"\"",
            "the key is empty: name what is locked, such as \"item:7\"",
        )],
    );
}

#[test]
fn a_tag_that_is_an_arguments_name() {
    check(
        r#"key = "item:{id}""#,
        &[(
            r#""item:{id}""#,
            "`{id}` is the text `id` in a cluster's hash tag, the same for every value: write `<id>`, or `{<id>}` for a hash tag",
        )],
    );
}

#[track_caller]
fn check_lock_key(input: &str, expected: &str) {
    let errors = crate::rules::lock_key(input.parse().unwrap())
        .err()
        .expect("an error");
    assert_eq!(errors.to_string(), expected);
}

#[test]
fn lock_key() {
    check_lock_key("::dlock_runtime,", "write `lock_key!(\"item:<id>\")`");
    check_lock_key("::dlock_runtime, key", "write `lock_key!(\"item:<id>\")`");
    check_lock_key(
        "::dlock_runtime, \"a\", \"b\"",
        "`lock_key!` takes one key template",
    );
    check_lock_key(
        "::dlock_runtime, \"\"",
        "the key is empty: name what is locked, such as \"item:7\"",
    );
}
