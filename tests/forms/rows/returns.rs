//! Return types that the expansion has to write a second time: with `impl Trait` in every position,
//! elided lifetimes, macros, `Self`.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::pin::Pin;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use dlock_runtime::{LockError, distributed_lock};

use super::held;

/// Both types are left open; the body or the attribute determines the error's type.
#[distributed_lock(key = "both", map_err = |error| (StatusCode::CONFLICT, error.to_string()))]
async fn both_sides(fail: bool) -> Result<impl IntoResponse, impl IntoResponse> {
    if fail {
        return Err((StatusCode::IM_A_TEAPOT, held()));
    }
    Ok(held())
}

#[distributed_lock(key = "error")]
async fn open_error(fail: bool) -> Result<String, impl Display + Debug> {
    if fail {
        return Err(LockError::ShutDown);
    }
    Ok(held())
}

#[distributed_lock(key = "pair", on_error = |error| panic!("{}", error))]
async fn pair(
    text: &str,
) -> (
    impl Display + use<>,
    Option<impl Iterator<Item = char> + use<'_>>,
) {
    (held(), Some(text.chars()))
}

type Later<'a> = Pin<Box<dyn Future<Output = &'a str> + Send + 'a>>;

#[distributed_lock(key = "callback")]
async fn callbacks()
-> Result<(Box<dyn for<'a> Fn(&'a str) -> Later<'a>>, fn(&[u8]) -> &u8), LockError> {
    assert_eq!(held(), "callback");
    Ok((Box::new(|text| Box::pin(async move { text })), |bytes| {
        &bytes[0]
    }))
}

/// A limit: without `: &str` the closure's argument would have a single lifetime, because `impl Fn`
/// is left open inside.
#[distributed_lock(key = "callback", on_error = |error| panic!("{}", error))]
async fn open_callback(more: String) -> impl for<'a> Fn(&'a str) -> String {
    move |text: &str| [text, more.as_str(), held_outside().as_str()].concat()
}

fn held_outside() -> String {
    dlock_runtime::current().map_or_else(String::new, |held| held.key().to_string())
}

struct Cursor<'a>(&'a str);

#[distributed_lock(key = "elided:<text>")]
async fn elided(text: &str) -> Result<BTreeMap<u8, Cursor<'_>>, LockError> {
    assert_eq!(held(), "elided:a");
    Ok([(1, Cursor(text))].into())
}

#[distributed_lock(key = "boxed:<text>")]
async fn elided_dyn(text: &str) -> Result<Box<dyn Display + '_>, LockError> {
    Ok(Box::new(format!("{text} {}", held())))
}

macro_rules! outcome {
    ($($ty:ty),*) => { Result<($($ty,)*), LockError> };
}

#[distributed_lock(key = "macro")]
async fn by_macro() -> outcome!(u8, String) {
    Ok((1, held()))
}

#[distributed_lock(key = "array:<N>", on_error = |_| [const { String::new() }; N])]
async fn array<const N: usize>() -> [String; N] {
    std::array::from_fn(|_| held())
}

trait Named: Sized {
    const NAME: &'static str;
    type Error: From<LockError>;

    fn new(name: String) -> Self;

    #[distributed_lock(key = Self::NAME)]
    async fn made() -> Result<(Self, Option<Self>), Self::Error> {
        Ok((Self::new(held()), None))
    }

    #[distributed_lock(key = Self::NAME)]
    async fn chained(&mut self) -> Result<&mut Self, Self::Error> {
        *self = Self::new(held());
        Ok(self)
    }
}

struct Text(String);

impl Named for Text {
    const NAME: &'static str = "text";
    type Error = Box<dyn std::error::Error>;

    fn new(name: String) -> Self {
        Self(name)
    }
}

pub(super) async fn rows() {
    let response = both_sides(false).await.map_err(IntoResponse::into_response);
    assert_eq!(response.unwrap().into_response().status(), StatusCode::OK);
    assert_eq!(failed(both_sides(true).await), StatusCode::IM_A_TEAPOT);
    ok!(open_error(false), "error");
    let error = open_error(true).await.unwrap_err();
    assert_eq!(error.to_string(), LockError::ShutDown.to_string());
    let (key, chars) = pair("ab").await;
    assert_eq!(key.to_string(), "pair");
    assert_eq!(chars.unwrap().count(), 2);
    assert_eq!(open_callback("b".to_owned()).await("a"), "ab");
    let (later, first) = callbacks().await.unwrap();
    assert_eq!((later("a").await, first(&[7])), ("a", &7));
    let text = "a".to_owned();
    assert_eq!(elided(&text).await.unwrap()[&1].0, "a");
    assert_eq!(elided_dyn(&text).await.unwrap().to_string(), "a boxed:a");
    ok!(by_macro(), (1, "macro"));
    gives!(array::<2>(), ["array:2", "array:2"]);
    let (mut made, none) = Text::made().await.unwrap();
    assert_eq!((made.0.as_str(), none.is_none()), ("text", true));
    made.0.clear();
    assert_eq!(made.chained().await.unwrap().0, "text");
    let without_a_pool = tokio::spawn(async {
        assert_eq!(failed(both_sides(false).await), StatusCode::CONFLICT);
        let error = open_error(false).await.unwrap_err();
        assert!(error.to_string().contains("init"));
    });
    without_a_pool.await.unwrap();
}

/// The status with which a call failed.
fn failed<T>(outcome: Result<T, impl IntoResponse>) -> StatusCode {
    outcome.err().unwrap().into_response().status()
}
