//! dlock as its users have it: the attribute, with watchdog and fencing token, on a pool with the
//! default settings.

use std::time::Duration;

use dlock_runtime::{Config, LockError, LockPool, distributed_lock};

use super::Cycle;
use crate::Failure;

/// The commands that dlock sends. Its scripts call the other commands that INFO counts.
pub(crate) const SENDS: &[&str] = &["evalsha", "eval"];

/// Raises dlock's timeouts: the other contenders wait without limit, and a machine that stalled for
/// a moment is not what is measured.
pub(crate) fn patient(config: Config) -> Config {
    let config = config.connect_timeout(ANSWER).command_timeout(ANSWER);
    config.default_wait(WAIT)
}

pub(crate) async fn pool(url: &str) -> Result<LockPool, Failure> {
    Ok(LockPool::connect(patient(Config::new(url))).await?)
}

const ANSWER: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(60);

/// Returns when the server has answered the release.
#[derive(Clone)]
pub(crate) struct Confirmed(pub(crate) LockPool);

/// Returns when the release is sent.
#[derive(Clone)]
pub(crate) struct Background(pub(crate) LockPool);

/// The same, each key at one of these pools.
#[derive(Clone)]
pub(crate) struct Spread(pub(crate) Vec<LockPool>);

/// The same with keys that share these hash tags.
#[derive(Clone)]
pub(crate) struct Tagged(pub(crate) LockPool, pub(crate) &'static [&'static str]);

#[distributed_lock(key = "own:<key>", ttl = "10s", renew, pool = pool)]
async fn confirmed(pool: &LockPool, key: usize) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "{<tag>}:<key>", ttl = "10s", renew, pool = pool)]
async fn tagged(pool: &LockPool, tag: &str, key: usize) -> Result<(), LockError> {
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

impl Cycle for Spread {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        let pool = self.0.get(key % self.0.len().max(1));
        Ok(confirmed(pool.ok_or("a key needs a pool")?, key).await?)
    }
}

impl Cycle for Tagged {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        let Self(pool, tags) = self;
        let tag = tags.get(key % tags.len().max(1)).copied();
        Ok(tagged(pool, tag.ok_or("a key needs a tag")?, key).await?)
    }
}

impl Cycle for Background {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        Ok(background(&self.0, key).await?)
    }

    async fn settle(&mut self) -> Result<(), Failure> {
        // The answer to the ping comes after those to all releases sent before it.
        self.0.ping().await?;
        Ok(())
    }
}
