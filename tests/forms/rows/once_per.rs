//! Functions with `once_per`: whatever the return type, an `Err` is not recorded, and every other value
//! is.

use std::error::Error;
use std::fmt::Debug;

use async_trait::async_trait;
use dlock_runtime::{LockError, LockPool, distributed_lock};

use super::memory;

/// An error without a text.
#[derive(Debug)]
struct Mute;

impl From<LockError> for Mute {
    fn from(error: LockError) -> Self {
        assert!(error.is_not_due(), "{}", error);
        Mute
    }
}

/// What a job returns: `Mute` if it shall fail.
fn done(fails: bool) -> Result<(), Mute> {
    if fails { Err(Mute) } else { Ok(()) }
}

#[distributed_lock(key = "mute", once_per = "20h")]
async fn mute(fails: bool) -> Result<(), Mute> {
    done(fails)
}

type Alias<T> = Result<T, Mute>;

#[distributed_lock(key = "alias", once_per = "20h", after_crash = "skip")]
async fn alias(fails: bool) -> Alias<()> {
    done(fails)
}

/// The macro knows types by their names only.
mod misnamed {
    type Option<T> = Result<T, super::Mute>;

    #[dlock_runtime::distributed_lock(key = "misnamed", once_per = "20h")]
    pub(super) async fn option(fails: bool) -> Option<()> {
        super::done(fails)
    }
}

#[distributed_lock(
    key = "finish",
    once_per = "20h",
    on_lost = "finish",
    renew,
    min_hold = "10ms"
)]
async fn finish(fails: bool) -> Result<(), Mute> {
    done(fails)
}

#[distributed_lock(key = "boxed", once_per = "20h", release = "background", fair)]
async fn boxed(fails: bool) -> Result<(), Box<dyn Error>> {
    done(fails).map_err(|_| "it failed".into())
}

#[distributed_lock(key = "open", once_per = "20h", map_err = |_| Mute)]
async fn open(fails: bool) -> Result<impl Debug, impl Debug> {
    done(fails)
}

#[distributed_lock(key = "handled", once_per = "20h", wait = "forever", on_error = |_| Err(Mute), guard = lock)]
async fn handled(fails: bool) -> Result<(), Mute> {
    assert!(lock.is_held());
    done(fails)
}

#[distributed_lock(key = "of_any", once_per = "20h")]
async fn of_any<T, E: From<LockError>>(job: Result<T, E>) -> Result<T, E> {
    job
}

#[distributed_lock(key = "skips", once_per = "20h", on_busy = "skip")]
async fn skips(fails: bool) -> Result<Option<u8>, Mute> {
    done(fails).map(|()| Some(7))
}

/// The upper lock's run is over when the lower one's is.
#[distributed_lock(key = "upper", once_per = "20h")]
#[distributed_lock(key = "lower", once_per = "1h")]
async fn stacked(fails: bool) -> Result<(), Mute> {
    done(fails)
}

#[distributed_lock(key = "unit", once_per = "20h", on_error = |error| assert!(error.is_not_due()))]
async fn unit(ran: &mut u8) {
    *ran += 1;
}

#[distributed_lock(key = "option", once_per = "20h", on_error = |_| Some("not due"))]
async fn option() -> Option<&'static str> {
    None
}

#[distributed_lock(key = "text", once_per = "20h", on_error = |error| error.to_string())]
async fn text() -> impl Into<String> {
    "ran".to_owned()
}

struct Shop {
    locks: LockPool,
}

impl Shop {
    #[distributed_lock(key = "method", once_per = "20h", pool = self.locks)]
    async fn method(&self, fails: bool) -> Alias<()> {
        done(fails)
    }
}

#[async_trait]
trait Jobs {
    async fn boxed(&self, fails: bool) -> Result<(), Mute>;
}

#[async_trait]
impl Jobs for Shop {
    #[distributed_lock(key = "async_trait", once_per = "20h", pool = self.locks)]
    async fn boxed(&self, fails: bool) -> Alias<()> {
        done(fails)
    }
}

trait Native {
    type Error: From<LockError> + From<Mute>;

    #[distributed_lock(key = "native", once_per = "20h")]
    async fn native(fails: bool) -> Result<(), Self::Error> {
        Ok(done(fails)?)
    }
}

impl Native for Shop {
    type Error = Mute;
}

async fn is_recorded(pool: &LockPool, key: &str) -> bool {
    pool.admin().record(key).await.unwrap().is_some()
}

/// A run that fails is not recorded, the next one succeeds and is, and then none is due.
macro_rules! once {
    ($pool:expr, $key:expr, |$fails:ident| $call:expr) => {
        let $fails = true;
        assert!($call.await.is_err(), "{}", $key);
        assert!(!is_recorded($pool, $key).await, "{}", $key);
        let $fails = false;
        assert!($call.await.is_ok(), "{}", $key);
        assert!(is_recorded($pool, $key).await, "{}", $key);
        assert!($call.await.is_err(), "{} is not due", $key);
    };
}

pub(super) async fn rows() {
    let pool = &memory().await;
    let shop = Shop {
        locks: pool.clone(),
    };
    pool.scope(async {
        once!(pool, "mute", |fails| mute(fails));
        once!(pool, "alias", |fails| alias(fails));
        once!(pool, "misnamed", |fails| misnamed::option(fails));
        once!(pool, "finish", |fails| finish(fails));
        once!(pool, "boxed", |fails| boxed(fails));
        once!(pool, "open", |fails| open(fails));
        once!(pool, "handled", |fails| handled(fails));
        once!(pool, "of_any", |fails| of_any(done(fails)));
        once!(pool, "method", |fails| shop.method(fails));
        once!(pool, "async_trait", |fails| shop.boxed(fails));
        once!(pool, "native", |fails| Shop::native(fails));
        once!(pool, "upper", |fails| stacked(fails));
        assert!(skips(true).await.is_err());
        ok!(skips(false), Some(7));
        ok!(skips(false), None::<u8>);
        every_other_value_is_a_success(pool).await;
        each_of_two_is_recorded_by_itself(pool).await;
    })
    .await;
}

async fn every_other_value_is_a_success(pool: &LockPool) {
    let mut ran = 0;
    unit(&mut ran).await;
    unit(&mut ran).await;
    assert_eq!(ran, 1);
    gives!(option(), None::<&str>);
    gives!(option(), Some("not due"));
    assert_eq!(text().await.into(), "ran");
    assert!(text().await.into().contains("is not due"));
    for key in ["unit", "option", "text"] {
        assert!(is_recorded(pool, key).await, "{}", key);
    }
}

/// A run of the upper lock that finds the lower one not due has failed.
async fn each_of_two_is_recorded_by_itself(pool: &LockPool) {
    assert!(is_recorded(pool, "lower").await);
    assert!(pool.admin().clear_record("upper").await.unwrap());
    assert!(stacked(false).await.is_err());
    assert!(!is_recorded(pool, "upper").await);
}
