//! Keys that are refused, in the attribute and in `lock_key!`: names, templates, other notations,
//! templates in expressions.

use super::{accept, accept_on, check, check_on};

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
        "`self` in the key template, but `f` has no receiver, arguments are: id, buyer",
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
    // Reported once, however often the name occurs.
    check_key(
        "<idd>:<idd.x>:<id>",
        "unknown name `idd` in the key template, arguments are: id, buyer",
        "  ^^^",
    );
    let literal = "\"<x>\"";
    let caret = "\n  | \"<x>\"\n  |   ^";
    for (item, names) in [
        (
            "async fn f() {}",
            ", and `f` has no arguments: add one, or write plain text",
        ),
        (
            "async fn f(_: u8) {}",
            ", and no argument of `f` has a name: give it one",
        ),
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
    let places = "a placeholder holds a name, then fields, tuple indices or calls without arguments, such as `<order.user.id>`: else \
                  write `key = { let part = …; dlock_runtime::lock_key!(\"item:<part>\") }`";
    check_key("item:é<x.y(1)>", places, "          ^^^^");
    check_key("item:<id+1>", places, "       ^^^^");
    check_key("item:<half(id)>", places, "       ^^^^^^^^");
    check_key(
        "a:< id >",
        "a placeholder has no spaces: write `<id>`",
        "    ^^^^",
    );
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

/// A placeholder in another notation is text: all values would share one lock.
#[test]
fn other_notations() {
    for (key, written, meant) in [
        ("item:{id}", "{id}", "id"),
        ("item:{id:08}", "{id:08}", "id"),
        ("item:{buyer.len}", "{buyer.len}", "buyer.len"),
        ("item:${id}", "{id}", "id"),
        ("a:<id>:{buyer}", "{buyer}", "buyer"),
        ("item:{ id }", "{ id }", "id"),
        ("item:{&id - 1}", "{&id - 1}", "id"),
    ] {
        let message = format!(
            "`{written}` is text in a cluster's hash tag, the same for every value: write `<{meant}>`, `{{<{meant}>}}` for a hash tag, or `key = dlock_runtime::Key::verbatim({key:?})` if it shall be"
        );
        let literal = format!("{key:?}");
        check(&format!("key = {literal}"), &[(&literal, &message)]);
    }
    for (key, written, meant) in [
        ("item:#id", "#id", "id"),
        ("$id:item", "$id", "id"),
        ("a:#buyer.", "#buyer", "buyer"),
        ("item:id", ":id", "id"),
        ("item:id:paid", ":id", "id"),
        ("item:id>", "id>", "id"),
        ("id>:<buyer>", "id>", "id"),
        ("item:buyer.x>", "buyer.x>", "buyer.x"),
    ] {
        let literal = format!("{key:?}");
        let message = format!(
            "`{written}` is text, the same for every value: write `<{meant}>`, or `key = dlock_runtime::Key::verbatim({literal})` if it shall be"
        );
        check(&format!("key = {literal}"), &[(&literal, &message)]);
    }
    for key in [
        "item:{identity}",
        "a:#1:$:<id>",
        "{orders}:<id>",
        "id:<id>",
        "item:id:<id>",
        "item:ids",
        "a->b>",
        "id",
        "#",
    ] {
        accept(&format!("key = {key:?}"));
    }
}

#[test]
fn other_notations_of_the_receiver() {
    let method = "async fn f(&self, id: u64) {}";
    for (key, written, meant, tag) in [
        ("b:{self.id}", "{self.id}", "self.id", true),
        ("b:$self.id", "$self.id", "self.id", false),
    ] {
        let (literal, verbatim) = (
            format!("{key:?}"),
            format!("key = dlock_runtime::Key::verbatim({key:?})"),
        );
        let message = if tag {
            format!(
                "`{written}` is text in a cluster's hash tag, the same for every value: write `<{meant}>`, `{{<{meant}>}}` for a hash tag, or `{verbatim}` if it shall be"
            )
        } else {
            format!(
                "`{written}` is text, the same for every value: write `<{meant}>`, or `{verbatim}` if it shall be"
            )
        };
        check_on(method, &format!("key = {literal}"), &[(&literal, &message)]);
    }
    let literal = r#""b:{self.id}:<id>""#;
    let message = text_in_lock_key(
        literal,
        "{self.id}",
        "self.id",
        ", `{<self.id>}` for a hash tag",
    );
    check_on(
        method,
        &format!("key = lock_key!({literal})"),
        &[(literal, &message)],
    );
    accept_on(method, r#"key = "b:self""#);
}

#[test]
fn templates_in_expressions() {
    for (expression, literal) in [
        (r#""item:<id>".to_owned()"#, r#""item:<id>""#),
        (r#"format!("item:<id>")"#, r#""item:<id>""#),
        (r#"concat!("item:", "<id>")"#, r#""<id>""#),
        (r#"{ f(&["<id.x>"]) }"#, r#""<id.x>""#),
    ] {
        check(
            &format!("key = {expression}"),
            &[(
                literal,
                "in an expression `<id>` is text, the same for every value: write the template alone, `key = \"item:<id>\"`, or \
                 `dlock_runtime::lock_key!(\"item:<id>\")`",
            )],
        );
    }
    for expression in [
        r#"String::from("item:id")"#,
        r#"lock_key!("item:<id>")"#,
        r#"dlock_runtime::lock_key!("item:<id>").clone()"#,
        r#"Key::verbatim(format!("<{id}>"))"#,
        r#"Key::verbatim("item:<id>")"#,
        r#"f("<identity>", b"<id>")"#,
        r#"("item:<id>")"#,
        r##"r#"item:<id>"#"##,
    ] {
        accept(&format!("key = {expression}"));
    }
}

/// `format!` does not encode: for some values it would be another lock than the template's.
#[test]
fn format_where_it_becomes_a_key() {
    let said = |write: &str| {
        format!(
            "`format!` leaves values as they are, templates encode them: write `{write}`, or `Key::verbatim(…)` if that is meant\n  (both are in `dlock_runtime`)"
        )
    };
    for (format, template) in [
        (r#"format!("item:{id}")"#, r#""item:<id>""#),
        (r#"format!("item:{}:{0}", id)"#, r#""item:<id>:<id>""#),
        (r#"std::format!("{}/{}", id, buyer,)"#, r#""<id>/<buyer>""#),
        (
            r#"format!("{x}:{{{id}}}", x = &buyer.name.0)"#,
            r#""<buyer.name.0>:{<id>}""#,
        ),
        (
            r#"format!("a<b:{}", (buyer.len()))"#,
            r#""a<<b:<buyer.len()>""#,
        ),
        (
            r#"format_args!("item:{MAX}:{id}")"#,
            r#"lock_key!("item:<MAX>:<id>")"#,
        ),
        (r#"format!("item:{other}")"#, r#"lock_key!("item:<other>")"#),
        (
            r#"format!("item:{id:08}:{buyer}")"#,
            r#"{ let part = format!("{:08}", id); lock_key!("item:<part>:<buyer>") }"#,
        ),
        (
            r#"format!("{}:{}", f(1), f(part))"#,
            r#"{ let part2 = f(1); let part3 = f(part); lock_key!("<part2>:<part3>") }"#,
        ),
        (
            r#"format!("item:{}", keys::half(&id) + 1)"#,
            r#"{ let part = keys::half(&id) + 1; lock_key!("item:<part>") }"#,
        ),
        (
            r#"format!("item:{}", ids[0])"#,
            r#"{ let part = &ids[0]; lock_key!("item:<part>") }"#,
        ),
    ] {
        let message = said(&format!("key = {template}"));
        check(&format!("key = {format}"), &[(format, &message)]);
    }
    // In every expression that gives the key.
    let format = r#"format!("item:{id}")"#;
    let template = said(r#"key = "item:<id>""#);
    for around in [
        "(@)",
        "&@",
        "@.as_str()",
        "@.to_string().into()",
        "String::from(@)",
        "Some(&@)",
    ] {
        check(
            &format!("key = {}", around.replace('@', format)),
            &[(format, &template)],
        );
    }
    let part = said(r#"lock_key!("item:<id>")"#);
    for around in [
        "{ let id = 1; @ }",
        "if id == 1 { a() } else { @ }",
        "match id { _ => @ }",
        "@ + \"x\"",
        "x.map_or_else(a, |id| @)",
    ] {
        check(
            &format!("key = {}", around.replace('@', format)),
            &[(format, &part)],
        );
    }
    for around in ["ids.iter().map(|id| @)", "vec![@]", "&[@.clone()]"] {
        check(
            &format!("keys = {}", around.replace('@', format)),
            &[(format, &part)],
        );
    }
    let listed = said(r#""item:<id>""#);
    check(&format!("keys = [\"a\", &{format}]"), &[(format, &listed)]);
    let owner = said(r#"owner = "item:<id>""#);
    check(
        &format!("key = \"a\", reentrant, owner = {format}"),
        &[(format, &owner)],
    );
    // A key without a template form, or an invalid `format!`, gets the general form.
    let general = said(r#"key = { let part = …; lock_key!("item:<part>") }"#);
    for format in [
        r#"format!("{id}{buyer}")"#,
        r#"format!("100%:{id}")"#,
        r#"format!("{:width$}", id)"#,
        r#"format!("{}:{}", id)"#,
        r#"format!("{id")"#,
        "format!()",
        "format!(TEXT, id)",
    ] {
        check(&format!("key = {format}"), &[(format, &general)]);
    }
    let long = format!("format!(\"{}:{{id}}\")", "a".repeat(80));
    check(&format!("key = {long}"), &[(&long, &general)]);
}

/// A function may make anything of its argument, and a verbatim key is intended.
#[test]
fn format_that_is_no_key() {
    for expression in [
        r#"Key::verbatim(format!("item:{id}"))"#,
        r#"Key::verbatim(format!("item:{id}")).clone()"#,
        r#"item_key(&format!("item:{id}"))"#,
        r#"{ let part = format!("{id:08}"); lock_key!("item:<part>") }"#,
        "id.to_string()",
    ] {
        accept(&format!("key = {expression}"));
    }
    accept(r#"keys = ids.iter().map(|id| lock_key!("item:<id>"))"#);
    accept(r#"key = "a", reentrant, owner = Key::verbatim(format!("{id}"))"#);
}

/// The text that the error underlines (`#[…]` for the whole call), and its message.
#[track_caller]
fn check_lock_key(input: &str, underlined: &str, expected: &str) {
    let error = crate::rules::lock_key(input.parse().unwrap())
        .err()
        .expect("an error");
    let text = error.span().source_text().filter(|text| !text.is_empty());
    let found = (text.unwrap_or("#[…]".into()), error.to_string());
    assert_eq!(found, (underlined.to_owned(), expected.to_owned()));
}

#[test]
fn lock_key() {
    check_lock_key(
        "::dlock_runtime,",
        "#[…]",
        "expected a key template: write `lock_key!(\"item:<id>\")`",
    );
    check_lock_key(
        "::dlock_runtime, id",
        "id",
        "expected a key template: write `lock_key!(\"item:<id>\")`",
    );
    check_lock_key(
        "::dlock_runtime, \"item:{}\", id",
        "id",
        "`lock_key!` takes one key template, values in it: write `lock_key!(\"item:<id>\")`",
    );
    check_lock_key(
        "::dlock_runtime, \"\"",
        "\"\"",
        "the key is empty: name what is locked, such as \"item:7\"",
    );
    let mended = crate::rules::lock_key("::dlock_runtime, \"item:<id>\"".parse().unwrap());
    assert!(mended.is_ok());
}

/// What `lock_key!` says of another notation. Verbatim, a placeholder would be text too.
fn text_in_lock_key(literal: &str, written: &str, meant: &str, tag: &str) -> String {
    let verbatim = if literal.contains('<') {
        "format!(…)"
    } else {
        literal
    };
    format!(
        "`{written}` is text, the same for every value: write `<{meant}>`{tag}, or `dlock_runtime::Key::verbatim({verbatim})` if it shall be"
    )
}

/// Alone it knows no names: what can hardly be meant as text is refused.
#[test]
fn other_notations_in_lock_key() {
    for (key, written, meant, tag) in [
        ("b:$id", "$id", "id", ""),
        ("b:#id:x", "#id", "id", ""),
        ("b:#order.id", "#order.id", "order.id", ""),
        ("b:$_id", "$_id", "_id", ""),
        ("b:$id:<shop>", "$id", "id", ""),
        ("b:{id}", "{id}", "id", ", `{<id>}` for a hash tag"),
        ("b:${id}", "{id}", "id", ", `{<id>}` for a hash tag"),
        ("b:{id:?}", "{id:?}", "id", ", `{<id>}` for a hash tag"),
        ("b:${id}:<shop>", "{id}", "id", ", `{<id>}` for a hash tag"),
        ("<shop>:#{id}", "{id}", "id", ", `{<id>}` for a hash tag"),
        ("b:{ id }", "{ id }", "id", ", `{<id>}` for a hash tag"),
        ("b:${&id}", "{&id}", "id", ", `{<id>}` for a hash tag"),
    ] {
        let literal = format!("{key:?}");
        let message = text_in_lock_key(&literal, written, meant, tag);
        check_lock_key(&format!("::dlock_runtime, {literal}"), &literal, &message);
    }
    for key in [
        "b:{shop}:<id>",
        "b:{<shop>}:<id>",
        "b:#1:$:<id>",
        "c#:x",
        "b:id",
        "a->b>",
        "b:{7}",
        "b:{user-7}",
        "b:{eu west}",
    ] {
        let mended = crate::rules::lock_key(format!("::dlock_runtime, {key:?}").parse().unwrap());
        assert!(mended.is_ok(), "{key}");
    }
}

/// Inside the attribute the function's arguments are known.
#[test]
fn other_notations_in_lock_key_inside_the_attribute() {
    for (argument, key, written, meant, tag) in [
        (
            "key = ",
            "b:{id}",
            "{id}",
            "id",
            ", `{<id>}` for a hash tag",
        ),
        (
            "key = ",
            "{id}:<buyer>",
            "{id}",
            "id",
            ", `{<id>}` for a hash tag",
        ),
        ("key = ", "b:#id:<buyer>", "#id", "id", ""),
        ("keys = ", "b:$buyer.x", "$buyer.x", "buyer.x", ""),
    ] {
        let literal = format!("{key:?}");
        let message = text_in_lock_key(&literal, written, meant, tag);
        for expression in [
            format!("lock_key!({literal})"),
            format!("{{ let part = 1; dlock_runtime::lock_key!({literal},) }}"),
            format!("ids.iter().map(|it| lock_key!({literal}))"),
        ] {
            check(&format!("{argument}{expression}"), &[(&literal, &message)]);
        }
    }
    accept(r#"key = lock_key!("b:{shop}:<id>")"#);
    accept(r#"key = { let part = id / 100; lock_key!("b:{shop}:<part>") }"#);
}
