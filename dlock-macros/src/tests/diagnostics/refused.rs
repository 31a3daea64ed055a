//! The tokens after the errors: the unchanged item, for the rest of the file.

use proc_macro2::TokenStream;

/// The tokens after the errors; spaces do not count.
#[track_caller]
fn check(item: &str, arguments: &str, expected: &str) {
    let [arguments, item]: [TokenStream; 2] = [arguments, item].map(|text| text.parse().unwrap());
    let expansion = crate::tests::attribute(arguments, &item).to_string();
    let [found, expected] = [expansion.as_str(), expected].map(|text| text.replace(' ', ""));
    assert!(found.starts_with("::core::compile_error!{"), "{expansion}");
    let rest = found.split_once(&expected);
    assert!(
        rest.is_some_and(|(errors, rest)| errors.ends_with('}') && rest.is_empty()),
        "{expansion}"
    );
}

const BINDING: &str = "let __held = ::dlock_runtime::__private::held(); let lock: &::dlock_runtime::LockGuard = &__held;";

#[test]
fn an_item_is_what_it_was() {
    for item in [
        "#[doc = \"x\"] pub(crate) async unsafe fn f<'a, T: X>(&'a self, (a, _): (T, u8)) -> R where T: Y { 1 + }",
        "fn f() { #![allow(x)] g() }",
        "struct S { x: u8 }",
        "impl S { #[distributed_lock(key = \"a\")] async fn f() {} }",
        "async gen fn f() {}",
    ] {
        check(item, "tll = 1", item);
    }
}

/// Stacked attributes were read with the first; left in place, they would report their errors
/// again.
#[test]
fn stacked_attributes_are_taken_off() {
    check(
        "#[x] #[distributed_lock(tll = 1)] #[y] #[a::distributed_lock] async fn f() {}",
        r#"key = "a""#,
        "#[x] #[y] async fn f() {}",
    );
}

/// Otherwise a body that uses its guard would cause an error about an unknown variable.
#[test]
fn a_guard_is_still_bound() {
    check(
        "async fn f(id: u8) { #![allow(x)] lock.fence() }",
        "guard = lock",
        &format!("async fn f(id: u8) {{ #![allow(x)] {BINDING} lock.fence() }}"),
    );
    check(
        "#[distributed_lock(key = \"b\", guard = lock)] async fn f() {}",
        r#"key = "a", guard = other, tll = 1, crate = d"#,
        &format!(
            "async fn f() {{ let __held = d::__private::held(); let other: &d::LockGuard = &__held; {BINDING} }}"
        ),
    );
    let method = |body: &str| {
        format!(
            "fn f<'async_trait>(&self) -> Pin<Box<dyn Future<Output = u8> + 'async_trait>> \
             {{ Box::pin(async move {{ let __self = self; let __ret: u8 = {{ {body} }}; __ret }}) }}"
        )
    };
    check(
        &method("lock.get()"),
        "guard = lock",
        &method(&format!("{BINDING} lock.get()")),
    );
    // A guard in the place of an argument would cause another error.
    let item = "async fn f(id: u8) { g(id) }";
    check(item, r#"key = "a", guard = id"#, item);
}
