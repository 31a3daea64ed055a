//! A body keeps its meaning: early returns, `?`, items, inner attributes, and tails.

use std::fmt::Display;

use dlock_runtime::{LockError, distributed_lock};

use super::held;

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

#[distributed_lock(key = "raw:<r#type>", guard = r#fn)]
async fn raw_names(r#type: u8) -> Result<String, LockError> {
    Ok(format!("{}{type}", r#fn.key(), type = r#type))
}

#[distributed_lock(key = "unit", on_error = |error| panic!("{}", error))]
async fn unit(log: &mut Vec<String>) {
    log.push(held());
}

#[distributed_lock(key = "nothing", on_error = |error| panic!("{}", error))]
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

pub(super) async fn rows() {
    ok!(returns_early(true), "early");
    ok!(returns_early(false), "late");
    ok!(question_mark("7"), 7);
    let error = question_mark("").await.unwrap_err();
    assert_eq!(error.to_string(), "empty");
    let error = question_mark("x").await.unwrap_err();
    assert!(error.is::<std::num::ParseIntError>());
    assert_eq!(coerced(false).await.unwrap().to_string(), "1");
    assert!(coerced(true).await.is_err());
    gives!(option(Some(3)), Some(3));
    gives!(option(None), None::<u32>);
    ok!(items(), 2);
    ok!(inner_attribute(), 1_000_000);
    ok!(raw_names(1), "raw:11");
    nothing().await;
    let mut log = Vec::new();
    unit(&mut log).await;
    assert_eq!(log, ["unit"]);
    let mut all = Vec::new();
    ok!(borrowed("a", &mut all), "a");
    assert_eq!(all, ["a"]);
}
