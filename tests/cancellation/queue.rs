//! One of several waiters goes away, at every poll: the others keep their order and the process's
//! entry in the server's queue; with no other waiter here, the next process has the lock at once.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use dlock_harness::wait::within;

use crate::waiters::{Processes, Turn, Turns, no_queue_is_left, request, seated, wait_here};
use crate::world::{A_WHILE, World};
use dlock_harness::polls::{Cut, When, dropped_at};

/// A queue of `count` waiters, of which the one with the number `leaver` is dropped at every poll.
async fn one_leaves(world: &World, count: usize, leaver: usize) {
    let processes = Processes::of(world).await;
    let baseline = world.baseline().await;
    let mut ends = Vec::new();
    for when in [When::AtOnce, When::Woken] {
        for polls in 0..20 {
            let cut = Cut { polls, when };
            let key = format!("item:{count}-{leaver}-{when:?}-{polls}");
            let had_it = turns_with(&processes, &key, count, leaver, cut).await;
            world.freed(&key).await;
            world.is_back_at(&baseline).await;
            if had_it {
                ends.push(polls);
                break;
            }
        }
    }
    assert_eq!(ends.len(), 2, "it never gets its turn");
    assert!(
        ends.iter().all(|&polls| polls >= 2),
        "it never waited: {ends:?}"
    );
    if count > 3 {
        processes.assert_rows();
    }
    if let Some(server) = &world.server {
        no_queue_is_left(server).await;
    }
}

/// Whether the leaver had its turn, and gave the lock back, before it could be dropped.
async fn turns_with(
    processes: &Processes<'_>,
    key: &str,
    count: usize,
    leaver: usize,
    cut: Cut,
) -> bool {
    let (pool, turns) = (&processes.world.pool, Turns::default());
    let (tasks, gone) = (RefCell::new(Vec::new()), Cell::new(false));
    let sit = |numbers: Range<usize>| {
        let tasks_of = numbers.map(|number| wait_here(pool, key, Turn::Local(number), &turns));
        tasks.borrow_mut().extend(tasks_of);
    };
    let holder = processes.hold(key).await;
    sit(0..leaver);
    // The waiters behind it queue right after it, and so before it goes.
    let its_turn = async {
        let behind = || sit(leaver + 1..count);
        let guard = seated(request(pool, key).acquire(), behind).await.unwrap();
        turns.push(Turn::Local(leaver));
        guard.release().await.unwrap();
    };
    let goes = async {
        let left = dropped_at(cut, its_turn).await;
        gone.set(true);
        left
    };
    let passes_on = async {
        if cut.polls == 0 {
            sit(leaver + 1..count);
        }
        let nobody_stays = || count == 1 && gone.get();
        let stranger = processes.let_stranger_queue(key, &turns, nobody_stays);
        let stranger = stranger.await;
        holder.release().await.unwrap();
        stranger
    };
    let (left, stranger) = tokio::join!(goes, passes_on);
    let everybody = tasks.into_inner().into_iter().chain(stranger);
    let served = within(A_WHILE, async {
        for task in everybody {
            task.await.unwrap();
        }
    });
    let what = format!("{cut:?} of {leaver} in {count}");
    assert!(served.await.is_some(), "{what}: only {:?}", turns.so_far());
    let in_order = expected(processes, &turns, count, leaver);
    processes.assert_turns(&turns, &in_order, &what);
    left.is_some()
}

/// The expected turns, in order of arrival: the first waiter here has the process's queue entry,
/// which is before the other process's; the next ones here come behind that.
fn expected(processes: &Processes<'_>, turns: &Turns, count: usize, leaver: usize) -> Vec<Turn> {
    let had_it = turns.so_far().contains(&Turn::Local(leaver));
    let locals = (0..count).filter(|&number| number != leaver || had_it);
    let mut order: Vec<Turn> = locals.map(Turn::Local).collect();
    if processes.stranger.is_some() {
        order.insert(order.len().min(1), Turn::Stranger);
    }
    order
}

async fn the_only_one_leaves_the_lock_to_another_process(world: &World) {
    one_leaves(world, 1, 0).await;
}

async fn the_first_leaves_its_entry_to_its_neighbour(world: &World) {
    one_leaves(world, 2, 0).await;
}

async fn the_first_of_four_leaves_the_order_as_it_is(world: &World) {
    one_leaves(world, 4, 0).await;
}

async fn one_in_the_middle_leaves_the_order_as_it_is(world: &World) {
    one_leaves(world, 4, 1).await;
}

async fn the_last_leaves_the_order_as_it_is(world: &World) {
    one_leaves(world, 3, 2).await;
}

everywhere!(
    the_only_one_leaves_the_lock_to_another_process,
    the_first_leaves_its_entry_to_its_neighbour,
    the_first_of_four_leaves_the_order_as_it_is,
    one_in_the_middle_leaves_the_order_as_it_is,
    the_last_leaves_the_order_as_it_is,
);
