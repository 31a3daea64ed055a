//! The pool that a lock is taken from: by name, by expression, or that of the scope.

use dlock_runtime::{LockError, LockPool, distributed_lock, init_named};

use crate::{held, memory, on_memory};

#[distributed_lock(key = "named", pool = "forms")]
async fn by_name(other: &LockPool) -> Result<(bool, bool), LockError> {
    let named = dlock_runtime::named("forms")?;
    let is_in = async |pool: &LockPool| pool.holder("named").await.map(|holder| holder.is_some());
    Ok((is_in(&named).await?, is_in(other).await?))
}

#[distributed_lock(key = "nobody", pool = "nobody")]
async fn by_unknown_name() -> Result<(), LockError> {
    Ok(())
}

/// The body takes `pools`, too: the attribute clones its pool before.
#[distributed_lock(key = "expression:<id>", pool = pools[usize::from(id)])]
async fn by_expression(pools: Vec<LockPool>, id: u8) -> Result<Vec<bool>, LockError> {
    let mut held_in = Vec::new();
    for pool in pools {
        held_in.push(pool.holder(format!("expression:{id}")).await?.is_some());
    }
    Ok(held_in)
}

#[distributed_lock(key = "scoped")]
async fn by_scope() -> Result<String, LockError> {
    Ok(held())
}

#[tokio::test]
async fn a_name_beats_the_scope() {
    let scoped = memory().await;
    let missing = scoped.scope(by_unknown_name()).await.unwrap_err();
    assert!(missing.to_string().contains("\"nobody\""), "{missing}");
    init_named("forms", "memory://").await.unwrap();
    let held_in = scoped.scope(by_name(&scoped)).await.unwrap();
    assert_eq!(held_in, (true, false));
}

#[tokio::test]
async fn an_expression_beats_the_scope() {
    let pools = vec![memory().await, memory().await];
    for id in [0, 1] {
        let held_in = on_memory(by_expression(pools.clone(), id)).await.unwrap();
        assert_eq!(held_in, [id == 0, id == 1]);
    }
}

#[tokio::test]
async fn without_any_the_scope_decides() {
    assert_eq!(on_memory(by_scope()).await.unwrap(), "scoped");
    let nowhere = by_scope().await.unwrap_err();
    assert!(matches!(nowhere, LockError::NotInitialized));
}

/// Below `#[tokio::test]` the function is no longer async, so the lock goes above. There is no
/// pool, so the body does not run.
#[distributed_lock(key = "test", on_error = |error: LockError| assert!(matches!(error, LockError::NotInitialized)))]
#[tokio::test]
async fn above_tokio_test_is_where_it_goes() {
    panic!("ran without a lock");
}

/// The arguments of both attributes, and the attribute between them, are kept.
#[distributed_lock(key = "test", pool = crate::memory().await, on_error = |error| unreachable!("{error}"))]
#[should_panic(expected = "under test")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn above_tokio_test_with_its_arguments() {
    panic!("under {}", held());
}
