//! A lock below one that was expanded without seeing it: refused, since it would be taken first.

use super::check_on;

#[test]
fn below_one_that_did_not_see_it() {
    let message = "this lock stands below another and would yet be taken first: write both as `#[distributed_lock(…)]`, and put a \
                   `cfg_attr` with one in it above them";
    let get = "fn get<'async_trait>(&self) -> Pin<Box<dyn Future<Output = R> + 'async_trait>>";
    for item in [
        "#[other] async fn f() -> R { 1 }".to_owned(),
        "async fn f() -> R { #![allow(x)] 1 }".to_owned(),
        format!(
            "{get} {{ Box::pin(async move {{ let __self = self; let __ret: R = {{ 1 }}; __ret }}) }}"
        ),
        format!("{get} {{ Box::pin(async move {{ span(async move {{ 1 }}).await }}) }}"),
    ] {
        let locked =
            crate::tests::attribute("key = \"upper\"".parse().unwrap(), &item.parse().unwrap());
        let key = r#""lower""#;
        check_on(
            &locked.to_string(),
            &format!("key = {key}"),
            &[(key, message)],
        );
    }
}
