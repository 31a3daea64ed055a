//! Items that the attribute refuses, locks that one function can't have, and all errors of a use in
//! one compile.

use super::check_on;

#[test]
fn functions() {
    let key = r#"key = "a""#;
    let plain = "this function is not async, and a lock is waited for: write `async fn`";
    check_on("fn f() {}", key, &[("fn", plain)]);
    check_on("fn f() -> FutureId {}", key, &[("fn", plain)]);
    let made = "this function only makes a future, and the lock would end before that runs: write it as `async fn`, above attributes that change it";
    for returns in [
        "impl Future<Output = u8>",
        "Pin<Box<dyn Future<Output = u8> + Send>>",
        "BoxFuture<'static, u8>",
    ] {
        check_on(
            &format!("fn f() -> {returns} {{ g() }}"),
            key,
            &[("fn", made)],
        );
    }
    let order = "below `#[tokio::test]`, `#[tokio::main]` and the like a function is no longer async: put `#[distributed_lock]` above \
                 them";
    check_on(
        "#[test] fn f() { return Builder::new().block_on(body); }",
        key,
        &[("fn", order)],
    );
    check_on(
        "const fn f() {}",
        key,
        &[(
            "const",
            "`#[distributed_lock]` cannot go on a `const fn`, since a lock needs a server: write `async fn`",
        )],
    );
    check_on(
        "async extern \"C\" fn f() {}",
        key,
        &[(
            "extern \"C\"",
            "`#[distributed_lock]` cannot go on an `extern fn`: put it on an `async fn` that this one calls",
        )],
    );
    check_on(
        "async fn f() -> ! { loop {} }",
        key,
        &[(
            "!",
            "a function that never returns would hold its lock until the lease is lost: give it a return type, such as \
             `Result<(), LockError>`",
        )],
    );
    check_on(
        "async fn f(&self);",
        key,
        &[(
            "f",
            "this function has no body to lock: write one, or for a method of a trait put `#[distributed_lock]` on those of the `impl` blocks",
        )],
    );
}

#[test]
fn other_items() {
    let key = r#"key = "a""#;
    let inside = "`#[distributed_lock]` goes on an `async fn`: put it on the methods inside";
    check_on("impl S { async fn f() {} }", key, &[("impl", inside)]);
    check_on("trait T { async fn f() {} }", key, &[("trait", inside)]);
    let other = "`#[distributed_lock]` goes on an `async fn`, not on this item: move it there";
    for (item, at) in [
        ("struct S;", "struct"),
        ("mod m {}", "mod"),
        ("const F: u8 = 1;", "const"),
        ("pub static F: u8 = 1;", "static"),
        ("async |id: u64| id", "async"),
        ("async gen fn f() {}", "async"),
    ] {
        check_on(item, key, &[(at, other)]);
    }
}

/// Neither above nor below the attribute that starts its runtime, unless it has a pool of its own.
#[test]
fn main_function() {
    let message = "the lock of `main` would be taken before its body calls `init`: put `#[distributed_lock]` on an `async fn` that \
                   `main` calls";
    let above = "#[tokio::main] async fn main() -> Result<(), E> { Ok(()) }";
    check_on(above, r#"key = "a""#, &[("main", message)]);
    check_on(above, r#"key = "a", pool = "b""#, &[("main", message)]);
    check_on(
        "fn main() { rt().block_on(body) }",
        r#"key = "a""#,
        &[("fn", message)],
    );
    let accepted = |item: &str, arguments: &str| {
        crate::rules::model(arguments.parse().unwrap(), &item.parse().unwrap()).is_ok()
    };
    assert!(accepted(above, r#"key = "a", pool = connect().await?"#));
    // A function of that name in a module.
    assert!(accepted("pub async fn main() {}", r#"key = "a""#));
}

/// The second would find the lock held by the first, in every call.
#[test]
fn the_same_lock_twice() {
    let twice = |first: &str, second: &str, expected: &[(&str, &str)]| {
        let item = format!("#[distributed_lock({second})] {}", super::ITEM);
        if expected.is_empty() {
            let model = crate::rules::model(first.parse().unwrap(), &item.parse().unwrap());
            assert!(model.is_ok(), "{first} {second}");
        } else {
            check_on(&item, first, expected);
        }
    };
    let message =
        "this function locks the same key already and would wait for itself: remove one of the two";
    let found = [("\"a:<id>\"", message)];
    twice(r#"key = "a:<id>""#, r#"ttl = "5s", key = "a:<id>""#, &found);
    let pool = r#"key = "a:<id>", pool = "b""#;
    twice(pool, pool, &found);
    let pool = r#"key = "a:<id>", pool = self.locks"#;
    twice(pool, pool, &found);
    twice(r#"key = "a:<id>""#, r#"key = "a:<buyer>""#, &[]);
    twice(r#"key = "a:<id>""#, r#"key = "a:<id>", pool = "b""#, &[]);
    twice(r#"key = "a:<id>""#, r#"keys = ["b", "a:<id>"]"#, &found);
    let [read, reentrant] = ["read", "reentrant"].map(|word| format!("key = \"a:<id>\", {word}"));
    twice(&read, r#"key = "a:<id>", write"#, &found);
    // These may hold it already, if it is of their kind.
    twice(&read, &read, &[]);
    twice(&reentrant, &reentrant, &[]);
}

#[test]
fn async_trait_of_another_form() {
    let message = "this body does not have the form that `#[async_trait]` 0.1 writes: move the work into an `async fn` and put \
                   `#[distributed_lock]` there";
    for body in [
        "Box::pin(f())",
        "Box::pin(async move { Ok(1) }, 1)",
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
        r#"key = "a:<idd>%", kye = 1, ttl = "10", wait 3, renew = "x", read, fair, map_err = f, on_error = g, on_lost = "x""#,
        &[
            ("kye", "unknown argument `kye`, did you mean `key`?"),
            (
                "3",
                "expected `=`: write `wait = \"3s\"`, `wait = \"0s\"` or `wait = \"forever\"`",
            ),
            (
                "fn",
                "this function is not async, and a lock is waited for: write `async fn`",
            ),
            (
                "\"10\"",
                "duration \"10\" needs a unit, ms, s, m, h or d: write \"10s\"",
            ),
            (
                "\"x\"",
                "duration \"x\" needs a number before the unit, such as \"10s\"",
            ),
            (
                "\"x\"",
                "unknown `on_lost` \"x\": write \"cancel\" or \"finish\"",
            ),
            (
                "fair",
                "with `read` a lock is granted in order of arrival anyway, and `fair` is for exclusive locks: remove it",
            ),
            (
                "on_error",
                "`on_error` makes the whole return value, so it cannot stand beside `map_err`: remove one",
            ),
            (
                "\"a:<idd>%\"",
                "`%` is what encoded values are written with: write another character, or `<id>` for the value of `id`\n  \
                 | \"a:<idd>%\"\n  |         ^",
            ),
        ],
    );
}
