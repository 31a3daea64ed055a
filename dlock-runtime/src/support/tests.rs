//! Nothing that an attribute says is lost on the way to the engine; what a skipped function returns.

use super::{Duration, OnLost, Release, Renew, Skipped, Spec, Wait};
use crate::values::bounds::Bounds;
use crate::{Config, LockPool};

const S: Duration = Duration::from_secs(1);

static EVERYTHING: Spec = Spec {
    name: "shop::purchase",
    ttl: Some(Duration::from_secs(10)),
    wait: Some(Wait::For(Duration::from_secs(2))),
    renew: Some(Renew::Every(Duration::from_secs(1))),
    max_hold: Some(Duration::from_secs(60)),
    max_renewals: Some(4),
    min_hold: Some(Duration::from_secs(20)),
    release: Some(Release::Background),
    on_lost: OnLost::Cancel,
    pool: None,
};

static NOTHING: Spec = Spec::new("shop::purchase");

#[tokio::test]
async fn what_is_written_comes_before_the_pool() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (_, order) = EVERYTHING.request(pool, "k".into()).order().unwrap();
    assert_eq!(order.function, "shop::purchase");
    assert_eq!(order.terms.ttl.get(), 10 * S);
    assert_eq!(order.wait, Wait::For(2 * S));
    assert_eq!(order.terms.renew, Some(S));
    let bounds = Bounds {
        max_hold: Some(60 * S),
        max_renewals: Some(4),
        min_hold: Some(20 * S),
    };
    assert_eq!(
        (order.terms.bounds, order.release),
        (bounds, Release::Background)
    );
}

#[tokio::test]
async fn what_is_not_written_is_the_pools_to_say() {
    let config = Config::new("memory://")
        .default_ttl(5 * S)
        .default_wait(Wait::Forever)
        .release(Release::Background);
    let pool = LockPool::connect(config).await.unwrap();
    let (_, order) = NOTHING.request(pool, "k".into()).order().unwrap();
    assert_eq!((order.terms.ttl.get(), order.wait), (5 * S, Wait::Forever));
    assert_eq!(
        (order.terms.renew, order.terms.bounds),
        (None, Bounds::default())
    );
    assert_eq!(order.release, Release::Background);
}

#[test]
fn a_skipped_function_returns_nothing() {
    <() as Skipped>::skipped();
    assert_eq!(<Option<u8> as Skipped>::skipped(), None);
    assert_eq!(<Result<(), u8> as Skipped>::skipped(), Ok(()));
    assert_eq!(<Result<Option<u8>, u8> as Skipped>::skipped(), Ok(None));
}
