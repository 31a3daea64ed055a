//! A connection that breaks at a command for many callers: each cleans up after its own token, and
//! nothing stays.

use std::time::{Duration, Instant};

use dlock_harness::{Action, wait};
use dlock_runtime::{LockError, LockGuard, LockPool, Released, Wait};
use futures_util::future::join_all;

use crate::lab::{CAP, LONG, Lab, SLACK, SOON, requests};

/// Two are sent by themselves, the others in two commands.
const CALLERS: usize = 24;

const CUTS: [Action; 10] = [
    Action::CutBefore,
    Action::CutInside(0),
    Action::CutInside(200),
    Action::CutInside(2_000),
    Action::CutInside(100_000), // all of it
    Action::CutAfter,
    Action::CutReply(0),
    Action::CutReply(1),
    Action::CutReply(30),
    Action::CutReply(40), // all but its last bytes
];

/// A cut is noticed at once, so nothing here has to time out.
async fn patient(lab: &Lab) -> LockPool {
    let config = lab.config().command_timeout(CAP / 2);
    lab.pool_of(config.connect_timeout(CAP / 2)).await
}

async fn acquire_all(pool: &LockPool, wait: Wait) -> Vec<Result<LockGuard, LockError>> {
    let request = |it| pool.lock(format!("item:{it}")).ttl(LONG).wait(wait);
    join_all((0..CALLERS).map(|it| request(it).acquire())).await
}

/// The callers give up at the cut.
#[tokio::test]
async fn nothing_stays_of_acquires_that_were_cut_together() {
    let lab = Lab::new();
    let pool = patient(&lab).await;
    for cut in CUTS {
        pool.ping().await.unwrap(); // it is connected again
        let cutting = lab.proxy.on(requests("combined"), cut);
        let outcomes = acquire_all(&pool, Wait::Once).await;
        cutting.seen().await;
        let failed = outcomes.iter().filter(|it| it.is_err()).count();
        assert!(failed >= CALLERS - 2, "{cut:?}: {outcomes:?}");
        for outcome in outcomes {
            match outcome {
                Ok(guard) => drop(guard),
                Err(LockError::Unavailable { .. }) => {}
                Err(other) => panic!("{cut:?}: {other:?}"),
            }
        }
        lab.until_free().await;
        lab.proxy.clear_triggers();
    }
}

/// The callers wait on, and each gets its lock; no clean-up takes it away.
#[tokio::test]
async fn acquires_that_were_cut_together_go_on_with_fresh_tokens() {
    let lab = Lab::new();
    let pool = patient(&lab).await;
    for cut in CUTS {
        let cutting = lab.proxy.on(requests("combined"), cut);
        let begun = Instant::now();
        let guards: Vec<_> = acquire_all(&pool, Wait::For(CAP)).await;
        let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
        assert!(begun.elapsed() < wait::scaled(SOON), "{cut:?}");
        cutting.seen().await;
        lab.stays(&guards[CALLERS - 1]).await;
        for guard in &guards {
            guard.verify().await.unwrap();
        }
        drop(guards);
        lab.until_free().await;
        lab.proxy.clear_triggers();
    }
}

#[tokio::test]
async fn releases_that_were_cut_together_are_finished_by_others() {
    let lab = Lab::new();
    let pool = patient(&lab).await;
    for cut in CUTS {
        let guards = acquire_all(&pool, Wait::For(CAP)).await;
        let cutting = lab.proxy.on(requests("combined"), cut);
        let releases = guards.into_iter().map(|it| it.unwrap().release());
        for released in join_all(releases).await {
            let is_told = matches!(
                released,
                Ok(Released::Freed | Released::NotHeld) | Err(LockError::Unavailable { .. })
            );
            assert!(is_told, "{cut:?}: {released:?}");
        }
        cutting.seen().await;
        lab.until_free().await;
        lab.proxy.clear_triggers();
    }
}

/// The same commands carry callers with deadlines of their own.
#[tokio::test]
async fn each_ends_in_its_own_time_while_the_server_stands_still() {
    let (lab, timeout) = (Lab::new(), Duration::from_secs(2));
    let config = lab.config().command_timeout(timeout);
    let pool = lab.pool_of(config.connect_timeout(timeout)).await;
    let guards = acquire_all(&pool, Wait::For(CAP)).await;
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

/// The server has forgotten its scripts: both commands are sent again by text, and the first is cut
/// then.
#[tokio::test]
async fn nothing_stays_of_a_batch_that_was_sent_by_text() {
    for cut in [Action::CutBefore, Action::CutAfter, Action::CutReply(30)] {
        let lab = Lab::new();
        let pool = patient(&lab).await;
        lab.server.cmd(&["SCRIPT", "FLUSH"]).await;
        let cutting = lab.proxy.on(requests("combined").nth(3), cut);
        for outcome in acquire_all(&pool, Wait::Once).await {
            drop(outcome);
        }
        cutting.seen().await;
        lab.until_free().await;
    }
}
