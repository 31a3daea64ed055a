//! The limit: `SET key token NX PX ttl`, and a script that deletes the key if it still has the token. Nothing queues, nothing renews.

use redis::aio::MultiplexedConnection;
use redis::{ExistenceCheck, SetExpiry, SetOptions};

use super::{Cycle, TTL};
use crate::{Failure, lab};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// What it sends; the script's own GET and DEL are not the client's.
pub(crate) const SENDS: &[&str] = &["set", "evalsha"];

#[derive(Clone)]
pub(crate) struct Raw {
    redis: MultiplexedConnection,
    /// The script's name at the server.
    release: String,
    set: SetOptions,
}

/// Whose lock it is.
pub(crate) type Token = String;

impl Raw {
    pub(crate) async fn connect(url: &str) -> Result<Self, Failure> {
        let mut redis = lab::connect(url).await?;
        let mut load = redis::cmd("SCRIPT");
        let release = load
            .arg("LOAD")
            .arg(RELEASE)
            .query_async(&mut redis)
            .await?;
        let ttl = u64::try_from(TTL.as_millis())?;
        let set = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(ttl));
        Ok(Self {
            redis,
            release,
            set,
        })
    }

    /// `None`: somebody else has it.
    pub(crate) async fn try_acquire(&mut self, key: &str) -> Result<Option<Token>, Failure> {
        let token = format!("{:032x}", fastrand::u128(..));
        let set = redis::Cmd::set_options(key, &token, self.set.clone());
        let is_free: bool = set.query_async(&mut self.redis).await?;
        Ok(is_free.then_some(token))
    }

    pub(crate) async fn release(&mut self, key: &str, token: &str) -> Result<(), Failure> {
        let mut release = redis::cmd("EVALSHA");
        let release = release.arg(&self.release).arg(1).arg(key).arg(token);
        let freed: bool = release.query_async(&mut self.redis).await?;
        if freed {
            Ok(())
        } else {
            Err("the lock was not its own any more".into())
        }
    }
}

impl Cycle for Raw {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        let key = format!("raw:{key}");
        let token = self.try_acquire(&key).await?;
        let token = token.ok_or("somebody else has a key that is nobody else's")?;
        self.release(&key, &token).await
    }
}
