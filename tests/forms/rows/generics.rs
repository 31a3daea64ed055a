//! Type and const parameters, lifetimes, where clauses, `impl Trait` as argument and as result.

#![allow(
    rust_2021_incompatible_closure_captures,
    reason = "the body's closure, either way"
)]

use std::convert::TryFrom;
use std::fmt::Display;
use std::future::Future;

use dlock_runtime::{LockError, distributed_lock};

use super::held;

#[distributed_lock(key = "<prefix>:<N>:<first>")]
async fn generic<T, const N: usize>(
    prefix: &str,
    first: T,
    rest: [T; N],
) -> Result<(usize, String), LockError>
where
    T: Clone + Display + Send,
{
    let all: Vec<T> = std::iter::once(first).chain(rest).collect();
    Ok((all.len(), held()))
}

#[distributed_lock(key = "impl:<id>")]
async fn impl_both(
    id: impl Display + Clone,
    items: impl IntoIterator<Item = u8>,
) -> Result<impl Iterator<Item = u8> + Clone, LockError> {
    let more = u8::try_from(id.to_string().len()).unwrap();
    Ok(items
        .into_iter()
        .map(move |item| item + more)
        .collect::<Vec<_>>()
        .into_iter())
}

#[distributed_lock(key = "longest:<a>")]
async fn longest<'a, 'b: 'a>(a: &'a str, b: &'b str) -> Result<&'a str, LockError> {
    Ok(if a.len() > b.len() { a } else { b })
}

#[distributed_lock(key = "elided:<name>")]
async fn elided<'a>(name: &str, kept: Kept<'a>) -> Result<Kept<'a>, LockError> {
    let _ = name;
    Ok(kept)
}

#[derive(Debug, PartialEq)]
struct Kept<'a>(&'a str);

#[distributed_lock(key = "closure")]
async fn closures<F, Fut>(call: F) -> Result<u32, LockError>
where
    F: FnOnce(u32) -> Fut,
    Fut: Future<Output = u32>,
{
    Ok(call(1).await)
}

#[distributed_lock(key = "async closure")]
async fn async_closures(call: impl AsyncFnOnce(u32) -> u32) -> Result<u32, LockError> {
    Ok(call(1).await)
}

struct Wrap<T>(T);

impl<T: Display + Send + Sync> Wrap<T> {
    #[distributed_lock(key = "wrap:<self.0>")]
    async fn other<'a>(&'a self, other: &'a T) -> Result<(&'a T, String), LockError> {
        Ok((other, held()))
    }
}

pub(super) async fn rows() {
    ok!(generic("p", 1.5, [2.5, 3.5]), (3, "p:2:1.5"));
    ok!(Wrap("a b").other(&"c"), ("c", "wrap:a%20b"));
    ok!(closures(async |one| one + 1), 2);
    ok!(async_closures(async |one| one + 2), 3);
    let items = impl_both("ab", [1, 2]).await.unwrap();
    assert_eq!(items.clone().collect::<Vec<_>>(), [3, 4]);
    let long = "long".to_owned();
    ok!(longest("a", &long), "long");
    let kept = {
        let name = "dropped before the result".to_owned();
        elided(&name, Kept(&long)).await.unwrap()
    };
    assert_eq!(kept, Kept("long"));
}
