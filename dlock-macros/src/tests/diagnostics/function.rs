use super::check_on;

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
