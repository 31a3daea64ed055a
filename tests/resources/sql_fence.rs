//! The fence in a table of its own: several tables in one transaction, several writers at once.

use std::thread;
use std::time::Duration;

use dlock_tests::Seeded;
use rusqlite::{Connection, TransactionBehavior, params};

use crate::page::sql;
use crate::story::{column, in_memory};

const TABLES: &str = "CREATE TABLE debit (fence bigint); CREATE TABLE credit (fence bigint);";

fn bank(path: &str) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db
}

/// Moves money under `fence`: all or nothing.
fn transfer(db: &mut Connection, fence: i64, fenced: bool) -> bool {
    let work = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    let claimed = work
        .execute(&sql("claim by name"), params!["account:7", fence])
        .unwrap();
    if fenced && claimed == 0 {
        return false; // dropped: rolled back
    }
    for table in ["debit", "credit"] {
        let note = format!("INSERT INTO {table} VALUES (?1)");
        work.execute(&note, [fence]).unwrap();
    }
    work.commit().unwrap();
    true
}

/// The fences that were written, in order.
fn written(db: &Connection, table: &str) -> Vec<i64> {
    let ask = format!("SELECT fence FROM {table} ORDER BY rowid");
    let mut rows = db.prepare(&ask).unwrap();
    let fences = rows.query_map([], |row| row.get(0)).unwrap();
    fences.map(Result::unwrap).collect()
}

fn open_memory() -> Connection {
    let db = bank(":memory:");
    db.execute_batch(&sql("fence table")).unwrap();
    db.execute_batch(TABLES).unwrap();
    db
}

#[tokio::test]
async fn a_late_transaction_leaves_nothing_in_any_table() {
    let (ann, bob) = in_memory().await;
    let (ann, bob, mut db) = (column(ann), column(bob), open_memory());
    assert!(transfer(&mut db, bob, true));
    assert!(!transfer(&mut db, ann, true));
    assert!(transfer(&mut db, bob, true));
    for table in ["debit", "credit"] {
        assert_eq!(written(&db, table), [bob, bob]);
    }
}

#[tokio::test]
async fn a_writer_that_ignores_the_row_count_writes_late() {
    let (ann, bob) = in_memory().await;
    let (ann, bob, mut db) = (column(ann), column(bob), open_memory());
    assert!(transfer(&mut db, bob, false));
    assert!(transfer(&mut db, ann, false));
    assert_eq!(written(&db, "debit"), [bob, ann]);
}

/// Four writers at once on one file, each with fences in random order: the fences in the tables
/// only rise.
#[test]
fn whatever_the_writers_order_the_fences_rise() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bank.sqlite");
    let name = path.to_str().unwrap();
    let db = bank(name);
    db.execute_batch(&sql("fence table")).unwrap();
    db.execute_batch(TABLES).unwrap();
    thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || {
                let (mut db, mut random) = (bank(name), Seeded(seed));
                for _ in 0..25 {
                    let fence = i64::try_from(random.between(1, 1000)).unwrap();
                    transfer(&mut db, fence, true);
                }
            });
        }
    });
    let debits = written(&db, "debit");
    assert!(!debits.is_empty());
    assert!(debits.is_sorted(), "{debits:?}");
    assert_eq!(debits, written(&db, "credit"));
}
