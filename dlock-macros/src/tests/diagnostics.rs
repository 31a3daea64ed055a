use proc_macro2::TokenStream;

const ITEM: &str = "async fn f(id: u64, buyer: &str) -> Result<u64, E> { Ok(1) }";

/// The text that each error underlines (`#[…]` for the whole attribute) with its message, in order.
#[track_caller]
fn check_on(item: &str, arguments: &str, expected: &[(&str, &str)]) {
    let [arguments, item]: [TokenStream; 2] = [arguments, item].map(|text| text.parse().unwrap());
    let errors = crate::rules::model(arguments.clone(), item.clone())
        .err()
        .expect("an error");
    let found: Vec<_> = errors
        .into_iter()
        .map(|error| {
            (
                error
                    .span()
                    .source_text()
                    .filter(|text| !text.is_empty())
                    .unwrap_or("#[…]".into()),
                error.to_string(),
            )
        })
        .collect();
    let found: Vec<_> = found
        .iter()
        .map(|(text, message)| (text.as_str(), message.as_str()))
        .collect();
    assert_eq!(found, expected);
    // Whatever is wrong, the user's item comes out as it went in.
    let expansion = crate::attribute(arguments, item.clone()).to_string();
    assert!(expansion.ends_with(&item.to_string()), "{expansion}");
    assert_eq!(
        expansion.matches(":: core :: compile_error !").count(),
        expected.len(),
        "{expansion}"
    );
}

#[track_caller]
fn check(arguments: &str, expected: &[(&str, &str)]) {
    check_on(ITEM, arguments, expected);
}

/// One error about the key literal: the message, and the text above the carets.
#[track_caller]
fn check_key(key: &str, message: &str, carets: &str) {
    let literal = format!("{key:?}");
    let message = format!("{message}\n  | {literal}\n  | {carets}");
    check(&format!("key = {literal}"), &[(&literal, &message)]);
}

#[test]
fn unknown_arguments() {
    check(
        r#"kye = "a""#,
        &[("kye", "unknown argument `kye`, did you mean `key`?")],
    );
    check(
        r#"key = "a", tll = "1s""#,
        &[("tll", "unknown argument `tll`, did you mean `ttl`?")],
    );
    check(
        r#"key = "a", on_eror = f(a, b)"#,
        &[(
            "on_eror",
            "unknown argument `on_eror`, did you mean `on_error`?",
        )],
    );
    check(
        r#"key = "a", timeout = "1s""#,
        &[(
            "timeout",
            "unknown argument `timeout`, arguments are: key, ttl, wait, renew, on_lost, guard, pool, map_err, on_error, crate",
        )],
    );
}

#[test]
fn later_arguments() {
    for name in
        "max_hold max_renewals min_hold reentrant read write fair permits owner on_busy release"
            .split(' ')
    {
        check(
            &format!("key = \"a\", {name}"),
            &[(name, &format!("`{name}` is not supported yet"))],
        );
        check(
            &format!("key = \"a\", {name} = [1, 2]"),
            &[(name, &format!("`{name}` is not supported yet"))],
        );
    }
    check(
        r#"keys = ["a", "b"]"#,
        &[("keys", "`keys` is not supported yet")],
    );
}

#[test]
fn missing_key() {
    let message = "missing `key`: say what is locked, such as `key = \"item:<id>\"`";
    check("", &[("#[…]", message)]);
    check(
        r#"tll = "1s""#,
        &[
            ("tll", "unknown argument `tll`, did you mean `ttl`?"),
            ("#[…]", message),
        ],
    );
    check_on(
        &format!("#[distributed_lock] #[a::distributed_lock(ttl = \"1\")] {ITEM}"),
        r#"key = "a""#,
        &[
            ("distributed_lock", message),
            ("a::distributed_lock", message),
            ("\"1\"", "duration \"1\" needs a unit: ms, s, m, h or d"),
        ],
    );
}

