//! `key = …` as a template and as an expression, and `lock_key!`, which must name the same lock.

use dlock_runtime::{Key, LockError, Wait, distributed_lock, lock_key};

use super::{held, memory};

#[distributed_lock(key = "item:{<id>}:<name>:<pair.1>", guard = lock)]
async fn template(id: u64, name: &str, pair: (u8, &str)) -> Result<Key, LockError> {
    let _ = (id, name, pair);
    Ok(lock.key().clone())
}

#[distributed_lock(key = Key::verbatim(format!("item:{id}:{}", name.to_uppercase())))]
async fn expression(id: u64, name: &str) -> Result<String, LockError> {
    let _ = (id, name);
    Ok(held())
}

#[distributed_lock(key = key)]
async fn argument(key: Key) -> Result<String, LockError> {
    Ok(held())
}

#[distributed_lock(key = if id == 0 { "zero" } else { "other" })]
async fn branches(id: u8) -> Result<String, LockError> {
    let _ = id;
    Ok(held())
}

#[distributed_lock(key = "<<literal>:<<<id>:<HERE>")]
async fn angles(id: u8) -> Result<String, LockError> {
    let _ = id;
    Ok(held())
}

const HERE: &str = "eu";

const TEMPLATE: &str = "constant:<id>";

#[distributed_lock(key = TEMPLATE)]
async fn constant(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = [TEMPLATE, "<id>"])]
async fn constants(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = Key::verbatim(TEMPLATE))]
async fn meant(id: u64) -> Result<(u64, String), LockError> {
    Ok((id, held()))
}

pub(super) async fn rows() {
    ok!(expression(7, "a:b"), "item:7:A:B");
    ok!(argument(Key::from("k")), "k");
    ok!(argument(lock_key!("item:<HERE>")), "item:eu");
    ok!(branches(0), "zero");
    ok!(branches(1), "other");
    ok!(angles(1), "<literal>:<1:eu");
    lock_key_names_the_lock_of_the_attribute().await;
    a_template_that_no_macro_saw_is_no_key().await;
}

/// For any value, both write the same key, and no value forges a separator or the cluster's hash
/// tag.
async fn lock_key_names_the_lock_of_the_attribute() {
    let pool = memory().await;
    for (id, name, second) in [
        (7, "ann", "x"),
        (0, "", ""),
        (u64::MAX, "a:b/c{d}%e<f>", "é\u{1F512}\n\0"),
        (1, "7:ann", "lock:"),
    ] {
        let pair = (1, second);
        let from_attribute = pool.scope(template(id, name, pair)).await.unwrap();
        let key = lock_key!("item:{<id>}:<name>:<pair.1>");
        let guard = pool.lock(&key).acquire().await.unwrap();
        assert_eq!(guard.key(), &from_attribute);
        assert_eq!(guard.key().as_str(), format!("lock:{key}"));
        let separators = key.as_str().matches([':', '{', '}']).count();
        assert_eq!(separators, 5, "{key}");
        // The guard's key, with its namespace, names the same lock, too.
        let again = pool.lock(guard.key()).wait(Wait::Once).acquire().await;
        assert!(again.unwrap_err().is_busy());
        guard.release().await.unwrap();
    }
}

/// As text it would be one lock for all values.
async fn a_template_that_no_macro_saw_is_no_key() {
    let pool = memory().await;
    let said = [
        pool.scope(constant(7)).await.map(drop),
        pool.scope(constants(7)).await.map(drop),
        pool.lock(TEMPLATE).acquire().await.map(drop),
        pool.lock(TEMPLATE.to_owned()).try_acquire().await.map(drop),
        pool.lock_all(["a", TEMPLATE]).acquire().await.map(drop),
        pool.holder(TEMPLATE).await.map(drop),
    ];
    for error in said.map(Result::unwrap_err) {
        assert!(matches!(error, LockError::InvalidKey { .. }), "{:?}", error);
        let write = "write `lock_key!(\"constant:<id>\")`, or `Key::verbatim(\"constant:<id>\")`";
        assert!(error.to_string().contains(write), "{}", error);
    }
    ok!(pool.scope(meant(7)), (7, TEMPLATE));
    // A key from a guard or an error is accepted although it looks like a template.
    let guard = pool.lock(Key::verbatim(TEMPLATE)).acquire().await.unwrap();
    let busy = pool.lock(guard.key()).try_acquire().await.unwrap();
    assert!(busy.is_none());
    let call = pool.lock(guard.key()).wait(Wait::Once);
    let error = call.acquire().await.unwrap_err();
    assert!(pool.holder(error.key().unwrap()).await.unwrap().is_some());
}
