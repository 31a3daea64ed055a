//! A job that runs once per period: what counts as a run, who is told that it is not due, and what
//! stays of a run that did not succeed.

use std::cell::Cell;
use std::time::Duration;

use dlock_harness::RedisServer;
use dlock_harness::polls::at_every_poll;
use dlock_runtime::{AfterCrash, Eviction, LockError, LockGuard, LockPool, LockRequest, Released};

use crate::backends::{LONG, ms, patient, running, settled, soon, soon_free};
use crate::log::Log;

on_every_backend!(
    one_server: what_succeeded_is_not_run_again,
    what_did_not_succeed_is_run_again,
    of_those_who_wait_one_runs,
    the_next_in_the_queue_runs_what_failed,
    others_of_the_key_are_granted_as_ever,
    the_period_is_that_of_the_caller,
    at_most_once_is_recorded_before_its_body,
    who_waits_for_a_run_runs_what_failed,
    a_record_is_cleared,
    a_run_whose_lock_was_taken_away_is_not_recorded,
    its_key_may_be_kept_too,
    a_dropped_call_leaves_nothing,
    the_period_counts_from_the_start,
);

const HOUR: Duration = Duration::from_secs(3600);

fn job(pool: &LockPool) -> LockRequest {
    pool.lock("job").ttl(LONG).wait(LONG).once_per(HOUR)
}

/// Whether the job ran.
async fn runs(request: LockRequest) -> bool {
    match request.run_once_per(async |_| Ok::<_, &str>(())).await {
        Err(LockError::NotDue { .. }) => false,
        ran => {
            ran.unwrap().unwrap();
            true
        }
    }
}

async fn is_recorded(pool: &LockPool) -> bool {
    pool.admin().record("job").await.unwrap().is_some()
}

/// Drops a call that hangs as soon as this has ended.
async fn dropped_once<T>(then: impl Future<Output = ()>, hangs: impl Future<Output = T>) {
    tokio::select! {
        biased;
        _ = hangs => panic!("it hangs"),
        () = then => {}
    }
}

