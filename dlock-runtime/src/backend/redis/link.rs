//! One live connection: the protocol's commands over it, each with its own deadline.
//!
//! It counts what tells a dead connection from a slow server; the supervisor replaces it then.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::reply;
use super::scripts::{self, Script};
use crate::backend::clock::Clock;
use crate::backend::fault::Fault;
use crate::backend::{Answer, Link};
use crate::policy::commands::{Acquire, Acquired, Cancelled, Claim, Renewal, Renewed};
use crate::values::error::Text;
use crate::values::moment::Moment;
use crate::values::ttl;

/// After so many commands in a row without an answer, a connection counts as dead: it may be half
/// open, which no error ever tells.
const TIMEOUTS_OF_A_DEAD_LINK: u32 = 2;

/// A connection of one tokio runtime; it ends with its last owner.
#[derive(Debug)]
pub(super) struct RedisLink {
    connection: MultiplexedConnection,
    runtime: Handle,
    driver: Option<JoinHandle<()>>,
    clock: Clock,
    broken: AtomicBool,
    timeouts: AtomicU32,
    /// When the server last answered, in nanoseconds of `clock`.
    answered: AtomicU64,
    server_clock: Mutex<(u64, Moment)>,
}

impl RedisLink {
    /// `time` is the server's time as of now.
    pub(super) fn new(
        connection: MultiplexedConnection,
        driver: Option<JoinHandle<()>>,
        clock: Clock,
        time: u64,
    ) -> Self {
        let now = clock.now();
        Self {
            connection,
            runtime: Handle::current(),
            driver,
            clock,
            broken: AtomicBool::new(false),
            timeouts: AtomicU32::new(0),
            answered: AtomicU64::new(now.as_nanos()),
            server_clock: Mutex::new((time, now)),
        }
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.broken.load(Ordering::Acquire)
            && !self.driver.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// How long the server has said nothing.
    pub(super) fn idle(&self) -> Duration {
        Moment::from_nanos(self.answered.load(Ordering::Relaxed)).until(self.clock.now())
    }

    fn heard_time(&self, time: u64) {
        let now = self.clock.now();
        *self
            .server_clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = (time, now);
    }

    /// Puts a deadline around a command and learns from how it went.
    async fn call<T>(
        &self,
        within: Duration,
        command: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, Fault> {
        if !self.is_usable() {
            return Err(Fault::Unsent(Text::new("the connection to redis broke")));
        }
        let Ok(answer) = tokio::time::timeout(within, command).await else {
            if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_OF_A_DEAD_LINK {
                self.broken.store(true, Ordering::Release);
            }
            return Err(Fault::Unclear(Text::new(format_args!(
                "no answer within {within:?}"
            ))));
        };
        let answer = answer.map_err(|error| reply::fault(&error));
        if let Err(Fault::Unclear(_)) = answer {
            self.broken.store(true, Ordering::Release);
        } else {
            self.timeouts.store(0, Ordering::Relaxed);
            self.answered
                .store(self.clock.now().as_nanos(), Ordering::Relaxed);
        }
        answer
    }

    async fn script(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        within: Duration,
    ) -> Result<redis::Value, Fault> {
        let mut connection = self.connection.clone();
        self.call(within, script.run(&mut connection, keys, arguments))
            .await
    }
}

impl Link for RedisLink {
    fn server_time(&self) -> u64 {
        let (time, heard) = *self
            .server_clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let since = heard.until(self.clock.now());
        time.saturating_add(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn runtime(&self) -> Option<&Handle> {
        Some(&self.runtime)
    }

    fn acquire<'a>(&'a self, command: &'a Acquire, within: Duration) -> Answer<'a, Acquired> {
        Box::pin(async move {
            let Acquire {
                claim,
                fences,
                ttl,
                not_after,
                repair_missing_ttl,
            } = command;
            let (ttl, not_after) = (ttl.as_millis().to_string(), not_after.to_string());
            let repair = repair_missing_ttl.map_or(0, ttl::millis).to_string();
            let keys = [&*claim.key, &**fences];
            let arguments = [&*claim.value, &ttl, &not_after, &repair];
            let reply = self
                .script(&scripts::ACQUIRE, &keys, &arguments, within)
                .await?;
            let answer = reply::acquired(&reply)?;
            self.heard_time(answer.time());
            Ok(answer)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, bool> {
        Box::pin(async move {
            let reply = self
                .script(&scripts::RELEASE, &[&claim.key], &[&claim.value], within)
                .await?;
            reply::released(&reply)
        })
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        not_after: u64,
        within: Duration,
    ) -> Answer<'a, Cancelled> {
        Box::pin(async move {
            let arguments = [&*claim.value, &*not_after.to_string()];
            let reply = self
                .script(&scripts::CANCEL, &[&claim.key], &arguments, within)
                .await?;
            let answer = reply::cancelled(&reply)?;
            self.heard_time(answer.time);
            Ok(answer)
        })
    }

    fn renew<'a>(&'a self, items: &'a [Renewal], within: Duration) -> Answer<'a, Vec<Renewed>> {
        Box::pin(async move {
            let keys: Vec<&str> = items.iter().map(|item| &*item.claim.key).collect();
            let ttls: Vec<String> = items
                .iter()
                .map(|item| item.ttl.as_millis().to_string())
                .collect();
            let pairs = items.iter().zip(&ttls);
            let arguments: Vec<&str> = pairs
                .flat_map(|(item, ttl)| [&*item.claim.value, ttl.as_str()])
                .collect();
            let reply = self
                .script(&scripts::RENEW, &keys, &arguments, within)
                .await?;
            reply::renewed(&reply, items.len())
        })
    }

    fn read<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let get = async move {
                redis::cmd("GET")
                    .arg(key)
                    .query_async(&mut connection)
                    .await
            };
            reply::value(&self.call(within, get).await?)
        })
    }

    fn ping(&self, within: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let ping = async move { redis::cmd("PING").exec_async(&mut connection).await };
            self.call(within, ping).await
        })
    }
}

impl Drop for RedisLink {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}
