//! A body keeps its meaning: early returns, `?`, items, inner attributes, tails, and names that the
//! expansion also uses.

use std::fmt::Display;

use dlock_runtime::{LockError, distributed_lock};

use crate::{held, on_memory};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

#[distributed_lock(key = "return")]
async fn returns_early(early: bool) -> Result<&'static str, LockError> {
    if early {
        return Ok("early");
    }
    tokio::task::yield_now().await;
    Ok("late")
}

#[distributed_lock(key = "question mark")]
async fn question_mark(text: &str) -> Result<u32, Boxed> {
    if text.is_empty() {
        return Err("empty".into());
    }
    Ok(text.parse::<u32>()?)
}

/// The tail's type is coerced as in a plain function.
#[distributed_lock(key = "coerced")]
async fn coerced(fail: bool) -> Result<Box<dyn Display + Send>, Boxed> {
    if fail {
        return Err(Box::new(std::fmt::Error));
    }
    Ok(Box::new(1))
}

#[distributed_lock(key = "items")]
async fn items() -> Result<u32, LockError> {
    const ONE: u32 = 1;
    use std::cmp::max;
    fn two() -> u32 {
        2
    }
    Ok(max(ONE, two()))
}

#[distributed_lock(key = "inner attribute")]
async fn inner_attribute() -> Result<u32, LockError> {
    #![allow(
        clippy::unreadable_literal,
        reason = "without this the test would not compile"
    )]
    let million = 1000000;
    Ok(million)
}

/// The body uses the names that the expansion uses internally.
#[distributed_lock(key = "<key>:<pool>", guard = lock)]
async fn hygiene(key: u64, body: u64, value: u64, pool: u64) -> Result<u64, LockError> {
    let (held, error) = (5, 6);
    assert_eq!(lock.key().as_str(), "lock:1:4");
    Ok(key + body + value + pool + held + error)
}

#[distributed_lock(key = "raw:<r#type>", guard = r#fn)]
async fn raw_names(r#type: u8) -> Result<String, LockError> {
    Ok(format!("{}{type}", r#fn.key(), type = r#type))
}

#[distributed_lock(key = "unit", on_error = |error| panic!("{error}"))]
async fn unit(log: &mut Vec<String>) {
    log.push(held());
}

#[distributed_lock(key = "nothing", on_error = |error| panic!("{error}"))]
async fn nothing() {}

#[distributed_lock(key = "match", on_error = |_| None)]
async fn option(value: Option<u32>) -> Option<u32> {
    let value = value?;
    match value {
        0 => None,
        _ => Some(value),
    }
}

#[distributed_lock(key = "borrowed")]
async fn borrowed<'a>(first: &'a str, all: &mut Vec<&'a str>) -> Result<&'a str, LockError> {
    all.push(first);
    Ok(first)
}

#[tokio::test]
async fn ways_out_are_kept() {
    on_memory(async {
        assert_eq!(returns_early(true).await.unwrap(), "early");
        assert_eq!(returns_early(false).await.unwrap(), "late");
        assert_eq!(question_mark("7").await.unwrap(), 7);
        assert_eq!(question_mark("").await.unwrap_err().to_string(), "empty");
        assert!(
            question_mark("x")
                .await
                .unwrap_err()
                .is::<std::num::ParseIntError>()
        );
        assert_eq!(coerced(false).await.unwrap().to_string(), "1");
        assert!(coerced(true).await.is_err());
        assert_eq!(option(Some(3)).await, Some(3));
        assert_eq!(option(None).await, None);
    })
    .await;
}

#[tokio::test]
async fn items_names_and_tails_are_kept() {
    on_memory(async {
        assert_eq!(items().await.unwrap(), 2);
        assert_eq!(inner_attribute().await.unwrap(), 1_000_000);
        assert_eq!(hygiene(1, 2, 3, 4).await.unwrap(), 21);
        assert_eq!(raw_names(1).await.unwrap(), "raw:11");
        nothing().await;
        let mut log = Vec::new();
        unit(&mut log).await;
        assert_eq!(log, ["unit"]);
        let mut all = Vec::new();
        assert_eq!(borrowed("a", &mut all).await.unwrap(), "a");
        assert_eq!(all, ["a"]);
    })
    .await;
}
