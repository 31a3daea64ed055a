//! Functions of other crates: of editions 2018 and 2021, under the lints of those, with dlock
//! renamed, and unsafe ones.

use dlock_forms_2018 as edition_2018;
use dlock_forms_2021::{self as edition_2021, Dynamic as _, Pointer};

use crate::{drops, memory, on_memory};

#[tokio::test]
async fn every_argument_in_either() {
    let pool = memory().await;
    let outcome = edition_2018::everything(7, "a b", 1.5, &pool).await;
    assert_eq!(outcome.unwrap().unwrap(), "7 1.5 1.5:7:a%20b");
    let outcome = edition_2021::everything(7, "a b", 1.5, &pool).await;
    assert_eq!(outcome.unwrap().unwrap(), "7 1.5 1.5:7:a%20b");
}

#[tokio::test]
async fn another_name_for_dlock_and_no_prelude() {
    let locks = memory().await;
    let mut shop = edition_2018::Shop { locks };
    let keys: Vec<_> = shop.method(7).await.unwrap().collect();
    assert_eq!(keys, ["shop:7"]);
    assert_eq!(edition_2018::Shop::key(7).as_str(), "shop:7");
    let outcome = edition_2018::bare::skipped(7, &shop.locks).await;
    assert_eq!(outcome.unwrap(), "bare:7");
    let _busy = shop.locks.lock("bare:7").acquire().await.unwrap();
    let outcome = edition_2018::bare::skipped(7, &shop.locks).await;
    assert_eq!(outcome, None);
    on_memory(async {
        assert_eq!(
            edition_2018::keywords(1, 2, "ab").await.unwrap(),
            "1:2:ab:2"
        );
        assert_eq!(edition_2018::bare::result(7).await.unwrap(), "bare:7");
    })
    .await;
    assert_eq!(edition_2018::bare::key(7).as_str(), "bare:7");
}

/// The other crate calls its `unsafe fn`, and this test checks the result.
#[tokio::test]
async fn unsafe_functions() {
    let pool = memory().await;
    let byte: &'static u8 = &9;
    let task =
        tokio::spawn(async move { pool.scope(edition_2021::call_read(Pointer(byte))).await });
    assert_eq!(task.await.unwrap().unwrap(), (9, "pointer:9".to_owned()));
    on_memory(async {
        let outcome = edition_2021::call_implicit(Pointer(byte)).await.unwrap();
        assert_eq!(outcome, (9, "implicit".to_owned()));
        let outcome = edition_2021::call_dynamic(7).await.unwrap();
        assert_eq!(outcome, "dynamic:7");
        let outcome = edition_2021::Shop.provided(7).await.unwrap();
        assert_eq!(outcome, "provided:7");
    })
    .await;
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
        (2018, old, pool.scope(edition_2018::rows(&pool)).await),
        (2021, old, pool.scope(edition_2021::rows(&pool)).await),
        (2024, new, pool.scope(drops::rows(&pool)).await),
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
