//! Where a locked function's future may go: into another task, a set, behind a pointer; also with
//! `Send + !Sync` arguments, and recursive.

#![allow(
    rust_2021_incompatible_closure_captures,
    reason = "the closures of a row, either way"
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;

use dlock_runtime::{LockError, LockPool, distributed_lock};
use futures_util::stream::{self, FuturesUnordered, StreamExt as _};
use tokio::task::{JoinSet, yield_now};

use super::{held, memory};

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

pub(super) async fn rows() {
    let pool = memory().await;
    let (sender, receiver) = mpsc::channel();
    let task = not_sync(Cell::new(4), RefCell::default(), receiver, pool.clone());
    let task = tokio::spawn(task);
    sender.send(3).unwrap();
    ok!(async { task.await.unwrap() }, (7, "cell:4"));
    let locks = pool.clone();
    let task = tokio::spawn(async move { calls(1, Box::new(|id| id + 1), &locks).await });
    ok!(async { task.await.unwrap() }, (2, "once:1"));
    let task = tokio::spawn(direct(pool.clone(), 2));
    ok!(
        async { task.await.unwrap() },
        ["depth:2", "depth:1", "depth:0"]
    );
    let task = tokio::spawn(even(pool, 2));
    ok!(async { task.await.unwrap() }, ["even:2", "odd:1", "even:0"]);
    in_sets_and_streams().await;
    ok!(call(item, 1), "item:1");
    let pointer: fn(LockPool, u32) -> _ = item;
    ok!(call(pointer, 2), "item:2");
    let object: &dyn Fn(LockPool, u32) -> Called = &|pool, id| Box::pin(item(pool, id));
    ok!(call(object, 3), "item:3");
    let async_closure = async |id| borrowed("closure ", id).await;
    ok!(async_closure(4), "closure item:4");
}

async fn in_sets_and_streams() {
    let pool = memory().await;
    let items = || (0..5).map(|id| item(pool.clone(), id));
    let keys = items().collect::<JoinSet<_>>().join_all().await;
    let keys: BTreeSet<_> = keys.into_iter().map(Result::unwrap).collect();
    assert_eq!(keys, expected());
    let unordered: FuturesUnordered<_> = items().collect();
    let keys: BTreeSet<_> = unordered.map(Result::unwrap).collect().await;
    assert_eq!(keys, expected());
    // The compiler rejects some streams of borrowing futures as "not general enough" to be spawned;
    // the lock adds no such case.
    let spawned = tokio::spawn(pool.clone().scope_owned());
    assert_eq!(spawned.await.unwrap(), expected());
}
