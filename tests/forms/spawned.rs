//! Where a locked function's future may go: into another task, a set, behind a pointer; also with
//! `Send + !Sync` arguments, and recursive.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::mpsc;

use dlock_runtime::{LockError, LockPool, distributed_lock};
use futures_util::stream::{self, FuturesUnordered, StreamExt as _};
use tokio::task::{JoinSet, yield_now};

use crate::{held, memory, on_memory};

#[distributed_lock(key = "cell:<cell.get()>", pool = pool)]
async fn not_sync(
    cell: Cell<u8>,
    list: RefCell<Vec<u8>>,
    receiver: mpsc::Receiver<u8>,
    pool: LockPool,
) -> Result<(u8, String), LockError> {
    yield_now().await;
    list.borrow_mut().push(cell.get());
    yield_now().await;
    Ok((receiver.recv().unwrap() + list.into_inner()[0], held()))
}

#[distributed_lock(key = "once:<id>", pool = pool)]
async fn calls(
    id: u8,
    call: Box<dyn FnOnce(u8) -> u8 + Send>,
    pool: &LockPool,
) -> Result<(u8, String), LockError> {
    yield_now().await;
    Ok((call(id), held()))
}

#[tokio::test]
async fn arguments_that_are_send_but_not_sync() {
    let pool = memory().await;
    let (sender, receiver) = mpsc::channel();
    let task = tokio::spawn(not_sync(
        Cell::new(4),
        RefCell::default(),
        receiver,
        pool.clone(),
    ));
    sender.send(3).unwrap();
    assert_eq!(task.await.unwrap().unwrap(), (7, "cell:4".to_owned()));
    let task = tokio::spawn(async move { calls(1, Box::new(|id| id + 1), &pool).await });
    assert_eq!(task.await.unwrap().unwrap(), (2, "once:1".to_owned()));
}

#[distributed_lock(key = "item:<id>", pool = pool)]
async fn item(pool: LockPool, id: u32) -> Result<String, LockError> {
    yield_now().await;
    Ok(held())
}

#[distributed_lock(key = "item:<id>")]
async fn borrowed(text: &str, id: u32) -> Result<String, LockError> {
    yield_now().await;
    Ok(format!("{text}{}", held()))
}

fn expected() -> BTreeSet<String> {
    (0..5).map(|id| format!("item:{id}")).collect()
}

#[tokio::test]
async fn in_sets_and_streams() {
    let pool = memory().await;
    let mut set: JoinSet<_> = (0..5).map(|id| item(pool.clone(), id)).collect();
    let mut keys = BTreeSet::new();
    while let Some(outcome) = set.join_next().await {
        keys.insert(outcome.unwrap().unwrap());
    }
    assert_eq!(keys, expected());
    let unordered: FuturesUnordered<_> = (0..5).map(|id| item(pool.clone(), id)).collect();
    let keys: BTreeSet<_> = unordered.map(Result::unwrap).collect().await;
    assert_eq!(keys, expected());
    // The compiler rejects some streams of borrowing futures as "not general enough" to be spawned;
    // the lock adds no such case.
    let spawned = tokio::spawn(pool.clone().scope_owned());
    assert_eq!(spawned.await.unwrap(), expected());
}

/// A stream of borrowing futures, in a future that can be spawned.
trait Scoped {
    fn scope_owned(self) -> impl Future<Output = BTreeSet<String>> + Send + 'static;
}

impl Scoped for LockPool {
    async fn scope_owned(self) -> BTreeSet<String> {
        let texts = [String::new(), String::new()];
        let calls = stream::iter(0..5).map(|id| borrowed(&texts[0], id));
        let keys = calls.buffer_unordered(3).map(Result::unwrap).collect();
        self.scope(keys).await
    }
}

type Called = Pin<Box<dyn Future<Output = Result<String, LockError>> + Send>>;

async fn call<F: Future>(function: impl Fn(LockPool, u32) -> F, id: u32) -> F::Output {
    function(memory().await, id).await
}

#[tokio::test]
async fn as_a_value() {
    assert_eq!(call(item, 1).await.unwrap(), "item:1");
    let pointer: fn(LockPool, u32) -> _ = item;
    assert_eq!(call(pointer, 2).await.unwrap(), "item:2");
    let object: &dyn Fn(LockPool, u32) -> Called = &|pool, id| Box::pin(item(pool, id));
    assert_eq!(call(object, 3).await.unwrap(), "item:3");
    let async_closure = async |id| borrowed("closure ", id).await;
    let key = on_memory(async_closure(4)).await.unwrap();
    assert_eq!(key, "closure item:4");
}

#[distributed_lock(key = "depth:<depth>", pool = pool)]
async fn direct(pool: LockPool, depth: u32) -> Result<Vec<String>, LockError> {
    let mut keys = vec![held()];
    if depth > 0 {
        keys.extend(Box::pin(direct(pool, depth - 1)).await?);
    }
    Ok(keys)
}

#[distributed_lock(key = "even:<number>", pool = pool)]
async fn even(pool: LockPool, number: u32) -> Result<Vec<String>, LockError> {
    let mut keys = vec![held()];
    if number > 0 {
        keys.extend(Box::pin(odd(pool, number - 1)).await?);
    }
    Ok(keys)
}

#[distributed_lock(key = "odd:<number>", pool = pool)]
async fn odd(pool: LockPool, number: u32) -> Result<Vec<String>, LockError> {
    let mut keys = vec![held()];
    if number > 0 {
        keys.extend(Box::pin(even(pool, number - 1)).await?);
    }
    Ok(keys)
}

#[tokio::test]
async fn recursion_may_be_spawned() {
    let pool = memory().await;
    let keys = tokio::spawn(direct(pool.clone(), 2)).await.unwrap();
    assert_eq!(keys.unwrap(), ["depth:2", "depth:1", "depth:0"]);
    let keys = tokio::spawn(even(pool.clone(), 2)).await.unwrap();
    assert_eq!(keys.unwrap(), ["even:2", "odd:1", "even:0"]);
}
