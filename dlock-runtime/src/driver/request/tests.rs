//! What a request sets, and what it leaves to the pool, ends up in the spec; everything that can't
//! work is in one error.

use std::sync::Arc;
use std::time::Duration;

use super::LockRequest;
use crate::client::spec::AcquireSpec;
use crate::values::bounds::Bounds;
use crate::values::config::Config;
use crate::values::error::LockError;
use crate::values::release::Release;
use crate::{LockPool, Wait};

const S: Duration = Duration::from_secs(1);

async fn spec(config: Config, set: impl FnOnce(LockRequest) -> LockRequest) -> Arc<AcquireSpec> {
    let pool = LockPool::connect(config).await.unwrap();
    let (_, spec) = set(pool.lock("k")).spec().unwrap();
    spec
}

fn memory() -> Config {
    Config::new("memory://")
}

#[tokio::test]
async fn without_a_word_there_are_no_bounds_and_the_pool_decides() {
    let built_in = spec(memory(), |request| request).await;
    assert_eq!(built_in.terms.bounds, Bounds::default());
    assert_eq!(built_in.release, Release::Confirmed);
    let config = memory()
        .release(Release::Background)
        .default_wait(Wait::Forever)
        .default_ttl(10 * S);
    let pools = spec(config, |request| request).await;
    assert_eq!(
        (pools.release, pools.wait, pools.terms.ttl.get()),
        (Release::Background, Wait::Forever, 10 * S)
    );
}

#[tokio::test]
async fn the_request_comes_before_the_pool() {
    let config = memory().release(Release::Background);
    let spec = spec(config, |request| {
        request
            .ttl(10 * S)
            .renew()
            .max_hold(60 * S)
            .max_renewals(4)
            .min_hold(20 * S)
            .release(Release::Confirmed)
    })
    .await;
    let bounds = Bounds {
        once_per: None,
        max_hold: Some(60 * S),
        max_renewals: Some(4),
        min_hold: Some(20 * S),
    };
    assert_eq!(
        (spec.terms.bounds, spec.release),
        (bounds, Release::Confirmed)
    );
    assert_eq!(spec.terms.renew, Some(10 * S / 3));
}

#[tokio::test]
async fn everything_that_is_wrong_is_in_one_error() {
    let pool = LockPool::connect(memory()).await.unwrap();
    let request = pool.lock("k").ttl(10 * S).renew_every(5 * S);
    let request = request.max_hold(S).max_renewals(0).min_hold(2 * S);
    let LockError::Config { why: said, .. } = request.spec().unwrap_err() else {
        panic!("another kind of error");
    };
    let said = said.to_string();
    let parts: Vec<_> = said.split("; ").collect();
    let begin = [
        "renewal interval 5s",
        "max_hold 1s",
        "max_renewals 0",
        "min_hold 2s",
    ];
    assert_eq!(parts.len(), begin.len(), "{said}");
    for (part, begin) in parts.iter().zip(begin) {
        assert!(part.starts_with(begin), "{said}");
    }
}

/// The compiler could not know the pool's ttl.
#[tokio::test]
async fn the_bounds_are_compared_with_the_pools_ttl() {
    let pool = LockPool::connect(memory().default_ttl(10 * S))
        .await
        .unwrap();
    let refused = |request: LockRequest| request.spec().unwrap_err().to_string();
    let said = refused(pool.lock("k").min_hold(11 * S));
    assert!(said.contains("longer than the ttl 10s"), "{said}");
    let said = refused(pool.lock("k").renew().max_hold(9 * S));
    assert!(said.contains("shorter than a ttl of 10s"), "{said}");
    assert!(pool.lock("k").renew().min_hold(11 * S).spec().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_loss_knows_whether_the_lease_was_renewed() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let request = || pool.lock("k").ttl(S);
    let bounded = request().renew().max_hold(2 * S);
    for (request, by) in [(request(), false), (bounded, true)] {
        let error = request.run(async |_| std::future::pending::<()>().await);
        let error = error.await.unwrap_err();
        assert!(
            matches!(error, LockError::Lost { renewed, .. } if renewed == by),
            "{error:?}"
        );
        assert_eq!(error.to_string().contains("add `renew`"), !by, "{error}");
    }
}

#[tokio::test]
async fn a_pool_bounds_how_long_a_renewed_lock_is_held() {
    let config = Config::new("memory://").default_max_hold(10 * S);
    let pool = LockPool::connect(config).await.unwrap();
    let bounds = |request: LockRequest| request.spec().unwrap().1.terms.bounds.max_hold;
    let request = || pool.lock("k").ttl(2 * S);
    assert_eq!(bounds(request()), None, "it ends by itself");
    assert_eq!(bounds(request().renew()), Some(10 * S));
    assert_eq!(bounds(request().renew().max_hold(60 * S)), Some(60 * S));
    let long = request().ttl(30 * S).renew();
    assert_eq!(bounds(long), Some(30 * S), "never less than a lease");
    let kept = request().renew().min_hold(20 * S);
    assert_eq!(bounds(kept), Some(20 * S));
}
