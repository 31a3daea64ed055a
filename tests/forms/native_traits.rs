//! Native `async fn` in traits: required, provided, generic, associated, on foreign types, and as a
//! bound.

use std::fmt::{Debug, Display};

use dlock_runtime::{LockError, distributed_lock, lock_key};

use crate::{held, on_memory};

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

#[tokio::test]
async fn required_provided_and_associated() {
    on_memory(async {
        assert_eq!(7_u8.find("ab").await.unwrap(), Some(5));
        assert_eq!(through_a_bound(7_u32).await, (5, "numbers:ab".to_owned()));
        assert_eq!(through_a_bound(1_u8).await, (99, "numbers:ab".to_owned()));
        let outcome = u8::associated(3, "n").await.unwrap();
        assert_eq!(outcome, ("n", "associated:3".to_owned()));
    })
    .await;
    let Failed(error) = 7_u8.find("ab").await.unwrap_err();
    assert!(matches!(error, LockError::NotInitialized));
    let pool = crate::memory().await;
    let task = tokio::spawn(async move { pool.scope(7_u64.spawnable("x")).await });
    assert_eq!(task.await.unwrap().unwrap(), "spawnable:7:x");
}
