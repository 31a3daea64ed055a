//! Processes × tasks on one key of a real server; and the same without a lock, which must fail the
//! check.

use dlock_harness::RedisServer;

use crate::fleet::Fleet;

const FLEET: Fleet = Fleet {
    mode: "count",
    processes: 4,
    tasks: 4,
    rounds: 6,
};

#[tokio::test]
async fn processes_and_tasks_lose_no_update_and_never_overlap() {
    let server = RedisServer::start();
    let outcome = FLEET.start(&server).finish(&server).await;
    outcome.check().unwrap();
    // The processes ran at the same time: if they had run one after the other, the holder's process
    // would change `processes − 1` times.
    let mut holds = outcome.intervals;
    holds.sort_by_key(|hold| hold.start_ns);
    let process = |who: &str| who.split(" task").next().map(str::to_owned);
    let changes = holds.windows(2);
    let changes = changes.filter(|pair| process(&pair[0].who) != process(&pair[1].who));
    let changes = u64::try_from(changes.count()).unwrap();
    assert!(changes >= FLEET.processes, "{changes} changes: no contest");
    // Every lock was released: only the counters are left.
    let left = server.keys().await;
    assert_eq!(left, ["counter", "lock:@fence", "parties"]);
}

#[tokio::test]
async fn the_same_without_a_lock_is_seen_to_overlap_and_to_lose_updates() {
    let server = RedisServer::start();
    let fleet = Fleet {
        mode: "count-unlocked",
        ..FLEET
    };
    let outcome = fleet.start(&server).finish(&server).await;
    let error = outcome.check().unwrap_err();
    assert!(error.starts_with("two holders at once"), "{error}");
    let (counter, expected) = (outcome.counter, outcome.expected);
    assert!(counter < expected, "counted to {counter} of {expected}");
}

/// One task per process: here only the server keeps them apart.
#[tokio::test]
async fn processes_with_one_task_each_without_a_lock_are_seen_to_overlap() {
    let server = RedisServer::start();
    let fleet = Fleet {
        mode: "count-unlocked",
        processes: 2,
        tasks: 1,
        rounds: 40,
    };
    let outcome = fleet.start(&server).finish(&server).await;
    let error = outcome.check().unwrap_err();
    assert!(error.starts_with("two holders at once"), "{error}");
}
