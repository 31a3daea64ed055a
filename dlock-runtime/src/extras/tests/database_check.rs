//! What follows from the answers of PostgreSQL, as a table.

use super::server_check::{concerns, found, of};
use crate::extras::server_check::Answers;
use crate::values::finding::{Concern, Weight};

use Concern::{NotChecked, Persistence, Transactions};
use Weight::{Harms, Matters};

/// What PostgreSQL says that is set up well.
pub(super) const GOOD_DATABASE: [(&str, &str); 10] = [
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("statement_timeout", "2500"),
    ("idle_in_transaction_session_timeout", "30000"),
    ("transaction_timeout", "0"),
    ("default_transaction_isolation", "read committed"),
    ("oldest_seconds", "2"),
    ("hidden", "0"),
    ("oldest", "backend 7"),
];

/// The same of PostgreSQL, which says that nothing is prepared.
fn of_database(other: &[(&str, &str)]) -> Answers {
    let mut answers = of(&GOOD_DATABASE, other);
    if !other.iter().any(|(name, _)| *name == "prepared") {
        answers.info.push_str("prepared:\r\n");
    }
    answers.is_database = true;
    answers
}

#[test]
fn each_topic_of_postgresql_is_judged() {
    assert_eq!(found(&of_database(&[])), []);
    let idle = "idle_in_transaction_session_timeout";
    for (lines, expected, says) in [
        (&[("fsync", "off")][..], (Persistence, Harms), "torn"),
        (&[("full_page_writes", "off")], (Persistence, Harms), "torn"),
        (
            &[("synchronous_commit", "off")],
            (Persistence, Matters),
            "0.6 s",
        ),
        (&[(idle, "0")], (Transactions, Matters), "stays open"),
        (
            &[("oldest_seconds", "61")],
            (Transactions, Matters),
            "backend 7",
        ),
        (
            &[("hidden", "3")],
            (NotChecked, Matters),
            "3 transactions of other users",
        ),
        (&[("prepared", "'tx'")], (Transactions, Harms), "'tx'"),
        (
            &[("statement_timeout", "0")],
            (Transactions, Matters),
            "statement_timeout",
        ),
        (
            &[("default_transaction_isolation", "serializable")],
            (Transactions, Matters),
            "serializable",
        ),
        (&[("fsync", "")], (NotChecked, Matters), "`fsync`"),
    ] {
        let answers = of_database(lines);
        assert_eq!(concerns(&answers), [expected], "{lines:?}");
        let found = found(&answers);
        assert!(found[0].risk().contains(says), "{found:?}");
    }
    assert_eq!(
        concerns(&of_database(&[
            (idle, "0"),
            ("transaction_timeout", "30000")
        ])),
        []
    );
}
