//! Whether the end of a body waits for the answer to its release, and what it leaves if it does
//! not.

use dlock_harness::wait::within;
use dlock_harness::{Proxy, RedisServer, until};
use dlock_runtime::{LockError, LockPool, LostCause, Release, Released, distributed_lock};

use dlock_tests::of_kind;

use crate::backends::{LONG, ms, nothing_left, patient, settled};

on_every_backend!(
    a_release_in_the_background_grants_to_who_waits,
    a_skipped_function_does_nothing_while_others_hold_its_lock,
    a_skipped_function_that_waits_gets_its_turn,
    a_strict_release_that_finds_nothing_is_a_loss;
    seconds:
    a_strict_lock_goes_to_the_next_waiter_by_the_server;
    scripts:
    after_a_release_in_the_background_the_next_acquire_succeeds,
    a_strict_release_that_finds_the_lock_changes_nothing,
);

#[distributed_lock(key = "k", ttl = "60s", on_lost = "finish", release = "strict")]
async fn strict() -> Result<u64, LockError> {
    Ok(7)
}

#[distributed_lock(
    key = "k",
    ttl = "150ms",
    wait = "60s",
    on_lost = "finish",
    release = "strict"
)]
async fn strict_and_late() -> Result<u64, LockError> {
    tokio::time::sleep(ms(400)).await;
    Ok(7)
}

#[distributed_lock(key = "k", ttl = "60s", release = "background")]
async fn sent_off() -> Result<u64, LockError> {
    Ok(7)
}

#[distributed_lock(key = "k", ttl = "60s", on_busy = "skip")]
async fn skipped() -> Result<Option<u64>, LockError> {
    Ok(Some(7))
}

#[distributed_lock(key = "k", ttl = "60s", on_busy = "skip", wait = "60s")]
async fn patient_skipped() -> Result<Option<u64>, LockError> {
    Ok(Some(7))
}

/// In the same task: its commands use one connection, in order.
async fn after_a_release_in_the_background_the_next_acquire_succeeds(pool: LockPool) {
    for _ in 0..20 {
        assert_eq!(pool.scope(sent_off()).await.unwrap(), 7);
        let request = pool.lock("k").ttl(LONG).release(Release::Background);
        let fence = request.run(async |lock| lock.fence()).await.unwrap();
        let next = pool.lock("k").try_acquire().await.unwrap();
        let next = next.expect("the release was sent first");
        assert!(next.fence() > fence);
        assert_eq!(next.release().await.unwrap(), Released::Freed);
    }
    // The same for a body that fails, and for one that is lost.
    let request = || pool.lock("k").release(Release::Background);
    let failed = request().run(async |_| Err::<(), _>("no")).await;
    assert_eq!(failed.unwrap(), Err("no"));
    let lost = request().ttl(ms(300)).wait(LONG).run(async |_| {
        tokio::time::sleep(LONG).await;
    });
    assert!(lost.await.unwrap_err().is_lost());
    assert!(pool.lock("k").wait(LONG).acquire().await.unwrap().is_held());
}

async fn a_release_in_the_background_grants_to_who_waits(pool: LockPool) {
    let request = pool.lock("k").ttl(LONG).release(Release::Background);
    let (inner, begun) = (&pool, tokio::time::Instant::now());
    let mut waiter = None;
    let ran = request.run(async |_| {
        let next = inner.lock("k").ttl(LONG).wait(LONG).acquire();
        waiter = Some(tokio::spawn(next));
        settled(inner).await;
    });
    ran.await.unwrap();
    let next = waiter.unwrap().await.unwrap().unwrap();
    assert!(next.is_held());
    assert!(begun.elapsed() < LONG / 3, "{:?}", begun.elapsed());
}

async fn a_skipped_function_does_nothing_while_others_hold_its_lock(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(pool.scope(skipped()).await.unwrap(), None);
    assert!(begun.elapsed() < ms(2_500), "it tries once, for no 3 s");
    held.verify().await.unwrap();
    // Nor does it pass the waiters.
    let waiter = tokio::spawn(pool.lock("k").ttl(LONG).wait(LONG).acquire());
    // Waits until the waiter has asked the server. For its first 10 ms it waits for a local
    // hand-off, and if the machine stalls at the end of these, a lock of `memory://` is free for a
    // moment.
    tokio::time::sleep(ms(30)).await;
    settled(&pool).await;
    held.release().await.unwrap();
    assert_eq!(pool.scope(skipped()).await.unwrap(), None);
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(pool.scope(skipped()).await.unwrap(), None);
    next.release().await.unwrap();
    assert_eq!(pool.scope(skipped()).await.unwrap(), Some(7));
}

async fn a_skipped_function_that_waits_gets_its_turn(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(pool.scope(patient_skipped()));
    settled(&pool).await;
    assert!(!waiter.is_finished());
    held.release().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap(), Some(7));
}

/// A pool behind a proxy, which waits for answers longer than any test. From `stall_replies` on,
/// the proxy keeps them back. The server already knows the scripts; otherwise the first call of
/// each would need an answer before it runs.
async fn behind(proxy: &Proxy) -> LockPool {
    let config = patient(proxy.url()).command_timeout(LONG);
    let pool = LockPool::connect(config.release(Release::Background));
    let pool = pool.await.unwrap();
    let held = pool.lock("k").acquire().await.unwrap();
    held.release().await.unwrap();
    pool
}

