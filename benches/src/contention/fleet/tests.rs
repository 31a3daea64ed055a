//! Tasks are distributed evenly over the processes.

use std::time::Duration;

use super::Fleet;

fn shares(processes: usize, tasks: usize) -> Vec<usize> {
    let fleet = Fleet {
        processes,
        tasks,
        hold: Duration::ZERO,
        think: Duration::ZERO,
        ramp: Duration::ZERO,
        length: Duration::ZERO,
    };
    let all: Vec<_> = (0..processes)
        .map(|process| fleet.tasks_of(process))
        .collect();
    assert!(all.iter().cloned().flatten().eq(0..tasks), "{all:?}");
    all.iter().map(ExactSizeIterator::len).collect()
}

#[test]
fn each_task_is_in_one_process_and_all_processes_have_about_as_many() {
    assert_eq!(shares(8, 64), [8; 8]);
    assert_eq!(shares(1, 2), [2]);
    assert_eq!(shares(8, 20), [2, 3, 2, 3, 2, 3, 2, 3]);
}
