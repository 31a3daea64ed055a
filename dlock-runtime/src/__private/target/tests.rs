//! The arguments that an attribute evaluates at the call reach the driver.

use std::fmt;
use std::sync::Arc;

use super::super::Spec;
use super::{Target, constant_keys, into_keys};
use crate::client::spec::AcquireSpec;
use crate::values::kind::Kind;
use crate::{Key, LockError, LockPool, lock_key};

static OWNED: Spec = Spec::new("shop::step").reentrant();

async fn spec(target: Target) -> Result<Arc<AcquireSpec>, LockError> {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (_, spec) = target.request(|keys| OWNED.request(&pool, keys)).spec()?;
    Ok(spec)
}

#[tokio::test]
async fn an_owner_is_the_calls() {
    let spec = spec(Target::new("k".into()).owner(&7)).await.unwrap();
    assert_eq!(spec.kind, Kind::Owned("7".into()));
    assert!(spec.reentrant && spec.key.as_str() == "lock:k");
}

struct Fails;

impl fmt::Display for Fails {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

/// Otherwise all such callers would be one owner, and exclude nobody.
#[tokio::test]
async fn an_owner_without_a_text_is_none() {
    let fails = Fails;
    for target in [
        Target::new("k".into()).owner(&Fails),
        Target::new("k".into()).owner(&lock_key!("step:<fails>")),
    ] {
        let said = spec(target).await.unwrap_err().to_string();
        assert!(said.contains("the `Display` of the owner failed"), "{said}");
    }
}

static SEVERAL: Spec = Spec::new("shop::transfer");

#[tokio::test]
async fn several_keys_are_counted_before_anything_is_sent() {
    for (count, expected) in [
        (0, "there are no keys to lock"),
        (1001, "1001 keys are more than the 1000"),
    ] {
        let keys = (0..count).map(|id| format!("account:{id}"));
        let target = Target::all(into_keys(keys));
        let pool = LockPool::connect("memory://").await.unwrap();
        let request = target.request(|keys| SEVERAL.request(&pool, keys));
        let LockError::Config { why: said, .. } = request.specs().unwrap_err() else {
            panic!("{expected}");
        };
        assert!(said.to_string().contains(expected), "{said}");
    }
}

#[test]
fn what_can_be_a_list_of_keys() {
    let expected = [Key::from("a"), Key::from("b")];
    let texts = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(into_keys(["a", "b"]), expected);
    assert_eq!(into_keys(&texts), expected);
    assert_eq!(into_keys(&expected), expected);
    assert_eq!(constant_keys(["a", "b"]), expected);
    assert_eq!(into_keys(texts), expected);
}
