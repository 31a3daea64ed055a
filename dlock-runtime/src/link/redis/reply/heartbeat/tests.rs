//! Every reply to a heartbeat command is either read or an error.

use std::time::Duration;

use redis::Value;

use super::heartbeat;
use crate::rules::commands::{Busy, Left, Polled};

fn text(words: &str) -> Value {
    Value::BulkString(words.into())
}

fn waits(left: u64, holder: &str) -> Polled {
    Polled::Queued(Busy {
        time: 7,
        left: Left::For(Duration::from_millis(left)),
        value: holder.to_owned(),
    })
}

#[test]
fn each_waits_but_those_who_are_named() {
    let polls = Value::Array(vec![Value::Int(2)]);
    let reply = Value::Array(vec![
        Value::Int(7),
        Value::Int(30),
        text("a"),
        Value::Int(0),
        Value::Int(-2),
        text(""),
        polls,
    ]);
    let (time, answers) = heartbeat(&reply, &[1, 3]).unwrap();
    assert_eq!(time, 7);
    let (first, other) = (Some(waits(30, "a")), Some(waits(0, "")));
    assert_eq!(answers, [first, other.clone(), None, other]);
}

#[test]
fn what_is_of_another_shape_is_a_fault() {
    let group = |left, holder, polls| Value::Array(vec![Value::Int(7), left, holder, polls]);
    let named = |at| Value::Array(vec![Value::Int(at)]);
    let short = Value::Array(vec![Value::Int(7)]);
    let replies = [
        (short, 1),
        (Value::Array(Vec::new()), 0),
        (Value::Nil, 0),
        (Value::Int(7), 1),
        (group(Value::Int(1), text("a"), Value::Int(0)), 2),
        (group(Value::Int(-3), text("a"), Value::Int(0)), 1),
        (group(Value::Int(1), Value::Nil, Value::Int(0)), 1),
        (group(Value::Int(1), text("a"), Value::Int(1)), 1),
        (group(Value::Int(1), text("a"), named(0)), 1),
        (group(Value::Int(1), text("a"), named(2)), 1),
        (group(Value::Int(1), text("a"), named(-1)), 1),
        (group(Value::Int(1), text("a"), named(i64::MAX)), 1),
    ];
    for (reply, groups) in replies {
        let answer = heartbeat(&reply, &vec![1; groups]);
        assert!(answer.is_err(), "{reply:?}: {answer:?}");
    }
}
