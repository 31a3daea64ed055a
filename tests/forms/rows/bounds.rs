//! Bounds and types that a rewrite could lose: `for<'a>`, `?Sized`, `impl Trait` alone, captured
//! lifetimes, associated types.

use std::borrow::Borrow;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::pin::Pin;

use axum::response::IntoResponse;
use dlock_runtime::{LockError, distributed_lock, lock_key};

use super::held;

#[distributed_lock(key = "hrtb:<name>")]
async fn higher_ranked<F>(name: &str, call: F) -> Result<(usize, String), LockError>
where
    F: for<'a> Fn(&'a str) -> Pin<Box<dyn Future<Output = usize> + Send + 'a>>,
{
    let local = format!("{name}{name}");
    Ok((call(&local).await, held()))
}

#[distributed_lock(key = "unsized:<name>:<value>")]
async fn unsized_value<T: ?Sized + Display, U>(value: &T, name: &U) -> Result<String, LockError>
where
    U: ?Sized + Borrow<str> + Display,
{
    Ok(format!("{value} {} {}", name.borrow(), held()))
}

#[distributed_lock(key = "bare:<id>", on_error = |error| panic!("{}", error))]
async fn bare_impl(id: u8) -> impl Iterator<Item = String> {
    std::iter::repeat_n(held(), id.into())
}

#[distributed_lock(key = "respond:<id>", wait = "0s", on_error = |error| (error.to_string(), 0).0)]
async fn responds_with_text(id: u8) -> impl IntoResponse {
    let _ = id;
    held()
}

/// The return type may name the captured lifetime; the argument stays borrowed by the returned
/// value.
#[distributed_lock(key = "captures", on_error = |error| panic!("{}", error))]
async fn captures<'a, T: Debug>(
    text: &'a str,
    other: &T,
) -> impl Iterator<Item = &'a str> + use<'a, T> {
    assert_eq!(
        (held().as_str(), format!("{other:?}")),
        ("captures", "1".to_owned())
    );
    text.split(',')
}

#[distributed_lock(key = "nested")]
async fn nested_impl(
    more: impl Fn(u8) -> u8 + Clone,
) -> Result<(impl Fn(u8) -> u8, Vec<impl Display>), LockError> {
    Ok((move |one| more(one) + 1, vec![held()]))
}

trait Store {
    type Id: Display + Clone + Send + Sync;
    const KIND: &'static str;
    fn id(&self) -> Self::Id;
}

struct Shelf;

impl Store for Shelf {
    type Id = u16;
    const KIND: &'static str = "shelf";
    fn id(&self) -> u16 {
        7
    }
}

/// A placeholder begins with an argument; an associated constant needs an expression.
#[distributed_lock(key = { let kind = S::KIND; lock_key!("<kind>:<store.id()>") })]
async fn associated<S: Store>(store: &S) -> Result<(S::Id, String), LockError>
where
    S::Id: From<u8>,
{
    Ok((S::Id::from(1), held()))
}

struct Shards<const N: usize, T = u8>([T; N]);

impl<const N: usize, T> Shards<N, T>
where
    for<'a> &'a T: ToString,
{
    const FIRST: &'static str = "first";

    #[distributed_lock(key = "shards:<N>:<FIRST_OF_ALL>:<WIDTH>")]
    async fn sum<const WIDTH: usize>(
        &self,
        more: [u64; WIDTH],
    ) -> Result<(u64, String), LockError> {
        let own = self.0.iter().map(|own| own.to_string().len() as u64);
        Ok((own.chain(more).sum(), held()))
    }

    #[distributed_lock(key = [Self::FIRST, ":", std::any::type_name::<T>()].concat())]
    async fn first(&self) -> Result<Option<&T>, LockError> {
        assert_eq!(held(), "first:u8");
        Ok(self.0.first())
    }
}

const FIRST_OF_ALL: char = 'f';

pub(super) async fn rows() {
    let call = higher_ranked("ab", |text| Box::pin(async move { text.len() }));
    ok!(call, (4, "hrtb:ab"));
    ok!(unsized_value("a:b", "n"), "a:b n unsized:n:a%3Ab");
    let value: &dyn Display = &1;
    ok!(unsized_value(value, "n"), "1 n unsized:n:1");
    ok!(associated(&Shelf), (1, "shelf:7"));
    ok!(Shards([1_u8, 2]).sum([3, 4, 5]), (14, "shards:2:f:3"));
    ok!(Shards([1_u8, 2]).first(), Some(1));
    let keys: Vec<_> = bare_impl(2).await.collect();
    assert_eq!(keys, ["bare:2", "bare:2"]);
    let response = responds_with_text(3).await.into_response();
    let body = axum::body::to_bytes(response.into_body(), 100).await;
    assert_eq!(body.unwrap(), "respond:3");
    let text = "a,b".to_owned();
    let parts: Vec<_> = captures(&text, &1).await.collect();
    assert_eq!(parts, ["a", "b"]);
    let (more, names) = nested_impl(|one| one * 2).await.unwrap();
    assert_eq!((more(2), names[0].to_string()), (5, "nested".to_owned()));
}
