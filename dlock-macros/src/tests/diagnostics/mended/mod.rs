//! A user who follows the message gets code that compiles: each mistake comes with its fix, and
//! every word that the fix adds is in the message.
//!
//! This file has mistakes whose messages the other files of `diagnostics` check literally. `mistakes`
//! has mistakes that occur nowhere else, with their messages; `functions` those that depend on the
//! function.

mod functions;
mod mistakes;

use std::collections::BTreeSet;

use proc_macro2::TokenStream;

const PURCHASE: &str = "async fn purchase(id: u64) -> Result<u64, LockError> { Ok(id) }";

/// The underlined text and its message; empty if another file of `diagnostics` checks it.
type Told = &'static [(&'static str, &'static str)];

#[track_caller]
fn check_mended(wrong: (&str, &str), mended: (&str, &str)) {
    let said = words(&errors(wrong).expect("a mistake"));
    if let Some(errors) = errors(mended) {
        panic!("{mended:?} is still wrong: {errors}");
    }
    let (arguments, item) = mended;
    let head = item.split_once('{').map_or(item, |(head, _)| head);
    let known = words(&format!("{wrong:?}"));
    let mut missing = words(&format!("{arguments} {head}"));
    missing.retain(|word| word != "mended" && !known.contains(word) && !said.contains(word));
    assert!(missing.is_empty(), "{wrong:?} is not told: {missing:?}");
}

/// All errors of a use of the attribute, if there are any.
fn errors((arguments, item): (&str, &str)) -> Option<String> {
    let [arguments, item]: [TokenStream; 2] = [arguments, item].map(|text| text.parse().unwrap());
    let errors = crate::rules::model(arguments, &item).err()?;
    Some(
        errors
            .into_iter()
            .map(|error| error.to_string() + "\n")
            .collect(),
    )
}

/// Splits `"10s"` into `10` and `s`.
fn words(text: &str) -> BTreeSet<String> {
    let kind = |c: char| (c.is_ascii_digit(), c.is_alphanumeric() || c == '_');
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunk_by(|a, b| kind(*a) == kind(*b))
        .filter(|word| kind(word[0]).1)
        .map(|word| word.iter().collect())
        .collect()
}

/// The mistake, and the fixed use.
const USES: &[(&str, &str)] = &[
    (
        r#"key = "item:<id>", ttl("10s")"#,
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", maxHold = "5m", renew"#,
        r#"key = "item:<id>", max_hold = "5m", renew"#,
    ),
    (
        r#"key = "item:<id>", guard = fn"#,
        r#"key = "item:<id>", guard = lock"#,
    ),
    (
        r#"key = "item:<id>", guard = _"#,
        r#"key = "item:<id>", guard = lock"#,
    ),
    (
        r#"key = "item:<id>" ttl = "10""#,
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", namespace = "shop:""#,
        r#"key = "item:<id>""#,
    ),
    (r#""item:<id>""#, r#"key = "item:<id>""#),
    (r#"format!("item:{id}")"#, r#"key = "item:<id>""#),
    (
        r#"key = "item:<id>"; tll = "10s""#,
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", timeout = "10s""#,
        r#"key = "item:<id>", wait = "3s", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", ttl ="#,
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", tll = "10s""#,
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", colour = "red""#,
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:<id>", ttl"#,
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", ttl = "10s", max_hold = "5m""#,
        r#"key = "item:<id>", ttl = "10s", max_hold = "5m", renew"#,
    ),
    (
        r#"key = "item:<id>", max_renewals = 4"#,
        r#"key = "item:<id>", max_renewals = 4, renew"#,
    ),
    (r#"key = b"item""#, r#"key = "item""#),
    (r#"key = "item:id""#, r#"key = "item:<id>""#),
    (r#"key = """#, r#"key = "item:7""#),
    (r#"key = "item:{id}""#, r#"key = "item:<id>""#),
    (
        r#"key = "item:<half(id)>""#,
        r#"key = { let part = half(id); lock_key!("item:<part>") }"#,
    ),
    (r#"key = "item:id>""#, r#"key = "item:<id>""#),
    (r#"key = "item:#id""#, r#"key = "item:<id>""#),
    ("", r#"key = "item:<id>""#),
    ("key = 7", r#"key = "7""#),
    (r#"key = "item:<id>".to_owned()"#, r#"key = "item:<id>""#),
    ("key = item:<id>", r#"key = "item:<id>""#),
    (
        r#"key = "item:<id>", mode = "read""#,
        r#"key = "item:<id>", read"#,
    ),
    (r#"key = "item:<id>", exclusive"#, r#"key = "item:<id>""#),
    (
        r#"key = "item:<id>", fair, permits = 5"#,
        r#"key = "item:<id>", permits = 5"#,
    ),
    (
        r#"key = "item:<id>", read, fair"#,
        r#"key = "item:<id>", read"#,
    ),
    (
        r#"key = "item:<id>", keys = ["shop"]"#,
        r#"keys = ["item:<id>", "shop"]"#,
    ),
    ("keys = []", "keys = keys(id)"),
    (r#"keys = ["item:<id>", 7]"#, r#"keys = ["item:<id>", "7"]"#),
    (
        r#"keys = ["item:<id>", "shop"], reentrant, owner = "<id>""#,
        r#"keys = ["item:<id>", "shop"]"#,
    ),
    (
        r#"keys = ["item:<id>", "shop"], permits = 5"#,
        r#"keys = ["item:<id>", "shop"]"#,
    ),
    (
        r#"key = "item:<id>", lock_order = "refuse""#,
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:<id>", semaphore = 5"#,
        r#"key = "item:<id>", permits = 5"#,
    ),
    (
        r#"key = "item:<id>", reentrant, owner = """#,
        r#"key = "item:<id>", reentrant, owner = "<id>""#,
    ),
    (
        r#"key = "item:<id>", reentrant, owner = 7"#,
        r#"key = "item:<id>", reentrant, owner = "7""#,
    ),
    (
        r#"key = "item:<id>", permit = 2"#,
        r#"key = "item:<id>", permits = 2"#,
    ),
    (
        r#"key = "item:<id>", permits = "5""#,
        r#"key = "item:<id>", permits = 5"#,
    ),
    (
        r#"key = "item:<id>", permits"#,
        r#"key = "item:<id>", permits = 5"#,
    ),
    (
        r#"key = "item:<id>", permits = 5, take = 0"#,
        r#"key = "item:<id>", permits = 5, take = 1"#,
    ),
    (
        r#"key = "item:<id>", take = 2"#,
        r#"key = "item:<id>", permits = 2, take = 2"#,
    ),
    (
        r#"key = "item:<id>", read, upgrade"#,
        r#"key = "item:<id>", write"#,
    ),
    (
        r#"key = "item:<id>", renew = "0s""#,
        r#"key = "item:<id>", renew"#,
    ),
    (
        r#"key = "item:<id>", ttl = "forever""#,
        r#"key = "item:<id>", ttl = "10s", renew"#,
    ),
    (
        r#"key = "item:<id>", ttl = 10"#,
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", renew = "true""#,
        r#"key = "item:<id>", renew"#,
    ),
    (
        r#"key = "item:<id>", ttl = "9ms""#,
        r#"key = "item:<id>", ttl = "10ms""#,
    ),
    (
        r#"key = "item:<id>", ttl = 10s"#,
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", ttl = "0s""#,
        r#"key = "item:<id>", ttl = "10ms""#,
    ),
];

#[test]
fn the_fix_is_in_the_words() {
    for (wrong, mended) in USES {
        check_mended((wrong, PURCHASE), (mended, PURCHASE));
    }
}
