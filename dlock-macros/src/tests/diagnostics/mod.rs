//! The errors: the text that each underlines, and its message.

mod arguments;
mod busy;
mod function;
mod hold;
mod key;
mod keys;
mod kind;
mod mended;
mod refused;
mod stacked;
mod values;

use proc_macro2::TokenStream;

const ITEM: &str = "async fn f(id: u64, buyer: &str) -> Result<u64, E> { Ok(1) }";

/// The text that each error underlines (`#[…]` for the whole attribute) with its message, in order.
#[track_caller]
fn check_on(item: &str, arguments: &str, expected: &[(&str, &str)]) {
    let [arguments, item]: [TokenStream; 2] = [arguments, item].map(|text| text.parse().unwrap());
    let errors = crate::rules::model(arguments.clone(), &item)
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
    // Whatever is wrong, the user's item comes out unchanged.
    let expansion = crate::tests::attribute(arguments, &item).to_string();
    // The stacked attributes were checked above; left in place, they would report their errors
    // again.
    let kept = crate::rules::without_stacked(&item).to_string();
    assert!(!kept.contains("distributed_lock"), "{kept}");
    assert!(expansion.ends_with(&kept), "{expansion}");
    for (_, message) in expected {
        let first = message.lines().next().unwrap_or_default();
        assert!(first.chars().count() <= 200, "too long: {first}");
        assert!(
            !first.ends_with('.') && !first.starts_with(char::is_uppercase),
            "{first}"
        );
    }
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

#[track_caller]
fn accept(arguments: &str) {
    accept_on(ITEM, arguments);
}

fn accept_on(item: &str, arguments: &str) {
    let [arguments, item]: [TokenStream; 2] = [arguments, item].map(|text| text.parse().unwrap());
    let errors = crate::rules::model(arguments, &item).err();
    assert!(errors.is_none(), "{}", errors.unwrap());
}
