//! Where locks are kept: what the engine asks of a server, and the servers that answer.
//!
//! A [`Backend`] hands out [`Link`]s; a link is one live connection, whose commands arrive in order.
//! CONTRIBUTING has the steps to add a server.
//!
//! Never in this folder: a command that is repeated by itself; in Rust, a decision about who gets a
//! lock (the scripts in `redis/lua` are the server's side, and follow `policy::server`). Only `redis/`
//! names the `redis` crate.

pub(crate) mod clock;
pub(crate) mod command_error;
pub(crate) mod memory;
pub(crate) mod redis;

use std::fmt::Debug;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use self::clock::Clock;
use self::command_error::CommandError;
use crate::policy::commands::{
    Acquire, Acquired, Cancelled, Claim, GivenBack, Polled, PushedGrant, Renewal, Renewed,
    TakenTogether,
};
use crate::policy::writes::{Writes, Wrote};
use crate::values::memory_value::MemoryValue;
use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

/// A server's answer, on its way.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, CommandError>> + Send + 'a>>;

/// At most so many items go into one `renew`, so that it never blocks the server for long.
pub(crate) const RENEWALS_AT_ONCE: usize = 100;

/// A lock server, or what stands for one.
pub(crate) trait Backend: Debug + Send + Sync + 'static {
    /// The clock that this backend's leases are measured with.
    fn clock(&self) -> Clock;

    /// Who watches over its leases.
    fn watchdog(&self) -> WatchdogKind;

    /// Who hears what the server says unasked. Called once, before the first link is made.
    fn listen(&self, listener: Weak<dyn Listener>);

    /// The connection of the current tokio runtime that carries commands for `key`, if it is there and works.
    fn ready(&self, key: &str, now: Moment) -> Option<Arc<dyn Link>>;

    /// The same, made if need be.
    fn connect<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Arc<dyn Link>>;

    /// What guarded writes left at a data key, if that is kept in this process.
    fn memory_value(&self, key: &str) -> Result<Option<MemoryValue>, CommandError>;
}

impl dyn Backend {
    /// The connection of the current tokio runtime that carries commands for `key`. Nearly always there is one, and
    /// nothing is to be waited for.
    pub(crate) async fn link(
        &self,
        key: &str,
        within: Duration,
    ) -> Result<Arc<dyn Link>, CommandError> {
        let (link, _) = self.link_at(self.clock().now(), key, within).await?;
        Ok(link)
    }

    /// The same, and when that is: `now`, unless something had to be waited for.
    pub(crate) async fn link_at(
        &self,
        now: Moment,
        key: &str,
        within: Duration,
    ) -> Result<(Arc<dyn Link>, Moment), CommandError> {
        if let Some(link) = self.ready(key, now) {
            return Ok((link, now));
        }
        let link = self.connect(key, within).await?;
        Ok((link, self.clock().now()))
    }
}

/// Where the watchdog, the deadlines and the clean-up run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchdogKind {
    /// On a thread of their own, with a connection of its own: a blocked or ended runtime loses nothing.
    Thread,
    /// On the caller's runtime, because its clock may be paused; every answer is there at once.
    Caller,
}

/// Hears what a server says unasked. Called from the task that moves a connection's bytes, or from
/// inside another command's call: it must not block, and must not send anything itself.
pub(crate) trait Listener: Debug + Send + Sync {
    /// A waiter's claim was granted, which is to be believed. `since` is no later than the grant, on the backend's clock;
    /// `None` when that can't be told, so that the waiter has to ask.
    fn granted(&self, grant: PushedGrant, since: Option<Moment>);

    /// Somebody says that this value was granted, and it may not be true: the waiter has to ask.
    fn hinted(&self, key: &Arc<str>, value: &str);

    /// A connection ended: pushes may have been lost, and those who wait on it should look.
    fn disconnected(&self);
}

/// One live connection. Commands are executed in the order in which they were first polled; an `acquire` or a `release`
/// may come later, but never behind what was first polled after its future was dropped: it is before that, or is never sent.
/// A `heartbeat` may come later in any case, since it creates nothing.
///
/// Each command ends `within` the time given, with [`CommandError::Unclear`] if it may have been or may yet
/// be executed. Dropping a command's future takes nothing back that was sent.
pub(crate) trait Link: Debug + Send + Sync {
    /// The server's time at a moment, in µs; rather too early than too late.
    fn server_time_at(&self, now: Moment) -> u64;

    /// The runtime that moves this connection's bytes; `None` when nothing has to be moved.
    fn runtime(&self) -> Option<&Handle>;

    /// Where grants to this connection's waiters are published; `None` when it can't be told anything
    /// unasked, so that its waiters have to poll.
    fn address(&self) -> Option<&Arc<str>>;

    fn acquire<'a>(&'a self, command: &'a Acquire, within: Duration) -> Answer<'a, Acquired>;

    /// All of these exclusive locks in one step, or none; nobody queues. One lease and one `not_after` for all.
    fn acquire_all<'a>(
        &'a self,
        commands: &'a [Acquire],
        within: Duration,
    ) -> Answer<'a, TakenTogether>;

    /// What became of a claim in the queue, and a sign of life for it.
    fn poll<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, Polled>;

    /// A sign of life of a claim in the queue to which nothing has happened that its waiter knows of. It may be late by a small part
    /// of the interval between two polls, together with others. What a poll would say; `None`: only a poll can say it. A claim that
    /// still waits is told so, by the next heartbeat at the latest, also if a poll at this moment would have let it in.
    fn heartbeat<'a>(&'a self, _: &'a Claim, _: Duration) -> Answer<'a, Option<Polled>> {
        Box::pin(ready(Ok(None)))
    }

    /// Whether the claim held the lock. Before the server's time `keep_until` (µs, 0: no such time) the
    /// key stays, as nobody's.
    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep_until: u64,
        within: Duration,
    ) -> Answer<'a, GivenBack>;

    /// As `release`, for a claim that may also stand in the queue, or whose acquire may still come.
    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        keep_until: u64,
        not_after: u64,
        within: Duration,
    ) -> Answer<'a, Cancelled>;

    /// One answer for each item, in order; at most [`RENEWALS_AT_ONCE`] items.
    fn renew<'a>(&'a self, items: &'a [Renewal], within: Duration) -> Answer<'a, Vec<Renewed>>;

    /// Turns a writer's entry into a reader's, without a gap and with the same claim; it never shortens the
    /// lease. `false`: the claim does not hold the lock. Idempotent.
    fn downgrade<'a>(&'a self, claim: &'a Claim, ttl: Ttl, within: Duration) -> Answer<'a, bool>;

    /// Whether the claim holds the lock at this moment, by the server's clock.
    fn holds<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, bool>;

    /// A batch of the user's own writes, applied if the claim holds the lock, and not if it is executed when `within` is over.
    fn write<'a>(
        &'a self,
        claim: &'a Claim,
        writes: &'a Writes<'a>,
        within: Duration,
    ) -> Answer<'a, Wrote>;

    /// What stands at the key: its value, or the entry of the first holder.
    fn read<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Option<String>>;

    fn ping(&self, within: Duration) -> Answer<'_, ()>;
}
