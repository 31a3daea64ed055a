//! Native `async fn` in traits: required, provided, generic, associated, on foreign types, and as a
//! bound.

use std::convert::TryFrom;
use std::fmt::{Debug, Display};
use std::future::Future;

use dlock_runtime::{LockError, distributed_lock, lock_key};

use super::{held, memory};

trait Repository<K, V = u8>
where
    K: Display + ?Sized,
{
    const TABLE: &'static str;
    type Error: From<LockError> + Debug;

    async fn find(&self, key: &K) -> Result<Option<V>, Self::Error>;

    #[distributed_lock(key = { let table = Self::TABLE; lock_key!("<table>:<key>") })]
    async fn find_or<F>(&mut self, key: &K, or: F) -> Result<(V, String), Self::Error>
    where
        F: AsyncFnOnce() -> V,
    {
        let found = self.find(key).await?;
        let value = match found {
            Some(value) => value,
            None => or().await,
        };
        Ok((value, held()))
    }

    /// With an explicit `Send`, so that `tokio::spawn` takes it.
    fn spawnable(&self, key: &K) -> impl Future<Output = Result<String, Self::Error>> + Send;

    #[distributed_lock(key = "associated:<id>")]
    async fn associated<'a>(id: u8, name: &'a str) -> Result<(&'a str, String), Self::Error>
    where
        Self: Sized,
    {
        Ok((name, held()))
    }
}

#[derive(Debug)]
struct Failed(LockError);

impl From<LockError> for Failed {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

/// On foreign types, in a blanket implementation.
impl<T: Into<u64> + Copy + Sync + Display> Repository<str> for T {
    const TABLE: &'static str = "numbers";
    type Error = Failed;

    #[distributed_lock(key = "find:<self>:<key>", guard = lock)]
    async fn find(&self, key: &str) -> Result<Option<u8>, Failed> {
        assert_eq!(lock.key().to_string(), format!("find:{self}:{key}"));
        Ok((*self)
            .into()
            .checked_sub(key.len() as u64)
            .map(|rest| u8::try_from(rest).unwrap()))
    }

    #[distributed_lock(key = "spawnable:<self>:<key>")]
    async fn spawnable(&self, key: &str) -> Result<String, Failed> {
        tokio::task::yield_now().await;
        Ok(held())
    }
}

async fn through_a_bound<R: Repository<str, Error = Failed>>(mut repository: R) -> (u8, String) {
    repository.find_or("ab", async || 99).await.unwrap()
}

pub(super) async fn rows() {
    ok!(7_u8.find("ab"), Some(5));
    gives!(through_a_bound(7_u32), (5, "numbers:ab"));
    gives!(through_a_bound(1_u8), (99, "numbers:ab"));
    ok!(u8::associated(3, "n"), ("n", "associated:3"));
    let pool = memory().await;
    let task = tokio::spawn(async move { pool.scope(7_u64.spawnable("x")).await });
    ok!(async { task.await.unwrap() }, "spawnable:7:x");
    let without_a_pool = tokio::spawn(async { 7_u8.find("ab").await });
    let Failed(error) = without_a_pool.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::NotInitialized));
}
