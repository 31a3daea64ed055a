//! `on_busy = "skip"` on functions that can't return all other errors.

use super::{check, check_on};

#[test]
fn an_outage_needs_a_way_out() {
    for (item, returns, instead) in [
        ("async fn f() {}", "()", "()"),
        ("async fn f() -> () {}", "()", "()"),
        ("async fn f() -> Option<u8> { None }", "Option", "Option<T>"),
        (
            "async fn f() -> ::std::option::Option<impl Send> { None }",
            "Option",
            "Option<T>",
        ),
    ] {
        let message = format!(
            "only a busy lock is skipped, not an outage, and this function returns `{returns}`, which can't carry an error: \
             add `on_error = |error| …`, or return `Result<{instead}, E>`"
        );
        check_on(
            item,
            r#"key = "a", on_busy = "skip""#,
            &[("\"skip\"", &message)],
        );
    }
}

#[test]
fn a_wait_without_end_never_finds_it_busy() {
    check(
        r#"key = "a", on_busy = "skip", wait = "forever""#,
        &[(
            "\"forever\"",
            "whoever waits for ever never finds the lock busy, so `on_busy = \"skip\"` would never skip: leave `wait` out to try \
             once, or give it an end",
        )],
    );
}
