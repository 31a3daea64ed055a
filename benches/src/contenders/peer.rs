//! `rslock`, the lock crate on the same Redis client: no queue, no fencing token, no renewal unless a body runs in its `using`.

use rslock::LockManager;

use super::{Cycle, TTL};
use crate::Failure;

/// As of `raw`, whose two commands it sends.
pub(crate) const SENDS: &[&str] = &["set", "evalsha"];

#[derive(Clone)]
pub(crate) struct Peer(pub(crate) LockManager);

impl Peer {
    /// As its documentation shows it.
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
