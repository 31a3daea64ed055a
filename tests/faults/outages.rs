//! How long a call takes that can't reach the server: the wait and one command timeout; with a
//! single try, one command timeout.

use std::time::{Duration, Instant};

use dlock_harness::wait;
use dlock_runtime::{LockError, LockRequest, Wait};
use futures_util::future::join_all;

use crate::lab::{CAP, COMMAND, ITEM, LONG, Lab, SLACK};
use crate::outage::{Outage, tests_of};

const WAIT: Duration = Duration::from_millis(800);

/// Two are sent by themselves, the others in two commands.
const CALLERS: usize = 24;

tests_of! { check:
    a_black_hole BlackHole,
    a_black_hole_under_new_connections BlackHoleOfNewConnections,
    replies_that_are_lost Mute,
    requests_that_are_lost Deaf,
    a_wire_that_stalls Stalled,
    connections_that_are_refused Refused,
    a_server_that_is_dead ServerDead,
    a_server_that_is_stopped ServerStopped,
    a_slow_wire Slow,
}

async fn check(outage: Outage) {
    let lab = Lab::new();
    // Connecting may take as long as it likes, but a call may not wait for it.
    let pool = lab.pool_of(lab.config().connect_timeout(CAP)).await;
    outage.begins(&lab).await;
    for (wait, at_least) in [
        (Wait::Once, Duration::ZERO),
        (Wait::For(WAIT), WAIT),
        (Wait::Once, Duration::ZERO),
    ] {
        let begun = Instant::now();
        let answer = pool.lock(ITEM).ttl(LONG).wait(wait).acquire().await;
        let took = begun.elapsed();
        assert!(
            matches!(answer, Err(LockError::Unavailable { .. })),
            "{wait:?}: {answer:?}"
        );
        assert!(took >= at_least, "{wait:?} gave up after {took:?}");
        assert!(
            took < wait::scaled(at_least + COMMAND + SLACK),
            "{wait:?} took {took:?}"
        );
    }
}

#[tokio::test]
async fn an_outage_that_comes_during_the_wait() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let _held = direct.lock(ITEM).ttl(LONG).acquire().await.unwrap();
    let begun = Instant::now();
    let outage = async {
        wait::pause(WAIT / 2).await;
        lab.proxy.blackhole();
    };
    let (answer, ()) = tokio::join!(pool.lock(ITEM).wait(WAIT).acquire(), outage);
    let took = begun.elapsed();
    assert!(answer.is_err());
    assert!(
        took >= WAIT && took < wait::scaled(WAIT + COMMAND + SLACK),
        "took {took:?}"
    );
}

#[tokio::test]
async fn a_wait_outlives_an_outage_that_ends() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    lab.server.kill9();
    let outage = async {
        wait::pause(WAIT).await;
        lab.server.restart_empty();
    };
    let (answer, ()) = tokio::join!(pool.lock(ITEM).wait(Wait::Forever).acquire(), outage);
    answer.unwrap().release().await.unwrap();
}

/// The same commands carry callers with deadlines of their own.
#[tokio::test]
async fn each_ends_in_its_own_time_while_the_server_stands_still() {
    let (lab, timeout) = (Lab::new(), Duration::from_secs(2));
    let config = lab.config().command_timeout(timeout);
    let pool = lab.pool_of(config.connect_timeout(timeout)).await;
    let holders = (0..CALLERS).map(|it| pool.lock(format!("item:{it}")).ttl(LONG).wait(CAP));
    let guards = join_all(holders.map(LockRequest::acquire)).await;
    lab.server.stop_signal();
    let begun = Instant::now();
    let ends = |within: Duration, is_unavailable: bool| {
        let took = begun.elapsed();
        assert!(is_unavailable && took >= within * 9 / 10, "{took:?}");
        assert!(took < wait::scaled(within + SLACK), "{within:?}: {took:?}");
    };
    let releases = guards.into_iter().map(async |guard| {
        let released = guard.unwrap().release().await;
        ends(
            timeout,
            matches!(released, Err(LockError::Unavailable { .. })),
        );
    });
    let acquires = (0..CALLERS).map(async |it| {
        // An answer that comes after the lease is worth nothing.
        let ttl = if it % 2 == 0 { timeout / 8 } else { LONG };
        let request = pool.lock(format!("other:{it}")).ttl(ttl);
        let acquired = request.wait(Wait::Once).acquire().await;
        let is_unavailable = matches!(acquired, Err(LockError::Unavailable { .. }));
        ends(ttl.min(timeout), is_unavailable);
    });
    tokio::join!(join_all(releases), join_all(acquires));
    lab.server.cont();
    lab.until_free().await;
}
