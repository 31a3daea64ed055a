//! dlock as its user meets it: the attribute, with watchdog and fencing token, on a pool with the defaults.

use std::time::Duration;

use dlock_runtime::{Config, LockError, LockPool, distributed_lock};

use super::Cycle;
use crate::Failure;

/// What it sends. Whatever else INFO counts for it is called by its scripts.
pub(crate) const SENDS: &[&str] = &["evalsha", "eval"];

/// Gives an answer, and a lock, more time than the defaults do: the others wait for as long as it takes, and a machine that stood still for a
/// moment is not what is measured.
pub(crate) fn patient(config: Config) -> Config {
    let config = config.connect_timeout(ANSWER).command_timeout(ANSWER);
    config.default_wait(WAIT)
}

pub(crate) async fn pool(url: &str) -> Result<LockPool, Failure> {
    Ok(LockPool::connect(patient(Config::new(url))).await?)
}

const ANSWER: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(60);

/// A call returns when the server has answered its release.
#[derive(Clone)]
pub(crate) struct Confirmed(pub(crate) LockPool);

/// A call returns when its release is sent.
#[derive(Clone)]
pub(crate) struct Background(pub(crate) LockPool);

#[distributed_lock(key = "own:<key>", ttl = "10s", renew, pool = pool)]
async fn confirmed(pool: &LockPool, key: usize) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "own:<key>", ttl = "10s", renew, release = "background", pool = pool)]
async fn background(pool: &LockPool, key: usize) -> Result<(), LockError> {
    Ok(())
}

impl Cycle for Confirmed {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        Ok(confirmed(&self.0, key).await?)
    }
}

impl Cycle for Background {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        Ok(background(&self.0, key).await?)
    }

    async fn settle(&mut self) -> Result<(), Failure> {
        // Its answer comes behind those of the releases that were sent before it.
        self.0.ping().await?;
        Ok(())
    }
}
