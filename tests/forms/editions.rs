//! The rows in a crate of each edition, and functions of a crate in which dlock has another name.

use dlock_forms_2018::rows as edition_2018;
use dlock_forms_2021::rows as edition_2021;
use dlock_forms_2024::rows as edition_2024;
use std::fmt::Display;

use dlock_forms_renamed::{self as renamed, bare};

use dlock_runtime::distributed_lock;

use crate::{held, memory, on_memory};

#[tokio::test]
async fn rows_in_2018() {
    edition_2018::run().await;
}

#[tokio::test]
async fn rows_in_2021() {
    edition_2021::run().await;
}

#[tokio::test]
async fn rows_in_2024() {
    edition_2024::run().await;
}

#[tokio::test]
async fn another_name_for_dlock_and_no_prelude() {
    let locks = memory().await;
    let outcome = renamed::everything(7, "a b", 1.5, &locks).await;
    assert_eq!(outcome.unwrap().unwrap(), "7 1.5 1.5:7:a%20b");
    let mut shop = renamed::Shop { locks };
    let keys: Vec<_> = shop.method(7).await.unwrap().collect();
    assert_eq!(keys, ["shop:7"]);
    assert_eq!(renamed::Shop::key(7).as_str(), "shop:7");
    let outcome = bare::skipped(7, &shop.locks).await;
    assert_eq!(outcome.unwrap(), "bare:7");
    let _busy = shop.locks.lock("bare:7").acquire().await.unwrap();
    assert_eq!(bare::skipped(7, &shop.locks).await, None);
    on_memory(async {
        let outcome = renamed::keywords(1, 2, "ab").await;
        assert_eq!(outcome.unwrap(), "1:2:ab:2");
        assert_eq!(bare::result(7).await.unwrap(), "bare:7");
    })
    .await;
    assert_eq!(bare::key(7).as_str(), "bare:7");
}

/// The same function with and without its lock, by each edition's rules: from 2024 on a tail's
/// temporaries are dropped before the locals. What is dropped is dropped under the lock.
#[tokio::test]
async fn values_are_dropped_as_without_a_lock() {
    let (if_let, of_else) = ("scrutinee", "else");
    let (locals, tail) = (["second local", "first local"], "temporary of the tail");
    let old = [of_else, if_let, locals[0], locals[1], tail];
    let new = [if_let, of_else, tail, locals[0], locals[1]];
    let pool = memory().await;
    let editions = [
        (2018, old, pool.scope(edition_2018::drops(&pool)).await),
        (2021, old, pool.scope(edition_2021::drops(&pool)).await),
        (2024, new, pool.scope(edition_2024::drops(&pool)).await),
    ];
    for (edition, locals, rows) in editions {
        let rows = rows.unwrap();
        assert_eq!(rows[0].1[0], locals, "{edition}");
        for (row, [plain, locked]) in rows {
            assert_eq!(plain, locked, "{row} in {edition}");
            assert!(!plain.is_empty(), "{row}");
        }
    }
}

/// From 2024 on `impl Trait` captures the argument's lifetime without `use<'_>`.
#[distributed_lock(key = "pair", on_error = |error| panic!("{error}"))]
async fn pair(text: &str) -> (impl Display, Option<impl Iterator<Item = char>>) {
    (held(), Some(text.chars()))
}

#[tokio::test]
async fn lifetimes_are_captured_in_2024() {
    let (key, chars) = on_memory(pair("ab")).await;
    assert_eq!(key.to_string(), "pair");
    assert_eq!(chars.unwrap().count(), 2);
}
