//! How a body may end: what its tail coerces to, how it returns early, and what never ends.

use std::collections::HashMap;
use std::convert::TryFrom;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::Future;

use dlock_runtime::{LockError, distributed_lock};
use futures_util::FutureExt as _;

use super::held;

type Boxed = Box<dyn Error + Send + Sync>;
type Call = Box<dyn Fn(u8) -> u8 + Send>;

#[distributed_lock(key = "dyn", on_error = |error| Box::new(error.to_string()))]
async fn dyn_in_tail_and_return(early: bool) -> Box<dyn Display + Send> {
    if early {
        return Box::new(1);
    }
    Box::new(held())
}

#[distributed_lock(key = "closures")]
async fn closures(name: &str) -> Result<HashMap<&'static str, Call>, LockError> {
    if name.is_empty() {
        return Ok([("none", Box::new(|one| one) as _)].into());
    }
    let length = u8::try_from(name.len()).unwrap();
    let mut calls: HashMap<&'static str, Call> = HashMap::new();
    calls.insert("add", Box::new(move |one| one + length));
    Ok(calls)
}

#[distributed_lock(key = "function pointer", on_error = |_| str::len)]
async fn function_pointer(early: bool) -> fn(&str) -> usize {
    if early {
        return |text| text.len() + 1;
    }
    |text| text.len() + 2
}

#[distributed_lock(key = "slice")]
async fn shorter<'a>(all: &'a mut Vec<u8>, array: &'a [u8; 3]) -> Result<&'a [u8], LockError> {
    if all.is_empty() {
        return Ok(array);
    }
    all.push(1);
    Ok(all)
}

#[derive(Debug)]
struct Wide;

impl Display for Wide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("wide")
    }
}

impl Error for Wide {}

#[distributed_lock(key = "boxed error")]
async fn question_mark(step: u8) -> Result<Box<dyn Debug + Send>, Box<dyn Error>> {
    let number: u8 = match step {
        0 => Err(Wide)?,
        1 => Err("text")?,
        2 => "x".parse()?,
        3 => return Err(Box::new(Wide)),
        4 => return Err(Wide.into()),
        _ => step,
    };
    Ok(Box::new(number))
}

#[distributed_lock(key = "loop")]
async fn loop_with_value(until: u8) -> Result<(u8, String), LockError> {
    let mut count = 0;
    loop {
        tokio::task::yield_now().await;
        count += 1;
        if count == until {
            break Ok((count, held()));
        }
    }
}

#[distributed_lock(key = "labels")]
async fn labels(rows: &[&[u8]]) -> Result<Option<u8>, LockError> {
    let found = 'outer: {
        'rows: for row in rows {
            for cell in *row {
                match cell {
                    0 => continue 'rows,
                    9 => break 'outer Some(*cell),
                    _ => {}
                }
            }
        }
        None
    };
    assert_eq!(held(), "labels");
    Ok(found)
}

/// `return` and `?` in a closure or an `async` block leave only that, and the body goes on.
#[distributed_lock(key = "inside")]
async fn returns_inside(values: &[i32]) -> Result<(Vec<i32>, Option<i32>, String), LockError> {
    let signs = values.iter().map(|value| {
        if *value < 0 {
            return -1;
        }
        1
    });
    let signs: Vec<_> = signs.collect();
    let first = async {
        let first = values.first()?;
        if *first > 100 {
            return None;
        }
        Some(*first)
    };
    let first = first.await;
    let call = async |more: &str| -> Result<String, std::fmt::Error> {
        if more.is_empty() {
            return Err(std::fmt::Error);
        }
        Ok(held() + more)
    };
    assert!(call("").await.is_err());
    let held = call("!").await.unwrap();
    Ok((signs, first, held))
}

macro_rules! finish {
    ($value:expr) => {
        Ok::<_, LockError>(($value, held()))
    };
}

#[distributed_lock(key = "macro")]
async fn macro_as_tail(value: u8) -> Result<(u8, String), LockError> {
    finish!(value)
}

#[distributed_lock(key = "macro", on_error = |error| panic!("{}", error))]
async fn macro_as_statement(log: &mut String) {
    use std::fmt::Write as _;
    write!(log, "{}", held()).unwrap();
}

#[allow(clippy::todo, reason = "an unfinished body is the point")]
#[distributed_lock(key = "todo")]
async fn unfinished() -> Result<HashMap<u8, String>, Boxed> {
    todo!("{}", held())
}

#[distributed_lock(key = "panics", on_error = |error| panic!("{}", error))]
async fn panics() -> u8 {
    panic!("{}", held())
}

#[distributed_lock(key = "diverges", on_error = |error| panic!("{}", error))]
async fn diverges_halfway(value: Option<u8>) {
    let Some(_) = value else {
        unreachable!("{}", held());
    };
}

#[distributed_lock(key = "endless")]
async fn endless(turns: &std::cell::Cell<u32>) -> Result<(), LockError> {
    loop {
        assert_eq!(held(), "endless");
        turns.set(turns.get() + 1);
        tokio::task::yield_now().await;
    }
}

pub(super) async fn rows() {
    assert_eq!(dyn_in_tail_and_return(true).await.to_string(), "1");
    assert_eq!(dyn_in_tail_and_return(false).await.to_string(), "dyn");
    assert_eq!(closures("").await.unwrap()["none"](3), 3);
    assert_eq!(closures("ab").await.unwrap()["add"](3), 5);
    assert_eq!(function_pointer(true).await("ab"), 3);
    assert_eq!(function_pointer(false).await("ab"), 4);
    let mut all = vec![];
    ok!(shorter(&mut all, &[1, 2, 3]), [1, 2, 3]);
    all.push(0);
    ok!(shorter(&mut all, &[1, 2, 3]), [0, 1]);
    let invalid = "invalid digit found in string";
    for (step, text) in ["wide", "text", invalid, "wide", "wide"].iter().enumerate() {
        let error = question_mark(u8::try_from(step).unwrap())
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), *text, "{step}");
    }
    ok!(question_mark(5), 5);
    ok!(loop_with_value(3), (3, "loop"));
    ok!(labels(&[&[1, 0, 9], &[2, 9]]), Some(9));
    ok!(labels(&[&[1, 0, 9]]), None::<u8>);
    ok!(returns_inside(&[3, -4]), ([1, -1], Some(3), "inside!"));
    ok!(macro_as_tail(1), (1, "macro"));
    let mut log = String::new();
    macro_as_statement(&mut log).await;
    assert_eq!(log, "macro");
    never_ends().await;
}

async fn never_ends() {
    assert_eq!(panic_of(unfinished()).await, "not yet implemented: todo");
    assert_eq!(panic_of(panics()).await, "panics");
    diverges_halfway(Some(1)).await;
    let said = "internal error: entered unreachable code: diverges";
    assert_eq!(panic_of(diverges_halfway(None)).await, said);
    let turns = std::cell::Cell::new(0);
    let mut call = Box::pin(endless(&turns));
    while turns.get() < 3 {
        assert!((&mut call).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
}

/// The message with which a call panics.
async fn panic_of<T>(call: impl Future<Output = T>) -> String {
    let call = std::panic::AssertUnwindSafe(call.map(drop));
    *call.catch_unwind().await.unwrap_err().downcast().unwrap()
}
