//! A holder that goes away in every possible way while others wait: the next waiter has the lock at
//! once, in order.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;

use dlock_harness::wait::within;
use dlock_runtime::{LockGuard, Release};
use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::waiters::{Processes, Turn, Turns, no_queue_is_left, request, wait_here};
use crate::world::{A_WHILE, World};
use dlock_harness::polls::{Cut, When, dropped_at};

const IN_ORDER: [Turn; 3] = [Turn::Local(1), Turn::Stranger, Turn::Local(2)];

/// Two waiters behind a holder of this process.
fn wait_behind(world: &World, key: &str, turns: &Turns) -> Vec<JoinHandle<()>> {
    let wait = |number| wait_here(&world.pool, key, Turn::Local(number), turns);
    [1, 2].map(wait).into()
}

async fn all_had_it(
    processes: &Processes<'_>,
    key: &str,
    tasks: Vec<JoinHandle<()>>,
    turns: &Turns,
    what: &str,
) {
    let served = within(A_WHILE, futures_util::future::join_all(tasks)).await;
    let served = served.unwrap_or_else(|| panic!("{what}: only {:?}", turns.so_far()));
    for task in served {
        task.unwrap();
    }
    processes.world.freed(key).await;
}

/// The turns of [`IN_ORDER`] that this world can have.
fn in_order(processes: &Processes<'_>) -> Vec<Turn> {
    let there = |turn: &Turn| *turn != Turn::Stranger || processes.stranger.is_some();
    IN_ORDER.into_iter().filter(there).collect()
}

/// Lets waiters queue behind a guard, runs `end` with it, and checks who has the lock afterwards.
async fn hands_on(processes: &Processes<'_>, what: &str, end: impl AsyncFnOnce(LockGuard)) {
    let (world, turns, key) = (processes.world, Turns::default(), format!("item:{what}"));
    let guard = request(&world.pool, &key).acquire().await.unwrap();
    let mut tasks = wait_behind(world, &key, &turns);
    // With local hand-off, this process has no queue entry while it holds the lock.
    let no_entry = || world.hands_on;
    tasks.extend(processes.let_stranger_queue(&key, &turns, no_entry).await);
    end(guard).await;
    all_had_it(processes, &key, tasks, &turns, what).await;
    processes.assert_turns(&turns, &in_order(processes), what);
}

async fn a_guard_that_is_dropped_hands_on(world: &World) {
    let processes = Processes::of(world).await;
    let baseline = world.baseline().await;
    hands_on(&processes, "here", async |guard| drop(guard)).await;
    hands_on(&processes, "elsewhere", async |guard| {
        let elsewhere = std::thread::spawn(move || drop(guard));
        tokio::task::spawn_blocking(|| elsewhere.join().unwrap())
            .await
            .unwrap();
    })
    .await;
    hands_on(&processes, "aborted", async |guard| {
        let release = tokio::spawn(guard.release());
        release.abort();
        drop(release.await);
    })
    .await;
    world.is_back_at(&baseline).await;
    processes.assert_rows();
}

async fn a_release_hands_on_wherever_it_is_dropped(world: &World) {
    let processes = Processes::of(world).await;
    let baseline = world.baseline().await;
    for when in [When::AtOnce, When::Woken] {
        for polls in 0..20 {
            let mut ended = false;
            hands_on(&processes, &format!("{when:?}-{polls}"), async |guard| {
                let cut = Cut { polls, when };
                ended = dropped_at(cut, guard.release()).await.is_some();
            })
            .await;
            world.is_back_at(&baseline).await;
            if ended {
                break;
            }
        }
    }
    processes.assert_rows();
}

/// A body that others queue behind, and which ends when they have queued.
async fn a_call_hands_on(
    processes: &Processes<'_>,
    cut: Cut,
    release: Release,
    panics: bool,
) -> bool {
    let (world, turns) = (processes.world, Turns::default());
    let key = format!("item:{release:?}-{panics}-{:?}-{}", cut.when, cut.polls);
    let (tasks, go) = (Cell::new(Vec::new()), Notify::new());
    let (has_lock, begun) = (Cell::new(false), Notify::new());
    let gone = Cell::new(false);
    let body = async |_: &LockGuard| {
        has_lock.set(true);
        go.notified().await;
        if panics {
            // Without the panic hook: its backtrace can take longer than a hand-off may last.
            std::panic::resume_unwind(Box::new("as it should"));
        }
    };
    // The others start when the body has begun, but outside it: inside, they would wait for
    // themselves.
    let call = async {
        let mut call = Box::pin(request(&world.pool, &key).release(release).run(body));
        let begins = poll_fn(|cx| {
            let polled = call.as_mut().poll(cx);
            if has_lock.take() {
                tasks.set(wait_behind(world, &key, &turns));
                begun.notify_one();
            }
            polled
        });
        begins.await
    };
    let call = async {
        let ended = dropped_at(cut, AssertUnwindSafe(call).catch_unwind()).await;
        gone.set(true);
        begun.notify_one();
        ended
    };
    let others = async {
        begun.notified().await;
        if gone.get() {
            return None; // a waiter that came now might be first
        }
        let no_entry = || gone.get() || world.hands_on;
        let queue = processes.let_stranger_queue(&key, &turns, no_entry);
        let stranger = queue.await;
        let all_were_there = !gone.get();
        go.notify_one();
        Some((stranger, all_were_there))
    };
    let (ended, others) = tokio::join!(call, others);
    let (stranger, all_were_there) = others.unwrap_or((None, false));
    let mut tasks = tasks.take();
    let had_body = !tasks.is_empty();
    tasks.extend(stranger);
    all_had_it(processes, &key, tasks, &turns, &key).await;
    if all_were_there {
        processes.assert_turns(&turns, &in_order(processes), &key);
    } else if had_body {
        let locals = turns
            .so_far()
            .into_iter()
            .filter(|turn| *turn != Turn::Stranger);
        assert_eq!(
            locals.collect::<Vec<_>>(),
            [IN_ORDER[0], IN_ORDER[2]],
            "{key}"
        );
    }
    if let Some(ended) = ended {
        assert_eq!(ended.is_err(), panics, "{key}");
        return true;
    }
    false
}

async fn a_call_hands_on_wherever_it_is_dropped(world: &World) {
    let processes = Processes::of(world).await;
    let baseline = world.baseline().await;
    for release in [Release::Confirmed, Release::Background] {
        for when in [When::AtOnce, When::Woken] {
            for polls in 0..20 {
                let cut = Cut { polls, when };
                let ended = a_call_hands_on(&processes, cut, release, false).await;
                world.is_back_at(&baseline).await;
                if ended {
                    break;
                }
            }
        }
    }
    processes.assert_rows();
    if let Some(server) = &world.server {
        no_queue_is_left(server).await;
    }
}

async fn a_body_that_panics_hands_on(world: &World) {
    let processes = Processes::of(world).await;
    let baseline = world.baseline().await;
    let never = Cut {
        polls: usize::MAX,
        when: When::AtOnce,
    };
    for release in [Release::Confirmed, Release::Background] {
        assert!(a_call_hands_on(&processes, never, release, true).await);
        world.is_back_at(&baseline).await;
    }
}

everywhere!(
    a_guard_that_is_dropped_hands_on,
    a_release_hands_on_wherever_it_is_dropped,
    a_call_hands_on_wherever_it_is_dropped,
    a_body_that_panics_hands_on,
);
