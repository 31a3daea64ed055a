//! Hundreds of waiters in several processes: each has its turn, in order inside its process, and no
//! process gets more turns than the others.

use dlock_harness::{Interval, RedisServer, check_exclusive};
use dlock_tests::locks;

use crate::fleet::CAP;
use crate::waiters::{Kind, Member, closed};

const PROCESSES: usize = 4;
const TASKS: u64 = 125;

#[tokio::test]
async fn five_hundred_waiters_in_four_processes_all_get_their_turn() {
    let server = RedisServer::start();
    let door = closed(&server).await;
    let kind = Kind {
        tasks: TASKS,
        hold_ms: 2,
        mixed: false,
    };
    let mut line = Vec::new();
    for already in 0..PROCESSES {
        line.push(kind.join(&server, already).await);
    }
    assert!(line.iter().all(|member| member.turns().is_empty()));
    door.release().await.unwrap();
    for member in &mut line {
        member.finish().await;
    }

    for member in &line {
        let expected = (0..TASKS).collect::<Vec<_>>();
        assert_eq!(member.order(), expected, "each once, as they asked");
    }
    let mut turns: Vec<_> = line.iter().flat_map(Member::turns).collect();
    check_exclusive(&turns).unwrap();
    turns.sort_by_key(|turn| turn.start_ns);
    // While all processes have waiters: in the worst case, one process could have had half of these
    // turns by then.
    let fair = fairness(&turns[..turns.len() / 2], PROCESSES);
    assert!(fair >= 0.95, "{fair}");
    locks::until_none(&server, CAP).await;
}

/// Jain's index: 1 if all had equally many turns, 1/n if one had them all (Jain, Chiu, Hawe 1984).
fn fairness(turns: &[Interval], processes: usize) -> f64 {
    let mut shares = std::collections::BTreeMap::<&str, f64>::new();
    for turn in turns {
        let (process, _) = turn.who.split_once(" task").expect("process … task …");
        *shares.entry(process).or_default() += 1.0;
    }
    let sum: f64 = shares.values().sum();
    let squares: f64 = shares.values().map(|share| share * share).sum();
    let processes = f64::from(u32::try_from(processes).unwrap());
    sum * sum / (processes * squares)
}

#[test]
fn fairness_is_seen() {
    let turns = |counts: [u64; 2]| {
        let of = |(process, count): (usize, u64)| {
            (0..count).map(move |task| Interval {
                key: "k".to_owned(),
                fence: task,
                start_ns: 0,
                end_ns: 0,
                who: format!("process {process} task {task}"),
            })
        };
        counts
            .into_iter()
            .enumerate()
            .flat_map(of)
            .collect::<Vec<_>>()
    };
    assert!(fairness(&turns([5, 5]), 2) > 0.99);
    assert!(fairness(&turns([10, 0]), 2) < 0.51);
    assert!(fairness(&turns([8, 4]), 2) < 0.95);
}

/// Renewed, short, long and `min_hold` locks wait in one queue.
#[tokio::test]
async fn locks_with_different_settings_take_turns_as_well() {
    let server = RedisServer::start();
    let door = closed(&server).await;
    let kind = Kind {
        tasks: 12,
        hold_ms: 30,
        mixed: true,
    };
    let mut line = Vec::new();
    for already in 0..3 {
        line.push(kind.join(&server, already).await);
    }
    let places = locks::queue(&server, "turns").await;
    assert_eq!(places.len(), 3, "one place for each process");
    door.release().await.unwrap();
    for member in &mut line {
        member.finish().await;
        assert_eq!(member.order(), (0..12).collect::<Vec<_>>());
    }
    let turns: Vec<_> = line.iter().flat_map(Member::turns).collect();
    check_exclusive(&turns).unwrap();
    // `min_hold` promises that no other task starts sooner after the start of such a turn.
    let mut turns = turns;
    turns.sort_by_key(|turn| turn.start_ns);
    for pair in turns.windows(2) {
        let (_, number) = pair[0].who.rsplit_once(' ').unwrap();
        let apart = pair[1].start_ns - pair[0].start_ns;
        let keeps = number.parse::<u64>().unwrap() % 4 == 3;
        // It counts from the grant, which was up to a round trip before the start.
        assert!(!keeps || apart >= 5_000_000, "{pair:?}");
    }
}
