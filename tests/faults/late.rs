//! An acquire that reaches the server late: held back on its way, or waiting in the socket of a
//! stopped server.
//!
//! It carries `not_after`, the server time after which it creates nothing; if it is executed
//! earlier, the clean-up finds what it created.

use std::time::{Duration, Instant};

use dlock_harness::{Action, Monitor, until, wait};
use dlock_runtime::{LockError, LockPool, Wait};

use crate::lab::{CAP, COMMAND, ITEM, LONG, Lab, ON_SERVER, SLACK, SOON, acquires, sha};

/// A command timeout that leaves a test time to act.
const LEISURELY: Duration = Duration::from_millis(1500);

#[tokio::test]
async fn an_acquire_executed_after_its_last_moment_creates_nothing() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let monitor = lab.server.monitor();
    hold_and_give_up(&lab, &pool).await;
    // No event to wait for: the last moment has to pass, and every clean-up with it.
    wait::pause(COMMAND * 4).await;
    lab.proxy.release_held();
    executed(&monitor).await;
    assert_eq!(created(&monitor).await, 0);
    assert!(lab.locks().await.is_empty());
}

#[tokio::test]
async fn an_acquire_cut_off_and_executed_after_its_last_moment_creates_nothing() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let monitor = lab.server.monitor();
    hold_and_cut(&lab, &pool).await;
    wait::pause(COMMAND * 4).await;
    lab.proxy.release_held();
    executed(&monitor).await;
    assert_eq!(created(&monitor).await, 0);
    assert!(lab.locks().await.is_empty());
}

/// The first clean-up overtakes the acquire, on another connection, and finds nothing: that must
/// not end the clean-up.
#[tokio::test]
async fn an_acquire_that_its_clean_up_overtook_is_cleaned_up_after_all() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(LEISURELY)).await;
    let monitor = lab.server.monitor();
    hold_and_cut(&lab, &pool).await;
    monitor.wait_for(&sha("cancel"), CAP).await;
    lab.proxy.release_held();
    monitor.wait_for(&set(), CAP).await;
    lab.until_free().await;
}

#[tokio::test]
async fn an_acquire_whose_caller_has_gone_is_cleaned_up_right_behind_it() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let monitor = lab.server.monitor();
    let held = lab.proxy.on(acquires(), Action::Hold);
    let acquire = pool.lock(ITEM).ttl(LONG).acquire();
    tokio::select! {
        answer = acquire => panic!("it is held back: {answer:?}"),
        () = held.seen() => {}
    }
    lab.proxy.release_held(); // long before its last moment
    monitor.wait_for(&set(), CAP).await;
    lab.until_free().await;
}

/// One connection goes silent: what is sent there is lost for now, and other connections work.
#[tokio::test]
async fn a_connection_that_went_silent_is_replaced_and_the_wait_goes_on() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let _silent = lab.proxy.on(acquires(), Action::Hold);
    let (begun, connections) = (Instant::now(), lab.proxy.accepted());
    let guard = pool.lock(ITEM).ttl(LONG).wait(CAP).acquire().await.unwrap();
    let took = begun.elapsed();
    // Two timeouts detect it; a machine that stalls for a second may cost one more attempt.
    assert!(took < wait::scaled(SOON), "got it after {took:?}");
    assert!(lab.proxy.accepted() > connections, "over a new connection");
    lab.proxy.release_held(); // the swallowed acquires and clean-ups arrive
    lab.stays(&guard).await;
    drop(guard);
    lab.until_free().await;
}

#[tokio::test]
async fn nothing_stays_of_an_acquire_sent_to_a_stopped_server() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let monitor = lab.server.monitor();
    lab.server.stop_signal();
    let begun = Instant::now();
    give_up(&pool).await;
    assert!(begun.elapsed() < wait::scaled(COMMAND + SLACK));
    lab.server.cont();
    executed(&monitor).await;
    lab.until_free().await;
}

#[tokio::test]
async fn a_stopped_server_that_goes_on_in_time_is_cleaned_up() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let monitor = lab.server.monitor();
    let sent = lab.proxy.on(acquires(), Action::Signal);
    lab.server.stop_signal();
    tokio::select! {
        answer = pool.lock(ITEM).ttl(LONG).acquire() => panic!("the server is stopped: {answer:?}"),
        () = sent.seen() => {}
    }
    lab.server.cont();
    executed(&monitor).await;
    lab.until_free().await;
}

/// Holds the next acquire back; its caller gets no answer and gives up.
async fn hold_and_give_up(lab: &Lab, pool: &LockPool) {
    let held = lab.proxy.on(acquires(), Action::Hold);
    give_up(pool).await;
    held.seen().await;
}

/// The same, but the connection is cut before its end: no clean-up can follow on it.
async fn hold_and_cut(lab: &Lab, pool: &LockPool) {
    let held = lab.proxy.on(acquires(), Action::Hold);
    let cut = async {
        held.seen().await;
        lab.proxy.cut_all();
    };
    tokio::join!(give_up(pool), cut);
}

async fn give_up(pool: &LockPool) {
    let answer = pool.lock(ITEM).ttl(LONG).wait(Wait::Once).acquire().await;
    assert!(
        matches!(answer, Err(LockError::Unavailable { .. })),
        "{answer:?}"
    );
}

/// Waits until an acquire of the item was executed.
async fn executed(monitor: &Monitor) {
    let acquire = sha("acquire");
    let of_item = |line: &String| line.contains(&acquire) && line.contains(ON_SERVER);
    until("the acquire was executed", SOON, async || {
        monitor.lines().iter().any(of_item)
    })
    .await;
}

/// How often the item's key was set.
async fn created(monitor: &Monitor) -> usize {
    let lines = monitor.settled().await;
    lines.iter().filter(|line| line.contains(&set())).count()
}

/// The creation of the item's key, as `MONITOR` shows it.
fn set() -> String {
    format!("\"SET\" \"{ON_SERVER}\"")
}
