//! Processes of an older build beside this one. With `DLOCK_TEST_OLD_WORKER` every fleet of this program
//! has some (`fleet`), so that each kind, the order of the queue, the counter and killed holders are
//! tested with both. Here is what times alone show: one build grants to the other, and it is told by
//! the push, and not found by a poll, which each waiter sends once a second.

use std::time::{Duration, Instant};

use dlock_harness::{Interval, now_ns, wait};

use crate::fleet::{CAP, old_worker};
use crate::item::Item;

/// The kind that a process of the older build asks for, and one that excludes it.
const PAIRS: [(&str, &str); 10] = [
    ("x", "x"),
    ("fair", "fair"),
    ("x", "r"),
    ("r", "x"),
    ("r", "w"),
    ("w", "r"),
    ("p:1/3", "p:3/3"),
    ("p:3/3", "p:1/3"),
    ("o:a", "o:b"),
    ("o:b", "p:1/1"),
];

/// Of each pair; a poll would be as soon as this once in five times.
const ROUNDS: usize = 3;
const TOLD_WITHIN: Duration = Duration::from_millis(200);

/// `kind` is the older build's, and it has the seed 1.
async fn granted_to_the_older(item: &Item, kind: &str, other: &str) -> Duration {
    let door = item.close(other).await;
    let mut older = item.asks(kind, 1, 1, 0);
    item.until_entries(1).await;
    let since = Instant::now();
    door.release().await.unwrap();
    older.expect_line("begins", CAP).await;
    let took = since.elapsed();
    older.expect_line("done", CAP).await;
    took
}

async fn granted_by_the_older(item: &Item, kind: &str, other: &str) -> Duration {
    let mut older = item.asks(kind, 1, 1, 400);
    older.expect_line("begins", CAP).await;
    let waiter = item.waits(other).await;
    let (guard, _) = wait::within(CAP, waiter).await.expect("its turn").unwrap();
    let had_ns = now_ns();
    older.expect_line("done", CAP).await;
    let lines = older.lines();
    let hold = lines.iter().find_map(|it| Interval::parse(it)).unwrap();
    assert!(hold.end_ns <= had_ns, "it was still held");
    assert!(hold.fence < guard.fence().get(), "the counter rises");
    guard.release().await.unwrap();
    Duration::from_nanos(had_ns - hold.end_ns)
}

#[tokio::test]
#[ignore = "needs an older build, which tests/run.sh --all makes"]
async fn each_build_tells_the_other_of_its_grants() {
    assert!(old_worker().is_some(), "DLOCK_TEST_OLD_WORKER is not set");
    let item = Item::new().await;
    for (kind, other) in PAIRS {
        for _ in 0..ROUNDS {
            let to = granted_to_the_older(&item, kind, other).await;
            let by = granted_by_the_older(&item, kind, other).await;
            let most = wait::scaled(TOLD_WITHIN);
            assert!(to < most && by < most, "{kind} and {other}: {to:?}, {by:?}");
        }
    }
    item.nothing_is_left().await;
}