async fn what_succeeded_is_not_run_again(pool: LockPool) {
    assert!(runs(job(&pool).function("mails::nightly")).await);
    let error = job(&pool).acquire().await.map(drop).unwrap_err();
    assert!(error.is_not_due() && !error.is_busy(), "{error:?}");
    assert_eq!(error.http_status(), 409);
    assert!(error.retry_after().unwrap() + LONG > HOUR, "{error:?}");
    let LockError::NotDue { last_run, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(last_run.function(), "mails::nightly");
    assert_eq!(last_run.pid(), std::process::id());
    assert_eq!(last_run.period(), Some(HOUR));
    assert!(last_run.due_in() <= HOUR && last_run.started() <= last_run.ended());
    assert!(error.to_string().contains("may run again in"), "{error}");
    assert!(job(&pool).try_acquire().await.unwrap().is_none());
    let told = pool.admin().record("job").await.unwrap().unwrap();
    assert_eq!(told.fence(), last_run.fence());

    let guard = pool.lock("by hand").ttl(LONG).once_per(HOUR).acquire();
    assert_eq!(
        guard.await.unwrap().release_done().await.unwrap(),
        Released::Freed
    );
    let again = pool.lock("by hand").once_per(HOUR).acquire().await;
    assert!(again.unwrap_err().is_not_due());
}

async fn what_did_not_succeed_is_run_again(pool: LockPool) {
    let failed = job(&pool)
        .run_once_per(async |_| Err::<(), _>("no mail"))
        .await;
    assert_eq!(failed.unwrap(), Err("no mail"));
    let hangs = job(&pool).run_once_per(async |_: &LockGuard| {
        std::future::pending::<()>().await;
        Ok::<_, &str>(())
    });
    dropped_once(running(&pool, 1), hangs).await;
    let panics = async |_: &LockGuard| -> Result<(), &str> { panic!("on purpose") };
    let panicked = tokio::spawn(job(&pool).run_once_per(panics)).await;
    assert!(panicked.unwrap_err().is_panic());
    job(&pool).acquire().await.unwrap().release().await.unwrap();
    drop(job(&pool).acquire().await.unwrap());
    soon_free(&pool, "job").await;
    assert!(!is_recorded(&pool).await);
    assert!(runs(job(&pool)).await);
}

/// Of this process, whose waiters for other exclusive locks get them from one another. Each is told in
/// its turn.
async fn of_those_who_wait_one_runs(pool: LockPool) {
    let held = job(&pool).acquire().await.unwrap();
    let mut waiting: Vec<_> = (0..5).map(|_| tokio::spawn(runs(job(&pool)))).collect();
    let other = pool.lock("job").ttl(LONG).wait(LONG);
    let other = tokio::spawn(other.run(async |_| ()));
    waiting.extend((0..15).map(|_| tokio::spawn(runs(job(&pool)))));
    soon("all wait", async || pool.status().unwrap().waiting == 21).await;
    settled(&pool).await;
    held.release_done().await.unwrap();
    for it in waiting {
        assert!(!it.await.unwrap());
    }
    other.await.unwrap().unwrap();
}

async fn the_next_in_the_queue_runs_what_failed(pool: LockPool) {
    let held = job(&pool).acquire().await.unwrap();
    let waiting: Vec<_> = (0..5).map(|_| tokio::spawn(runs(job(&pool)))).collect();
    soon("all wait", async || pool.status().unwrap().waiting == 5).await;
    settled(&pool).await;
    held.release().await.unwrap();
    let mut ran = 0;
    for it in waiting {
        ran += u32::from(it.await.unwrap());
    }
    assert_eq!(ran, 1);
    assert!(pool.admin().clear_record("job").await.unwrap());
    for after_crash in [AfterCrash::Again, AfterCrash::Skip] {
        let held = job(&pool).acquire().await.unwrap();
        let runs = Cell::new(0);
        let run = async || {
            let request = job(&pool).after_crash(after_crash);
            let ran = request.run_once_per(async |lock| {
                runs.set(runs.get() + 1);
                // The first of them fails, although it was granted the lock out of the queue.
                if runs.get() == 1 {
                    Err(())
                } else {
                    Ok(lock.fence())
                }
            });
            ran.await.unwrap()
        };
        let releases = async {
            soon("both wait", async || pool.status().unwrap().waiting == 2).await;
            settled(&pool).await;
            held.release().await.unwrap();
        };
        let (first, second, ()) = tokio::join!(run(), run(), releases);
        let fence = first.or(second).expect("the second run");
        assert_eq!(
            (first.is_ok(), second.is_ok()),
            (second.is_err(), first.is_err())
        );
        let record = pool.admin().record("job").await.unwrap().unwrap();
        assert_eq!(record.fence(), Some(fence), "{after_crash:?}");
        assert!(pool.admin().clear_record("job").await.unwrap());
    }
}

async fn others_of_the_key_are_granted_as_ever(pool: LockPool) {
    assert!(runs(job(&pool)).await);
    for _ in 0..2 {
        pool.lock("job").run(async |_| ()).await.unwrap();
    }
    assert!(!runs(job(&pool)).await);
}

async fn the_period_is_that_of_the_caller(pool: LockPool) {
    assert!(runs(job(&pool)).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(runs(job(&pool).once_per(Duration::from_secs(1))).await);
    assert!(!runs(job(&pool).once_per(Duration::from_secs(1)).wait(LONG)).await);
}

async fn at_most_once_is_recorded_before_its_body(pool: LockPool) {
    let job = || job(&pool).after_crash(AfterCrash::Skip);
    let failed = job().run_once_per(async |_| {
        let run = pool.admin().record("job").await.unwrap().unwrap();
        assert_eq!(run.ended(), None);
        Err::<(), _>("no mail")
    });
    assert_eq!(failed.await.unwrap(), Err("no mail"));
    assert!(!is_recorded(&pool).await, "a failure takes it back");
    let hangs = job().run_once_per(async |_: &LockGuard| {
        std::future::pending::<()>().await;
        Ok::<_, &str>(())
    });
    let is_noted = soon("it is recorded", async || is_recorded(&pool).await);
    dropped_once(is_noted, hangs).await;
    soon_free(&pool, "job").await;
    assert!(!runs(job()).await, "as after a crash");
    assert!(pool.admin().clear_record("job").await.unwrap());
    assert!(runs(job()).await);
    let run = pool.admin().record("job").await.unwrap().unwrap();
    assert!(run.ended().is_some());
}

/// It came while the run was under way, whose record is taken back.
async fn who_waits_for_a_run_runs_what_failed(pool: LockPool) {
    for after_crash in [AfterCrash::Again, AfterCrash::Skip] {
        let job = || job(&pool).after_crash(after_crash);
        let failed = job().run_once_per(async |_| {
            let waits = tokio::spawn(runs(job()));
            soon("it waits", async || pool.status().unwrap().waiting == 1).await;
            settled(&pool).await;
            Err::<(), _>(waits)
        });
        let waits = failed.await.unwrap().unwrap_err();
        assert!(waits.await.unwrap());
        assert!(!runs(job()).await);
        assert!(pool.admin().clear_record("job").await.unwrap());
    }
}

async fn a_record_is_cleared(pool: LockPool) {
    let admin = pool.admin();
    assert!(!admin.clear_record("job").await.unwrap());
    assert!(runs(job(&pool)).await && !runs(job(&pool)).await);
    assert!(admin.clear_record("job").await.unwrap());
    assert!(!is_recorded(&pool).await);
    assert!(runs(job(&pool)).await);
}

async fn a_run_whose_lock_was_taken_away_is_not_recorded(pool: LockPool) {
    let held = job(&pool).acquire().await.unwrap();
    let admin = pool.admin();
    let holder = admin.show("job").await.unwrap().unwrap().holders()[0].fingerprint();
    let evicted = admin.evict("job", holder).await.unwrap();
    assert!(matches!(evicted, Eviction::Done(_)), "{evicted:?}");
    assert_eq!(held.release_done().await.unwrap(), Released::NotHeld);
    assert!(!is_recorded(&pool).await);
}

/// Whether the holder knows that when its run ends, or its release finds it.
#[tokio::test]
async fn a_run_that_can_not_be_recorded_is_logged() {
    let (log, _listening) = Log::listen();
    let pool = LockPool::connect("memory://").await.unwrap();
    let admin = pool.admin();
    for (after_crash, is_known, expected) in [
        (AfterCrash::Again, true, 1),
        (AfterCrash::Again, false, 1),
        (AfterCrash::Skip, true, 0), // it is recorded
        (AfterCrash::Skip, false, 0),
    ] {
        let held = job(&pool).after_crash(after_crash).acquire();
        let held = held.await.unwrap();
        let holder = admin.show("job").await.unwrap().unwrap().holders()[0].fingerprint();
        let evicted = admin.evict("job", holder).await.unwrap();
        assert!(matches!(evicted, Eviction::Done(_)), "{evicted:?}");
        if is_known {
            held.lost().await;
        }
        log.take("");
        assert_eq!(held.release_done().await.unwrap(), Released::NotHeld);
        let told = log.take("is not recorded");
        assert_eq!(told.len(), expected, "{after_crash:?} {is_known}: {told:?}");
        admin.clear_record("job").await.unwrap();
    }
    let joined = job(&pool).run_once_per(async |_| {
        let inner = pool.lock("job").reentrant().run(async |_| ()).await;
        inner.map_err(|it| it.to_string())
    });
    assert_eq!(joined.await.unwrap(), Ok(()));
    assert_eq!(log.take("is not recorded"), [""; 0]);
}

/// As after the server's clock was set back.
#[tokio::test]
async fn a_failure_is_taken_back_where_fences_are_far_ahead() {
    let server = RedisServer::start();
    let (seconds, _): (u64, u64) = server.ask(&["TIME"]).await;
    let ahead = (seconds + 7200) * 1_000_000;
    for config in [
        patient(server.url()),
        patient(server.url()).without_scripts(),
    ] {
        let pool = LockPool::connect(config).await.unwrap();
        let job = || job(&pool).after_crash(AfterCrash::Skip);
        (server.cmd(&["SET", "lock:@fence", &ahead.to_string()])).await;
        let failed = job().run_once_per(async |_| Err::<(), _>("no mail")).await;
        assert_eq!(failed.unwrap(), Err("no mail"));
        assert!(!is_recorded(&pool).await);
        assert!(runs(job()).await && !runs(job()).await);
        assert!(pool.admin().clear_record("job").await.unwrap());
    }
}

async fn its_key_may_be_kept_too(pool: LockPool) {
    assert!(runs(job(&pool).min_hold(LONG)).await);
    assert!(pool.lock("job").try_acquire().await.unwrap().is_none());
    assert!(is_recorded(&pool).await);
    let kept = pool.admin().show("job").await.unwrap().unwrap();
    let evicted = pool
        .admin()
        .evict("job", kept.holders()[0].fingerprint())
        .await;
    assert!(matches!(evicted.unwrap(), Eviction::Done(_)));
}

async fn a_dropped_call_leaves_nothing(pool: LockPool) {
    at_every_poll(
        async |_| runs(job(&pool)).await,
        async |_, ran| {
            soon_free(&pool, "job").await;
            assert!(ran.is_none() || is_recorded(&pool).await);
            pool.admin().clear_record("job").await.unwrap();
        },
    )
    .await;
}

async fn the_period_counts_from_the_start(pool: LockPool) {
    let job = || job(&pool).once_per(Duration::from_secs(1));
    let begun = tokio::time::Instant::now();
    let long = job().run_once_per(async |_: &LockGuard| {
        tokio::time::sleep(ms(700)).await;
        Ok::<_, &str>(())
    });
    long.await.unwrap().unwrap();
    soon("it is due", async || runs(job()).await).await;
    let after = begun.elapsed();
    assert!(after >= ms(990), "{after:?}");
}

#[tokio::test]
async fn its_settings_are_checked_together() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let job = || job(&pool);
    let ran = async |request: LockRequest| {
        let error = request.acquire().await.map(drop).unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        error.to_string()
    };
    for (request, expected) in [
        (job().read(), "`read`"),
        (job().permits(2), "`permits`"),
        (job().reentrant(), "`reentrant`"),
        (job().once_per(ms(999)), "minimum of 1s"),
        (job().once_per(HOUR * 24 * 367), "maximum of 366d"),
        (pool.lock("job").after_crash(AfterCrash::Skip), "`once_per`"),
        (pool.lock_all(["a", "b"]).once_per(HOUR), "`keys`"),
    ] {
        let said = ran(request).await;
        assert!(said.contains(expected), "{said}");
    }
    for error in [
        job().run(async |_| ()).await.unwrap_err(),
        pool.lock("job")
            .run_once_per(async |_| Ok::<_, ()>(()))
            .await
            .unwrap_err(),
        pool.lock("job")
            .acquire()
            .await
            .unwrap()
            .release_done()
            .await
            .unwrap_err(),
    ] {
        assert!(error.to_string().contains("once_per"), "{error}");
    }
}