const MOMENT: std::time::Duration = ms(300);

#[tokio::test]
async fn only_a_release_in_the_background_does_not_wait_for_its_answer() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = behind(&proxy).await;
    let run = |release| {
        let request = pool.lock("k").ttl(LONG).release(release);
        request.run(async |_| proxy.stall_replies())
    };
    let ran = run(Release::Background);
    within(LONG / 3, ran)
        .await
        .expect("it does not wait")
        .unwrap();
    until("the release is executed", LONG, async || {
        server.pttl("lock:k").await == -2
    })
    .await;
    proxy.pass();

    let mut waits = Box::pin(run(Release::Confirmed));
    let early = within(MOMENT, &mut waits).await;
    assert!(early.is_none(), "it waits, whatever the pool's default is");
    proxy.pass();
    waits.await.unwrap();

    // An explicit release waits, even if the pool's default is another; a body without a setting
    // uses the pool's default.
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    proxy.stall_replies();
    let mut waits = Box::pin(held.release());
    assert!(within(MOMENT, &mut waits).await.is_none());
    proxy.pass();
    assert_eq!(waits.await.unwrap(), Released::Freed);
    let request = pool.lock("k").ttl(LONG);
    let ran = request.run(async |_| proxy.stall_replies());
    within(LONG / 3, ran).await.expect("the default").unwrap();
    proxy.pass();
    nothing_left(&server).await;
}

/// Deletions, by whichever commands the server has.
async fn deletions(server: &RedisServer) -> u64 {
    let mut sum = 0;
    for command in ["del", "delex", "delifeq"] {
        sum += server.commandstats(command).await;
    }
    sum
}

/// The answer to the release is still on its way when the same task asks again: the new command is
/// queued behind it, and answered in order.
#[tokio::test]
async fn an_answer_that_is_late_takes_nothing_from_the_next_holder() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = behind(&proxy).await;
    let before = deletions(&server).await;
    let request = pool.lock("k").ttl(LONG);
    request.run(async |_| proxy.stall_replies()).await.unwrap();
    let again = tokio::spawn(pool.lock("k").ttl(LONG).acquire());
    until("the next acquire is executed", LONG, async || {
        server.pttl("lock:k").await > 0 && deletions(&server).await == before + 1
    })
    .await;
    proxy.pass();
    let held = again.await.unwrap().unwrap();
    settled(&pool).await;
    held.verify().await.unwrap();
    drop(held);
    nothing_left(&server).await;
}

async fn a_strict_release_that_finds_the_lock_changes_nothing(pool: LockPool) {
    assert_eq!(pool.scope(strict()).await.unwrap(), 7);
    for kind in ["x", "fair", "r", "w", "p:2/3", "o:a"] {
        let request = || {
            of_kind(pool.lock("k"), kind)
                .ttl(LONG)
                .release(Release::Strict)
        };
        assert_eq!(request().run(async |_| 7).await.unwrap(), 7, "{kind}");
        let held = request().acquire().await.unwrap();
        assert_eq!(held.release().await.unwrap(), Released::Freed, "{kind}");
    }
    let both = pool.lock_all(["a", "b"]).release(Release::Strict);
    assert_eq!(both.run(async |_| 7).await.unwrap(), 7);
    // Nested: the inner one only counts.
    let outer = pool.lock("k").reentrant().release(Release::Strict);
    let inner = || pool.lock("k").reentrant().release(Release::Strict);
    let nested = outer.run(async |_| inner().run(async |_| 7).await);
    assert_eq!(nested.await.unwrap().unwrap(), 7);
    assert!(pool.holder("k").await.unwrap().is_none());
}

async fn a_strict_release_that_finds_nothing_is_a_loss(pool: LockPool) {
    let error = pool.scope(strict_and_late()).await.unwrap_err();
    assert!(is_lost_at_its_end(&error, LostCause::Deadline), "{error:?}");
    assert!(error.to_string().contains("the value of its body"));
    let short = |key| pool.lock(key).ttl(ms(150)).wait(LONG);
    let held = short("k").release(Release::Strict).acquire().await.unwrap();
    let lenient = short("other").acquire().await.unwrap();
    tokio::time::sleep(ms(400)).await;
    let error = held.release().await.unwrap_err();
    assert!(is_lost_at_its_end(&error, LostCause::Deadline), "{error:?}");
    assert_eq!(lenient.release().await.unwrap(), Released::NotHeld);
}

/// With a local hand-off, the server would not have been asked.
async fn a_strict_lock_goes_to_the_next_waiter_by_the_server(pool: LockPool) {
    let request = || pool.lock("k").ttl(LONG).wait(LONG).release(Release::Strict);
    let held = request().acquire().await.unwrap();
    let waiter = tokio::spawn(request().acquire());
    settled(&pool).await;
    held.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(next.fence().get() % 1024, 0, "the first of a grant");
    next.release().await.unwrap();
}

fn is_lost_at_its_end(error: &LockError, why: LostCause) -> bool {
    matches!(error, LockError::Lost { cause, finished: true, .. } if *cause == why)
}
