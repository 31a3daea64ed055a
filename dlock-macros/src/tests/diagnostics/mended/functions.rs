//! Mistakes in the function below the attribute, or that depend on it, with their fixes.

use super::{Told, check_mended};
use crate::tests::diagnostics::check_on;

/// The mistake and its function, the message, and the fixed use and function.
const USES: &[(&str, &str, Told, &str, &str)] = &[
    (
        r#"key = "item:<id>""#,
        r#"#[distributed_lock(keys = ["shop", "item:<id>"])] async fn purchase(id: u64) -> Result<u64, LockError> { Ok(id) }"#,
        &[(
            r#""item:<id>""#,
            "this function locks the same key already and would wait for itself: remove one of the two",
        )],
        r#"keys = ["shop", "item:<id>"]"#,
        "async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "item:<id>""#,
        r#"#[distributed_lock(key = "item:<id>", ttl = "10s")] async fn purchase(id: u64) -> Result<u64, LockError> { Ok(id) }"#,
        &[(
            r#""item:<id>""#,
            "this function locks the same key already and would wait for itself: remove one of the two",
        )],
        r#"key = "item:<id>", ttl = "10s""#,
        "async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "nightly", wait = "forever", on_busy = "skip""#,
        "async fn purchase() -> Result<(), LockError> { Ok(()) }",
        &[],
        r#"key = "nightly", on_busy = "skip""#,
        "async fn purchase() -> Result<(), LockError> { Ok(()) }",
    ),
    (
        r#"key = "item:<id>", tll = "10s""#,
        r#"#[distributed_lock(key = "shop", wait = "3")] async fn purchase(id: u64) -> Result<u64, LockError> { Ok(id) }"#,
        &[
            ("tll", "unknown argument `tll`, did you mean `ttl`?"),
            (
                r#""3""#,
                "duration \"3\" needs a unit, ms, s, m, h or d: write \"3s\"; or write \"forever\"",
            ),
        ],
        r#"key = "item:<id>", ttl = "10s""#,
        r#"#[distributed_lock(key = "shop", wait = "3s")] async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }"#,
    ),
    (
        r#"key = "main""#,
        "#[tokio::main] async fn main() -> Result<(), LockError> { mended().await }",
        &[],
        r#"key = "main""#,
        "async fn mended() -> Result<(), LockError> { Ok(()) }",
    ),
    (
        r#"key = "item:<id>""#,
        "const fn purchase(id: u64) -> Result<u64, LockError> { Ok(id) }",
        &[],
        r#"key = "item:<id>""#,
        "async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "item:<id>""#,
        r#"async extern "C" fn purchase(id: u64) -> Result<u64, LockError> { Ok(id) }"#,
        &[],
        r#"key = "item:<id>""#,
        "async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "item:<id>""#,
        "async fn purchase(&self, id: u64) -> Result<u64, LockError>;",
        &[(
            "purchase",
            "this function has no body to lock: write one, or for a method of a trait put `#[distributed_lock]` on those of the `impl` blocks",
        )],
        r#"key = "item:<id>""#,
        "async fn mended(&self, id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "loop""#,
        "async fn serve() -> ! { std::future::pending().await }",
        &[],
        r#"key = "loop""#,
        "async fn mended() -> Result<(), LockError> { std::future::pending().await }",
    ),
    (
        r#"key = "item:<id>""#,
        "fn purchase(id: u64) -> Result<u64, LockError> { Ok(id) }",
        &[],
        r#"key = "item:<id>""#,
        "async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "item:<id>""#,
        "impl Shop { async fn purchase(id: u64) -> Result<u64, LockError> { Ok(id) } }",
        &[],
        r#"key = "item:<id>""#,
        "async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "item:<id>""#,
        "struct Item { id: u64 }",
        &[],
        r#"key = "item:<id>""#,
        "async fn mended(id: u64) {}",
    ),
    (
        r#"key = "main""#,
        "fn main() -> Result<(), LockError> { drop(mended()); Ok(()) }",
        &[],
        r#"key = "main""#,
        "async fn mended() -> Result<(), LockError> { Ok(()) }",
    ),
    (
        r#"key = "item:<id>""#,
        "fn purchase(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> { Box::pin(async move { Ok(id) }) }",
        &[],
        r#"key = "item:<id>""#,
        "async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "item:<id>""#,
        "fn purchase(id: u64) -> impl Future<Output = Result<u64, LockError>> { async move { Ok(id) } }",
        &[],
        r#"key = "item:<id>""#,
        "async fn mended(id: u64) -> Result<u64, LockError> { Ok(id) }",
    ),
    (
        r#"key = "item:<id><shop>""#,
        "async fn purchase(id: u64, shop: u64) -> Result<u64, LockError> { Ok(id + shop) }",
        &[(
            r#""item:<id><shop>""#,
            "different values of these two placeholders could give the same key: put a separator between them that no value can contain, such as `:` or `/`\n  | \"item:<id><shop>\"\n  |       ^^^^^^^^^^",
        )],
        r#"key = "item:<id>:<shop>""#,
        "async fn purchase(id: u64, shop: u64) -> Result<u64, LockError> { Ok(id + shop) }",
    ),
    (
        r#"key = "item:{pair.0}""#,
        "async fn purchase(pair: (u64, u64)) -> Result<u64, LockError> { Ok(pair.0) }",
        &[(
            r#""item:{pair.0}""#,
            "`{pair.0}` is text in a cluster's hash tag, the same for every value: write `<pair.0>`, `{<pair.0>}` for a hash tag, or `key = dlock_runtime::Key::verbatim(\"item:{pair.0}\")` if it shall be",
        )],
        r#"key = "item:<pair.0>""#,
        "async fn purchase(pair: (u64, u64)) -> Result<u64, LockError> { Ok(pair.0) }",
    ),
    (
        r#"key = "item:<type>""#,
        "async fn purchase(r#type: u64) -> Result<u64, LockError> { Ok(r#type) }",
        &[(
            r#""item:<type>""#,
            "`type` is a keyword: write `r#type` for a thing of that name\n  | \"item:<type>\"\n  |        ^^^^",
        )],
        r#"key = "item:<r#type>""#,
        "async fn purchase(r#type: u64) -> Result<u64, LockError> { Ok(r#type) }",
    ),
    (
        r#"key = "shop:<self.0>""#,
        "async fn purchase(shop: Shop) -> Result<u64, LockError> { Ok(shop.0) }",
        &[(
            r#""shop:<self.0>""#,
            "`self` in the key template, but `purchase` has no receiver, arguments are: shop\n  | \"shop:<self.0>\"\n  |        ^^^^",
        )],
        r#"key = "shop:<shop.0>""#,
        "async fn purchase(shop: Shop) -> Result<u64, LockError> { Ok(shop.0) }",
    ),
    (
        r#"key = "item:<id>""#,
        "async fn purchase(_: u64) -> Result<(), LockError> { Ok(()) }",
        &[(
            r#""item:<id>""#,
            "unknown name `id` in the key template, and no argument of `purchase` has a name: give it one\n  | \"item:<id>\"\n  |        ^^",
        )],
        r#"key = "item:<id>""#,
        "async fn mended(id: u64) -> Result<(), LockError> { let _ = id; Ok(()) }",
    ),
    (
        r#"key = "item:<id>""#,
        "async fn purchase() -> Result<(), LockError> { Ok(()) }",
        &[(
            r#""item:<id>""#,
            "unknown name `id` in the key template, and `purchase` has no arguments: add one, or write plain text\n  | \"item:<id>\"\n  |        ^^",
        )],
        r#"key = "item""#,
        "async fn purchase() -> Result<(), LockError> { Ok(()) }",
    ),
    (
        r#"key = "nightly", map_err = |error| drop(error)"#,
        "async fn purchase() { drop(7); }",
        &[],
        r#"key = "nightly", on_error = |error| drop(error)"#,
        "async fn purchase() { drop(7); }",
    ),
    (
        r#"key = "nightly", on_busy = "skip""#,
        "async fn purchase() { drop(7); }",
        &[],
        r#"key = "nightly", on_busy = "skip", on_error = |error| drop(error)"#,
        "async fn purchase() { drop(7); }",
    ),
];

#[test]
fn on_other_functions() {
    for (wrong, on, told, mended, mended_on) in USES {
        if !told.is_empty() {
            check_on(on, wrong, told);
        }
        check_mended((wrong, on), (mended, mended_on));
    }
}
