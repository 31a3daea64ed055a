//! What is read out of the replies to batches, and which replies are refused.

use redis::Value;

use super::{ItemReply, combined};

/// The items in words, or `refused`.
fn check(reply: Vec<Value>, releases: usize, asked: usize, expected: &str) {
    let word = |item: Result<ItemReply, _>| match item {
        Ok(ItemReply::Granted { time, epoch }) => format!("{epoch} at {time}"),
        Ok(item) => item.given_back().map_or("no release".to_owned(), |it| {
            format!("found: {}", it.answer.found)
        }),
        Err(_) => "error".to_owned(),
    };
    let said = format!("{reply:?}");
    let items = combined(Value::Array(reply), releases, asked);
    let words = items.map(|items| items.map(word).collect::<Vec<_>>().join(", "));
    let words = words.unwrap_or("refused".to_owned());
    assert_eq!(words, expected, "{said}, {releases} of {asked}");
}

fn ints(numbers: &[i64]) -> Vec<Value> {
    numbers.iter().copied().map(Value::Int).collect()
}

#[test]
fn two_numbers_stand_for_a_batch_of_common_cases() {
    check(ints(&[7, 9]), 1, 3, "found: true, 9 at 7, 10 at 7");
    check(ints(&[7, 9]), 0, 2, "9 at 7, 10 at 7");
    check(ints(&[0, 0]), 2, 2, "found: true, found: true");
}

#[test]
fn other_batches_have_a_reply_for_each_item() {
    check(
        ints(&[7, 1, 0, 9]),
        2,
        3,
        "found: true, found: false, 9 at 7",
    );
    check(ints(&[7, 1, 9]), 1, 2, "found: true, 9 at 7");
}

#[test]
fn a_reply_of_another_shape_is_refused() {
    check(ints(&[7]), 0, 2, "refused");
    check(ints(&[7, 9, 10, 11]), 0, 2, "refused");
    check(ints(&[7, 1]), 1, 2, "refused"); // 1 is no epoch
    check(ints(&[7, -9]), 1, 2, "refused");
    check(ints(&[-7, 9]), 1, 2, "refused");
    check(vec![Value::Int(7), Value::Nil], 1, 2, "refused");
    check(ints(&[7, 9]), 3, 2, "refused");
}
