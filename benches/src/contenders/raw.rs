//! The limit: `SET key token NX PX ttl`, and a script that deletes the key if it still has the
//! token. It has no queue and no renewal.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ExistenceCheck, RedisResult, SetExpiry, SetOptions};

use super::Cycle;
use crate::{Failure, lab};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// The commands that the client sends, without the GET and DEL in the script.
pub(crate) const SENDS: &[&str] = &["set", "evalsha"];

#[derive(Clone)]
pub(crate) struct Raw {
    redis: MultiplexedConnection,
    ttl: u64,
    set: SetOptions,
    /// The hashes of the scripts.
    release: Arc<str>,
    renew: Arc<str>,
}

/// The random value at the key.
pub(crate) type Token = String;

impl Raw {
    pub(crate) async fn connect(url: &str, ttl: Duration) -> Result<Self, Failure> {
        Ok(Self::on(lab::connect(url).await?, ttl).await?)
    }

    /// Uses this connection.
    pub(crate) async fn on(mut redis: MultiplexedConnection, ttl: Duration) -> RedisResult<Self> {
        let mut load = async |script| {
            let mut load = redis::cmd("SCRIPT");
            let load = load.arg("LOAD").arg(script);
            load.query_async::<String>(&mut redis).await
        };
        let (release, renew) = (load(RELEASE).await?.into(), load(RENEW).await?.into());
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let set = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(ttl));
        Ok(Self {
            redis,
            ttl,
            set,
            release,
            renew,
        })
    }

    pub(crate) async fn try_acquire(&mut self, key: &str) -> RedisResult<Option<Token>> {
        let token = format!("{:032x}", fastrand::u128(..));
        let set = redis::Cmd::set_options(key, &token, self.set.clone());
        let is_free: bool = set.query_async(&mut self.redis).await?;
        Ok(is_free.then_some(token))
    }

    /// Whether the key still had this token.
    pub(crate) async fn release(&mut self, key: &str, token: &str) -> RedisResult<bool> {
        let mut release = redis::cmd("EVALSHA");
        let release = release.arg(&*self.release).arg(1).arg(key).arg(token);
        release.query_async(&mut self.redis).await
    }

    /// Whether the key still had this token.
    pub(crate) async fn renew(&mut self, key: &str, token: &str) -> RedisResult<bool> {
        let mut renew = redis::cmd("EVALSHA");
        let renew = renew.arg(&*self.renew).arg(1).arg(key).arg(token);
        renew.arg(self.ttl).query_async(&mut self.redis).await
    }
}

impl Cycle for Raw {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        let key = format!("raw:{key}");
        let token = self.try_acquire(&key).await?;
        let token = token.ok_or("somebody else has a key that is nobody else's")?;
        if self.release(&key, &token).await? {
            Ok(())
        } else {
            Err("the lock was not its own any more".into())
        }
    }
}
