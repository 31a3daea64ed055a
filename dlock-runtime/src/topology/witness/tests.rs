//! What a round sends, and what its answers mean.

use std::time::Duration;

use redis::Value;

use super::{read, round};
use crate::link::command_error::CommandError;
use crate::values::config::Durability;
use crate::values::error::Refusal;

const PATIENCE: Duration = Duration::from_millis(250);

fn asks_for(min_replicas: Option<usize>, min_aof: Option<usize>) -> Durability {
    Durability {
        min_replicas,
        min_aof,
    }
}

fn sent(durability: Durability) -> Vec<String> {
    let commands = round("lock:@witness", durability, PATIENCE);
    let words = |command: &redis::Cmd| {
        let words = command.args_iter().map(|word| match word {
            redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
            _ => panic!("no other words are sent"),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    commands.cmd_iter().map(words).collect()
}

fn files(local: i64, replicas: i64) -> Value {
    Value::Array(vec![Value::Int(local), Value::Int(replicas)])
}

fn says(durability: Durability, counts: &[Value]) -> Result<(), String> {
    let answers: Vec<Value> = [&[Value::Okay][..], counts].concat();
    read(&answers, durability, PATIENCE).map_err(|error| error.to_string())
}

#[test]
fn each_wait_stands_behind_a_write_that_expires() {
    let set = "SET lock:@witness 1 PX 60000";
    assert_eq!(sent(asks_for(Some(2), None)), [set, "WAIT 2 250"]);
    assert_eq!(sent(asks_for(None, Some(1))), [set, "WAITAOF 1 0 250"]);
    assert_eq!(
        sent(asks_for(Some(1), Some(3))),
        [set, "WAIT 1 250", "WAITAOF 1 2 250"]
    );
}

#[test]
fn as_many_servers_as_were_asked_for_confirm() {
    let replicas = asks_for(Some(2), None);
    for enough in [2, 3] {
        assert_eq!(says(replicas, &[Value::Int(enough)]), Ok(()));
    }
    let why = says(replicas, &[Value::Int(1)]).unwrap_err();
    assert!(
        why.contains("1 of 2 replicas confirmed it within 250ms"),
        "{why}"
    );

    let on_disk = asks_for(None, Some(2));
    assert_eq!(says(on_disk, &[files(1, 1)]), Ok(()));
    for (local, of_replicas) in [(1, 0), (0, 2)] {
        let why = says(on_disk, &[files(local, of_replicas)]).unwrap_err();
        assert!(
            why.contains("of 2 append-only files had it within 250ms"),
            "{why}"
        );
    }

    let both = asks_for(Some(1), Some(1));
    assert_eq!(says(both, &[Value::Int(1), files(1, 0)]), Ok(()));
    says(both, &[Value::Int(0), files(1, 0)]).unwrap_err();
    says(both, &[Value::Int(1), files(0, 1)]).unwrap_err();
}

#[test]
fn what_is_no_count_confirms_nothing() {
    let both = asks_for(Some(1), Some(1));
    for counts in [
        &[][..],
        &[Value::Int(1)],
        &[Value::Int(-1), files(1, 1)],
        &[Value::Okay, files(1, 1)],
        &[Value::Int(1), Value::Int(1)],
        &[Value::Int(1), Value::Array(vec![Value::Int(1)])],
        &[Value::Int(1), files(-1, 9)],
        &[Value::Nil, Value::Nil],
    ] {
        says(both, counts).unwrap_err();
    }
    let answers = [Value::Okay, Value::Int(0)];
    let error = read(&answers, asks_for(Some(1), None), PATIENCE);
    assert!(
        matches!(error, Err(CommandError::Refused(Refusal::NotReplicated, _))),
        "a typed refusal"
    );
}
