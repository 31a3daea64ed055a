//! Everything that an attribute says reaches the driver.

use super::{Duration, OnLost, Release, Spec, Wait, name};
use crate::driver::request::Keys;
use crate::values::bounds::{AfterCrash, Bounds, OncePer};
use crate::values::kind::Kind;
use crate::{Config, LockPool};

const S: Duration = Duration::from_secs(1);

static EVERYTHING: Spec = Spec::new("shop::purchase")
    .ttl(10_000)
    .wait(2_000)
    .renew_every(1_000)
    .max_hold(60_000)
    .max_renewals(4)
    .min_hold(20_000)
    .once_per(3_600_000)
    .skip_after_crash()
    .release_background();

static NOTHING: Spec = Spec::new("shop::purchase");

#[tokio::test]
async fn what_is_written_comes_before_the_pool() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (_, spec) = EVERYTHING
        .request(&pool, Keys::One("k".into()))
        .spec()
        .unwrap();
    assert_eq!(spec.site.name(), "shop::purchase");
    assert_eq!(spec.terms.ttl.get(), 10 * S);
    assert_eq!(spec.wait, Wait::For(2 * S));
    assert_eq!(spec.terms.renew, Some(S));
    let bounds = Bounds {
        once_per: Some(OncePer::new(3600 * S).with(AfterCrash::Skip)),
        max_hold: Some(60 * S),
        max_renewals: Some(4),
        min_hold: Some(20 * S),
    };
    assert_eq!(
        (spec.terms.bounds, spec.release),
        (bounds, Release::Background)
    );
    assert!(spec.stops_at_shutdown);
}

#[tokio::test]
async fn what_is_not_written_is_the_pools_to_say() {
    let config = Config::new("memory://")
        .default_ttl(5 * S)
        .default_wait(Wait::Forever)
        .release(Release::Background);
    let pool = LockPool::connect(config).await.unwrap();
    let (_, spec) = NOTHING
        .request(&pool, Keys::One("k".into()))
        .spec()
        .unwrap();
    assert_eq!((spec.terms.ttl.get(), spec.wait), (5 * S, Wait::Forever));
    assert_eq!(
        (spec.terms.renew, spec.terms.bounds),
        (None, Bounds::default())
    );
    assert_eq!(spec.release, Release::Background);
}

#[test]
fn the_other_ways_to_say_it() {
    let spec = Spec::new("f").wait_once().renew().release_confirmed();
    assert_eq!(spec.wait, Some(Wait::Once));
    assert!(matches!(spec.renew, Some(super::Renew::Default)));
    assert_eq!(spec.release, Some(Release::Confirmed));
    let spec = Spec::new("f")
        .wait_forever()
        .finish_when_lost()
        .pool("billing");
    assert_eq!(spec.wait, Some(Wait::Forever));
    assert_eq!(
        (spec.on_lost(), spec.pool_name()),
        (OnLost::Finish, Some("billing"))
    );
    assert!(spec.finishes_at_shutdown);
    let spec = Spec::new("f").finish_at_shutdown();
    assert_eq!(
        (spec.on_lost(), spec.finishes_at_shutdown),
        (OnLost::Cancel, true)
    );
}

#[tokio::test]
async fn each_kind_reaches_the_engine() {
    static READ: Spec = Spec::new("f").read();
    static WRITE: Spec = Spec::new("f").write();
    static PERMITS: Spec = Spec::new("f").permits(5);
    static TAKEN: Spec = Spec::new("f").permits(5).take(2);
    static AGAIN: Spec = Spec::new("f").reentrant().fair();
    let pool = LockPool::connect("memory://").await.unwrap();
    for (spec, kind, fair) in [
        (&NOTHING, Kind::Exclusive, false),
        (&READ, Kind::Read, false),
        (&WRITE, Kind::Write, false),
        (&PERMITS, Kind::Permits { of: 5, take: 1 }, false),
        (&TAKEN, Kind::Permits { of: 5, take: 2 }, false),
        (&AGAIN, Kind::Exclusive, true),
    ] {
        let (_, spec) = spec.request(&pool, Keys::One("k".into())).spec().unwrap();
        let reentrant = fair; // `AGAIN` alone is either
        let own = fair || kind.is_shared();
        assert_eq!(
            (&spec.kind, !spec.queue_key.is_for_all(), spec.reentrant),
            (&kind, own, reentrant),
            "{spec:?}"
        );
    }
}

/// What the compiler calls a closure in the static of an attribute, and the function's name.
#[test]
fn a_function_is_named_with_its_type() {
    for (inside, expected) in [
        ("c::free::{{closure}}", "c::free"),
        ("c::Shop::buy::{{closure}}", "c::Shop::buy"),
        ("c::Shop<_, N>::buy::{{closure}}", "c::Shop::buy"),
        (
            "<c::Shop as c::Buy>::buy::{{closure}}",
            "<c::Shop as c::Buy>::buy",
        ),
        (
            "<c::G<alloc::vec::Vec<_>, 3> as c::Of<u8>>::buy",
            "<c::G as c::Of>::buy",
        ),
        (
            "c::other::<impl c::Shop<T>>::buy",
            "c::other::<impl c::Shop>::buy",
        ),
        (
            "c::outer::{{closure}}::inner::{{closure}}",
            "c::outer::inner",
        ),
        (
            "<(u8, c::B<dyn Fn(u8) -> u8>) as c::Buy>::buy",
            "<(u8, c::B) as c::Buy>::buy",
        ),
        (
            "<&str as c::Buy>::buy::{{closure}}",
            "<&str as c::Buy>::buy",
        ),
    ] {
        let inside = format!("{inside}::__DLOCK_SPEC::{{{{closure}}}}");
        assert_eq!(name::of_function(&inside).as_deref(), Some(expected));
    }
    let long = format!("c::{}::__DLOCK_SPEC", "x".repeat(200));
    for other in [
        "c::free",
        "c::Shop<u8::f::__DLOCK_SPEC",
        "c::f>::__DLOCK_SPEC",
        &long,
    ] {
        assert_eq!(name::of_function(other), None, "{other}");
    }
}
