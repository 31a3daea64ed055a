//! `rslock`, a lock crate on the same Redis client: no queue, no fencing token, and no renewal
//! unless the body runs in its `using`.

use rslock::LockManager;

use super::{Cycle, TTL};
use crate::Failure;

/// The same two commands as `raw`.
pub(crate) const SENDS: &[&str] = &["set", "evalsha"];

#[derive(Clone)]
pub(crate) struct Peer(pub(crate) LockManager);

impl Peer {
    /// Set up as in its documentation.
    pub(crate) fn new(url: &str) -> Self {
        Self(LockManager::new(vec![url]))
    }
}

impl Cycle for Peer {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        let guard = self.0.acquire(format!("peer:{key}").as_str(), TTL).await?;
        guard.release().await;
        Ok(())
    }
}