#[test]
fn shapes() {
    check(
        r#""item:<id>""#,
        &[(
            "\"item:<id>\"",
            "an argument needs its name: write `key = \"item:<id>\"`",
        )],
    );
    check(
        "key",
        &[("key", "`key` needs a value: write `key = \"item:<id>\"`")],
    );
    check(
        "key =",
        &[("key", "`key` needs a value: write `key = \"item:<id>\"`")],
    );
    check(
        r#"key = "a", ttl"#,
        &[("ttl", "`ttl` needs a value: write `ttl = \"10s\"`")],
    );
    check(r#"key = "a", ttl = 10"#, &[("10", "write `ttl = \"10s\"`")]);
    check(
        r#"key = "a", ttl("10s")"#,
        &[("(", "expected `=`: write `ttl = \"10s\"`")],
    );
    check(
        r#"key = "a", wait = W::X"#,
        &[(
            "W::X",
            "write `wait = \"3s\"`, `wait = \"0s\"` or `wait = \"forever\"`",
        )],
    );
    check(
        r#"key = "a", renew = 3"#,
        &[("3", "write `renew`, `renew = \"3s\"` or `renew = false`")],
    );
    check(
        r#"key = "a", on_lost = cancel"#,
        &[(
            "cancel",
            "write `on_lost = \"cancel\"` or `on_lost = \"finish\"`",
        )],
    );
    check(
        r#"key = "a", guard = "lock""#,
        &[("\"lock\"", "write `guard = lock`")],
    );
    check(
        r#"key = "a", guard = self"#,
        &[("self", "write `guard = lock`")],
    );
    check(
        r#"key = "a", guard = a::b"#,
        &[("a::b", "write `guard = lock`")],
    );
    check(
        r#"key = "a", crate = "x""#,
        &[("\"x\"", "write `crate = path::to::dlock_runtime`")],
    );
    check(
        r#"key = "a" ttl = "1s""#,
        &[("ttl", "expected `,` between two arguments")],
    );
    check(
        r#"key = "a", = 3"#,
        &[("=", "expected an argument such as `key = \"item:<id>\"`")],
    );
}

#[test]
fn duplicates() {
    check(
        r#"key = "a", key = "b""#,
        &[("key", "duplicate argument `key`: write it once")],
    );
    check(
        r#"key = "a", renew, renew = false"#,
        &[("renew", "duplicate argument `renew`: write it once")],
    );
}

#[test]
fn durations() {
    check(
        r#"key = "a", ttl = "10""#,
        &[("\"10\"", "duration \"10\" needs a unit: ms, s, m, h or d")],
    );
    check(
        r#"key = "a", ttl = "10x""#,
        &[(
            "\"10x\"",
            "duration \"10x\" has the unknown unit \"x\": use ms, s, m, h or d",
        )],
    );
    check(
        r#"key = "a", wait = "soon""#,
        &[(
            "\"soon\"",
            "duration \"soon\" needs a number before the unit, such as \"10s\"; or write \"forever\"",
        )],
    );
    check(
        r#"key = "a", ttl = "9ms""#,
        &[(
            "\"9ms\"",
            "ttl 9ms is shorter than the minimum of 10ms: give the lease more time",
        )],
    );
    check(
        r#"key = "a", ttl = "0s""#,
        &[(
            "\"0s\"",
            "ttl 0s is shorter than the minimum of 10ms: give the lease more time",
        )],
    );
    check(
        r#"key = "a", ttl = "25h""#,
        &[(
            "\"25h\"",
            "ttl 1d1h is longer than the maximum of 24h: use a shorter ttl and `renew`",
        )],
    );
}

#[test]
fn renewal() {
    let half = "renewal interval 5s must be less than half of the ttl 10s, so that a failed renewal can be repeated: \
                shorten the interval or leave it out to renew every third of the ttl";
    check(
        r#"key = "a", ttl = "10s", renew = "5s""#,
        &[("\"5s\"", half)],
    );
    check(
        r#"key = "a", renew = "5s", ttl = "10s""#,
        &[("\"5s\"", half)],
    );
    check(
        r#"key = "a", renew = "0s""#,
        &[(
            "\"0s\"",
            "renewal interval 0s is shorter than the minimum of 1ms: leave it out to renew every third of the ttl",
        )],
    );
}

#[test]
fn words() {
    check(
        r#"key = "a", on_lost = "stop""#,
        &[(
            "\"stop\"",
            "unknown `on_lost` \"stop\": write \"cancel\" or \"finish\"",
        )],
    );
    check(
        r#"key = "a", guard = id"#,
        &[(
            "id",
            "the guard `id` would hide the argument of that name: choose another",
        )],
    );
}

#[test]
fn error_handlers() {
    check(
        r#"key = "a", map_err = f, on_error = g"#,
        &[(
            "on_error",
            "`on_error` makes the whole return value, so it cannot stand beside `map_err`: remove one",
        )],
    );
    let message = "`map_err` needs a function that returns `Result`, and this one returns `()`: write `on_error = |error| …`";
    check_on(
        "async fn f() {}",
        r#"key = "a", map_err = f"#,
        &[("map_err", message)],
    );
    check_on(
        "async fn f() -> () {}",
        r#"key = "a", map_err = f"#,
        &[("map_err", message)],
    );
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
fn functions() {
    let order = "`#[distributed_lock]` goes on an `async fn`; with `#[tokio::main]`, `#[tokio::test]` and the like it goes above \
                 them, because below them the function is no longer async";
    let key = r#"key = "a""#;
    check_on("fn f() {}", key, &[("fn", order)]);
    check_on("#[test] fn f() { body.block_on() }", key, &[("fn", order)]);
    check_on(
        "const fn f() {}",
        key,
        &[(
            "const",
            "`#[distributed_lock]` cannot go on a `const fn`: taking a lock needs a server",
        )],
    );
    check_on(
        "async extern \"C\" fn f() {}",
        key,
        &[(
            "extern \"C\"",
            "`#[distributed_lock]` cannot go on an `extern fn`: lock in an `async fn` that it calls",
        )],
    );
    check_on(
        "async fn f() -> ! { loop {} }",
        key,
        &[(
            "!",
            "a function that never returns would hold its lock until the lease is lost: give it a return type",
        )],
    );
    check_on(
        "async fn f(&self);",
        key,
        &[(
            "f",
            "this method has no body to lock: put `#[distributed_lock]` on the implementations",
        )],
    );
    let other = "`#[distributed_lock]` goes on an `async fn`, not on this item";
    check_on("struct S;", key, &[("struct", other)]);
    check_on("impl S { async fn f() {} }", key, &[("impl", other)]);
    check_on("const F: u8 = 1;", key, &[("const", other)]);
    check_on("pub static F: u8 = 1;", key, &[("static", other)]);
}

#[test]
fn async_trait_of_another_form() {
    let message = "this method looks like the output of `#[async_trait]`, but its body does not have the form that async-trait 0.1 \
                   writes: move the work into an `async fn` and put `#[distributed_lock]` there";
    for body in [
        "Box::pin(async move { Ok(1) })",
        "Box::pin(f())",
        "Box::pin(async move { let __ret: R = f(); __ret })",
        "let x = 1; Box::pin(async move { let __ret: R = { 1 }; __ret })",
        "",
    ] {
        let item = format!(
            "fn get<'async_trait>(&self) -> Pin<Box<dyn Future<Output = R> + 'async_trait>> {{ {body} }}"
        );
        check_on(&item, r#"key = "<self.x>""#, &[("get", message)]);
    }
}

#[test]
fn all_at_once() {
    check_on(
        "fn f(id: u64) {}",
        r#"key = "a:<idd>%", kye = 1, ttl = "10", wait 3, renew = "x", fair, map_err = f, on_error = g, on_lost = "x""#,
        &[
            ("kye", "unknown argument `kye`, did you mean `key`?"),
            (
                "3",
                "expected `=`: write `wait = \"3s\"`, `wait = \"0s\"` or `wait = \"forever\"`",
            ),
            ("fair", "`fair` is not supported yet"),
            (
                "fn",
                "`#[distributed_lock]` goes on an `async fn`; with `#[tokio::main]`, `#[tokio::test]` and the like it goes above \
                 them, because below them the function is no longer async",
            ),
            ("\"10\"", "duration \"10\" needs a unit: ms, s, m, h or d"),
            (
                "\"x\"",
                "duration \"x\" needs a number before the unit, such as \"10s\"",
            ),
            (
                "\"x\"",
                "unknown `on_lost` \"x\": write \"cancel\" or \"finish\"",
            ),
            (
                "on_error",
                "`on_error` makes the whole return value, so it cannot stand beside `map_err`: remove one",
            ),
            (
                "\"a:<idd>%\"",
                "`%` is what encoded values are written with and cannot stand in a key template: use another character\n  \
                 | \"a:<idd>%\"\n  |         ^",
            ),
        ],
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
