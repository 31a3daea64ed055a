//! Statements that need no lock at all, and the fence as a column.

use rusqlite::{Connection, OptionalExtension, params};

use crate::page::{sql, text};
use crate::story::{column, in_memory};

/// Item 7, with a stock of 10.
fn shop() -> Connection {
    let db = Connection::open_in_memory().unwrap();
    for part in ["item", "fence column"] {
        db.execute_batch(&sql(part)).unwrap();
    }
    db.execute("INSERT INTO item (id, stock) VALUES (7, 10)", [])
        .unwrap();
    db
}

fn stock(db: &Connection) -> i64 {
    let ask = "SELECT stock FROM item WHERE id = 7";
    db.query_row(ask, [], |row| row.get(0)).unwrap()
}

fn claim(db: &Connection, fence: i64) -> Option<i64> {
    let claimed = db.query_row(&sql("claim"), params![fence, 7], |row| row.get(0));
    claimed.optional().unwrap()
}

fn write(db: &Connection, fence: i64, stock: i64) -> usize {
    db.execute(&sql("write"), params![fence, stock, 7]).unwrap()
}

/// The same without its condition.
fn write_unfenced(db: &Connection, fence: i64, stock: i64) -> usize {
    let statement = sql("write");
    let unfenced = statement.replace(" AND fence <= $1", "");
    assert_ne!(unfenced, statement);
    db.execute(&unfenced, params![fence, stock, 7]).unwrap()
}

#[test]
fn a_unique_index_lets_one_win() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&sql("invoice")).unwrap();
    let once = |total| {
        db.execute(&sql("once"), params![1, "2026-07", total])
            .unwrap()
    };
    assert_eq!((once(100), once(200)), (1, 0));
}

#[test]
fn a_condition_sells_no_more_than_there_is() {
    let db = shop();
    let sell = |pieces| db.execute(&sql("sell"), params![pieces, 7]).unwrap();
    assert_eq!((sell(6), sell(6), sell(4), sell(1)), (1, 0, 1, 0));
    assert_eq!(stock(&db), 0);
}

#[test]
fn of_two_who_read_the_same_version_one_writes() {
    let db = shop();
    let save = |stock, version| {
        db.execute(&sql("versioned"), params![stock, 7, version])
            .unwrap()
    };
    assert_eq!((save(9, 0), save(8, 0), save(8, 1)), (1, 0, 1));
}

#[test]
fn a_note_is_taken_once() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&sql("outbox")).unwrap();
    let note = || {
        db.execute(&sql("note"), params!["invoice:7:2026-07", "Dear …"])
            .unwrap()
    };
    assert_eq!((note(), note()), (1, 0));
}

#[test]
fn the_code_on_the_page_sends_these_statements() {
    for name in ["claim", "write"] {
        let quoted = format!("\"{}\"", sql(name).trim_end_matches(';'));
        assert!(text().contains(&quoted), "{quoted}");
    }
}

#[tokio::test]
async fn the_paused_holders_write_is_refused() {
    let (ann, bob) = in_memory().await;
    let (ann, bob, db) = (column(ann), column(bob), shop());
    assert_eq!(write(&db, bob, 20), 1);
    assert_eq!(write(&db, ann, 9), 0, "late");
    assert_eq!(stock(&db), 20);
    assert_eq!(write(&db, bob, 21), 1, "one holder writes more than once");
}

#[tokio::test]
async fn without_the_condition_it_is_taken() {
    let (ann, bob) = in_memory().await;
    let (ann, bob, db) = (column(ann), column(bob), shop());
    assert_eq!(write_unfenced(&db, bob, 20), 1);
    assert_eq!(write_unfenced(&db, ann, 9), 1);
    assert_eq!(stock(&db), 9, "bob's write is lost");
}

/// Ann is late, but writes before bob does: between his read and his write.
#[tokio::test]
async fn a_claim_refuses_who_writes_between_read_and_write() {
    let (ann, bob) = in_memory().await;
    let (ann, bob, db) = (column(ann), column(bob), shop());
    assert_eq!(claim(&db, ann), Some(10));
    let read = claim(&db, bob).unwrap();
    assert_eq!(write(&db, ann, 9), 0);
    assert_eq!(write(&db, bob, read - 2), 1);
    assert_eq!(stock(&db), 8);
    assert_eq!(claim(&db, ann), None);
}

#[tokio::test]
async fn without_a_claim_a_write_that_was_taken_is_lost() {
    let (ann, bob) = in_memory().await;
    let (ann, bob, db) = (column(ann), column(bob), shop());
    let read = stock(&db);
    assert_eq!(write(&db, ann, 9), 1, "nothing says that she is late");
    assert_eq!(write(&db, bob, read - 2), 1);
    assert_eq!(stock(&db), 8, "one piece was sold twice");
}

#[tokio::test]
async fn a_first_write_creates_the_row_and_is_fenced_as_any() {
    let (ann, bob) = in_memory().await;
    let (ann, bob, db) = (column(ann), column(bob), shop());
    let save = |fence, stock| {
        db.execute(&sql("write or create"), params![8, stock, fence])
            .unwrap()
    };
    assert_eq!((save(bob, 5), save(ann, 4), save(bob, 6)), (1, 0, 1));
    let ask = "SELECT stock FROM item WHERE id = 8";
    let stock: i64 = db.query_row(ask, [], |row| row.get(0)).unwrap();
    assert_eq!(stock, 6);
}
