//! Kills processes while others wait: the holder, the processes at the head of the queue, and
//! random ones. The survivors must all get their turns, in order and without overlap.

use std::time::Duration;

use dlock_harness::{Interval, RedisServer, check_exclusive, now_ns, until};
use dlock_tests::{Seeded, locks};

use crate::fleet::CAP;
use crate::waiters::{Kind, LOCK, Member, closed};

/// Between the end of a lease and the next turn: one poll, and the delays of a busy machine.
const SLACK: Duration = Duration::from_secs(4);

const KIND: Kind = Kind {
    tasks: 10,
    hold_ms: 8,
    mixed: false,
};

/// Waits for the surviving processes: each of their tasks has its turn once, in order.
async fn all_get_their_turn(line: &mut [Member], tasks: u64) -> Vec<Interval> {
    let mut turns = Vec::new();
    for member in line {
        member.finish().await;
        assert_eq!(member.order(), (0..tasks).collect::<Vec<_>>());
        turns.extend(member.turns());
    }
    turns
}

#[tokio::test]
async fn a_killed_holder_and_killed_waiters_cost_nobody_a_turn() {
    let server = RedisServer::start();
    let door = closed(&server).await;
    let slow = Kind {
        hold_ms: 600_000,
        ..KIND
    };
    // At the head of the queue two processes that are killed at once, then the future holder, which
    // is killed while it holds the lock, and another killed one between the survivors.
    let mut dead = vec![KIND.join(&server, 0).await, KIND.join(&server, 1).await];
    let mut holder = slow.join(&server, 2).await;
    let mut line = Vec::new();
    line.push(KIND.join(&server, 3).await);
    dead.push(KIND.join(&server, 4).await);
    line.push(KIND.join(&server, 5).await);
    for member in &mut dead {
        assert!(member.kill().is_empty());
    }
    let released = now_ns();
    door.release().await.unwrap();
    let held = holder.0.expect_line("holds ", CAP).await;
    let (_, start_ns) = held.split_once(' ').unwrap();
    let waited = Duration::from_nanos(start_ns.parse::<u64>().unwrap() - released);
    // Immediately: a grant to a dead process would cost 3 s.
    assert!(waited < Duration::from_millis(2_500), "{waited:?}");

    let mut turns = holder.kill();
    let killed_ns = now_ns();
    let left: i64 = server.pttl(LOCK).await;
    let left = Duration::from_millis(left.try_into().expect("held, with a lease"));
    let lived = all_get_their_turn(&mut line, KIND.tasks).await;
    let first = lived.iter().map(|turn| turn.start_ns).min().unwrap();
    let waited = Duration::from_nanos(first - killed_ns);
    assert!(waited <= left + SLACK, "{waited:?}, and {left:?} were left");
    assert_eq!(turns.len(), 1, "it was killed in its first turn");
    turns.extend(lived);
    check_exclusive(&turns).unwrap();
    locks::until_none(&server, CAP).await;
}

/// Kills processes at random moments, whatever they are doing.
#[tokio::test]
async fn processes_killed_at_any_moment_cost_nobody_a_turn() {
    let server = RedisServer::start();
    let door = closed(&server).await;
    let mut random = Seeded(4);
    let kind = Kind { tasks: 80, ..KIND };
    let mut line = Vec::new();
    for already in 0..5 {
        line.push(kind.join(&server, already).await);
    }
    door.release().await.unwrap();
    let mut turns = Vec::new();
    for _ in 0..3 {
        let mut doomed = line.remove(0);
        let least = usize::try_from(random.between(1, 8)).unwrap();
        until("it had some turns", CAP, async || {
            doomed.turns().len() >= least
        })
        .await;
        tokio::time::sleep(Duration::from_micros(random.between(0, 40_000))).await;
        let its = doomed.kill();
        assert!(its.len() < 80, "killed too late to prove anything");
        turns.extend(its);
    }
    turns.extend(all_get_their_turn(&mut line, 80).await);
    check_exclusive(&turns).unwrap();
}
