//! A killed holder keeps the lock until its lease ends, and no longer.

use std::time::Duration;

use dlock_harness::{Interval, RedisServer, check_exclusive, now_ns, until};

use crate::fleet::{Fleet, worker};

const CAP: Duration = Duration::from_secs(30);
/// Between the end of a lease and the next holder: one poll (100 ms), and the delays of a busy
/// machine.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn others_get_the_lock_of_a_killed_process_when_its_lease_ends() {
    let server = RedisServer::start();
    let mut doomed = worker(&["hold", &server.url(), "ttl_ms=4000"]);
    let held = doomed.expect_line("held ", CAP).await;
    let (fence, start_ns) = held.split_once(' ').unwrap();
    let others = Fleet {
        mode: "count",
        processes: 2,
        tasks: 2,
        rounds: 3,
    };
    let others = others.start(&server);
    until("others wait", CAP, async || {
        server.keys().await.contains(&"parties".to_owned())
    })
    .await;
    // It is renewed for longer than a ttl: ten renewals are one ttl.
    let renewals = async || server.commandstats("pexpire").await;
    let before = renewals().await;
    until("it was renewed for a ttl", CAP, async || {
        renewals().await >= before + 11
    })
    .await;

    doomed.kill();
    let killed_ns = now_ns();
    let left = server.pttl("lock:counter").await;
    let left = Duration::from_millis(left.try_into().expect("held, with a lease"));
    let mut outcome = others.finish(&server).await;
    outcome.check().unwrap();

    let first = outcome.intervals.iter().map(|hold| hold.start_ns).min();
    let waited = Duration::from_nanos(first.unwrap() - killed_ns);
    assert!(waited <= left + SLACK, "{waited:?}, and {left:?} were left");
    // Not before the lease's end either: the server can't know that the holder is dead.
    let least = left.saturating_sub(Duration::from_millis(100));
    assert!(waited >= least, "{waited:?}, and {left:?} were left");
    outcome.intervals.push(Interval {
        key: "lock:counter".to_owned(),
        fence: fence.parse().unwrap(),
        start_ns: start_ns.parse().unwrap(),
        end_ns: killed_ns,
        who: "the killed".to_owned(),
    });
    check_exclusive(&outcome.intervals).unwrap();
}
