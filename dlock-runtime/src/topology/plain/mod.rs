//! The link to a server without scripts: exclusive locks by `SET NX`, `MULTI` and `WATCH`.
//!
//! `acquire` takes a lock on the shared connection, or enters the same queue that the scripts use;
//! `poll` asks what became of an entry; `give_back` deletes a lock or gives it to the next entry;
//! `renew` lengthens leases in transactions. What an operation means is decided by the server's machine
//! (`rules`): `seen` has its window and writes its difference, `watched` does both in a transaction.
//! Transactions have connections of their own, from `checkout`, because `WATCH` belongs to a
//! connection. `answers` reads replies.
//!
//! Keys, values and the counter are those of the scripts (docs/inside/protocol.md, Without scripts).
//!
//! Never in this folder: `EVAL`, `EVALSHA` or `SCRIPT`; a write that depends on what was read
//! before, outside a transaction that watches it.

mod acquire;
mod answers;
mod checkout;
mod give_back;
mod poll;
mod renew;
mod seen;
mod watched;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use redis::Pipeline;
use tokio::runtime::Handle;
use tokio::time::Instant;

use self::answers::KeyContent;
use crate::link::batched::{BatchedAnswer, ReleaseCommand};
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::plan::Plan;
use crate::link::redis::reads::Reads;
use crate::link::redis::reply;
use crate::link::{Answer, Link, LinkCommand, LinkReply, not_offered, replied};
use crate::rules::commands::{Acquire, Acquired, Claim, GivenBack, Keep, Polled};
use crate::rules::queue;
use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

pub(crate) use self::checkout::Checkouts;

/// The time by which a key outlives the lease that was asked for: a share of the lease and this, so
/// that the lease is whole although our estimate of the server's time errs towards too early.
const LONGER_BY: Duration = Duration::from_millis(10);
const LONGER_BY_SHARE: u32 = 32;
const LONGER_AT_MOST: Duration = Duration::from_millis(250);

/// A connection to a server without scripts, and those for transactions.
#[derive(Debug)]
pub(crate) struct PlainLink {
    link: Arc<RedisLink>,
    checkouts: Arc<Checkouts>,
    plan: Arc<Plan>,
}

impl PlainLink {
    pub(crate) fn new(link: Arc<RedisLink>, checkouts: Arc<Checkouts>, plan: Arc<Plan>) -> Self {
        Self {
            link,
            checkouts,
            plan,
        }
    }

    /// The server's time now, in µs, at least.
    fn server_time(&self) -> u64 {
        self.server_time_at(self.link.connection.clock.now())
    }
}

/// Until when a key that is SET at the server's time `now` (µs) stands, in ms.
fn lease_until(now: u64, lease: Duration) -> u64 {
    now.saturating_add(micros(key_lasts(lease))) / 1000
}

pub(crate) fn key_lasts(lease: Duration) -> Duration {
    lease + (lease / LONGER_BY_SHARE + LONGER_BY).min(LONGER_AT_MOST)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u64 {
    micros(time) / 1000
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

impl Link for PlainLink {
    fn server_time_at(&self, now: Moment) -> u64 {
        self.link.server_time_at(now)
    }

    fn runtime(&self) -> Option<&Handle> {
        self.link.runtime()
    }

    fn address(&self) -> Option<&Arc<str>> {
        None
    }

    /// What is executed late ends when it would have ended anyway: the key and the first heartbeat
    /// carry the server's time until which they count.
    fn not_after(&self, now: Moment, _within: Duration, lease: Ttl) -> u64 {
        let longest = key_lasts(lease.get()).max(queue::HEARTBEAT);
        self.server_time_at(now).saturating_add(micros(longest))
    }

    fn acquire<'a>(
        &'a self,
        command: &'a Acquire,
        within: Duration,
    ) -> BatchedAnswer<'a, &'a Acquire, Acquired> {
        let until = Instant::now() + within;
        BatchedAnswer::Boxed(Box::pin(async move {
            let (lock, taken) = (&command.claim.key, self.take_or_queue(command, until).await);
            let taken = self.named(lock, taken, until).await?;
            self.link.believe(lock, taken.epoch(), taken.time())?;
            Ok(taken)
        }))
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        within: Duration,
    ) -> BatchedAnswer<'a, ReleaseCommand<'a>, GivenBack> {
        BatchedAnswer::Boxed(Box::pin(async move {
            let until = Instant::now() + within;
            self.release_claim(claim, keep, until).await
        }))
    }

    fn call<'a>(&'a self, command: LinkCommand<'a>, within: Duration) -> Answer<'a, LinkReply> {
        let until = Instant::now() + within;
        match command {
            LinkCommand::AcquireAll(_) => not_offered("a lock of several keys needs scripts"),
            LinkCommand::Downgrade { .. } => not_offered("a lock with readers needs scripts"),
            LinkCommand::Write(..) => not_offered("a guarded write needs scripts"),
            LinkCommand::Vote(_) | LinkCommand::Adopt { .. } => not_offered("a node needs scripts"),
            LinkCommand::Poll(claim) => replied(self.poll_until(claim, until)),
            LinkCommand::Heartbeat(_) => replied(ready(Ok(None::<Polled>))),
            LinkCommand::Cancel {
                claim,
                keep,
                not_after,
            } => replied(self.cancel_claim(claim, keep, not_after, until)),
            LinkCommand::Renew(items) => replied(self.renew_all(items, until)),
            LinkCommand::Holds(claim) => replied(async move {
                let held = self.held_at(&claim.key, until).await?;
                Ok(held.is(&claim.value))
            }),
            LinkCommand::NoteRun { claim, run } => replied(self.note_run(claim, run, until)),
            LinkCommand::Read(key) => replied(self.read(key, until)),
            LinkCommand::Check => replied(async move {
                let answers = self.link.query_settings(false, within).await?;
                Ok(vec![answers])
            }),
            LinkCommand::Scan { .. }
            | LinkCommand::Inspect { .. }
            | LinkCommand::TellEvicted(_)
            | LinkCommand::LastRun(_)
            | LinkCommand::ClearRecord(_)
            | LinkCommand::Ping => self.link.call(command, within),
        }
    }
}

impl PlainLink {
    async fn poll_until(&self, claim: &Claim, until: Instant) -> Result<Polled, CommandError> {
        let polled = self.poll_claim(claim, until).await;
        let polled = self.named(&claim.key, polled, until).await?;
        (self.link).believe(&claim.key, polled.epoch(), polled.time())?;
        Ok(polled)
    }

    async fn read(&self, key: &str, until: Instant) -> Result<Option<String>, CommandError> {
        match self.held_at(key, until).await? {
            KeyContent::Nothing => Ok(None),
            KeyContent::By(value) => Ok(Some(value)),
            KeyContent::OtherType => self.first_of_set(key, until).await,
        }
    }

    /// Sends commands one right behind the other on the shared connection, and returns their
    /// answers, the same number.
    async fn exchange<const N: usize>(
        &self,
        commands: Pipeline,
        until: Instant,
    ) -> Result<([redis::Value; N], Moment), CommandError> {
        let connection = &self.link.connection;
        let (all, sent) = connection.exchange(commands, left(until)).await?;
        Ok((answers::exactly(all)?, sent))
    }

    /// The same for a transaction that watches nothing: the answers to what is in it.
    async fn transact<const N: usize>(
        &self,
        commands: Pipeline,
        until: Instant,
    ) -> Result<([redis::Value; N], Moment), CommandError> {
        let connection = &self.link.connection;
        let (all, sent) = connection.exchange(commands, left(until)).await?;
        Ok((answers::executed_all(all)?, sent))
    }

    fn reads(&self) -> Reads {
        self.link.connection.reading.now()
    }

    async fn held_at(&self, key: &str, until: Instant) -> Result<KeyContent, CommandError> {
        let mut get = redis::pipe();
        get.add_command(self.reads().get(key)).cmd("PTTL").arg(key);
        let ([value, pttl], _) = self.exchange(get, until).await?;
        answers::held_for(&value, &pttl)
    }

    /// The first member of the set of a kind with many holders: the entry of the holder whose lease
    /// ends first.
    async fn first_of_set(
        &self,
        key: &str,
        until: Instant,
    ) -> Result<Option<String>, CommandError> {
        let mut first = redis::pipe();
        first.cmd("ZRANGE").arg(key).arg(0).arg(0);
        let ([members], _) = self.exchange(first, until).await?;
        Ok(answers::texts(&members)?.into_iter().next())
    }

    /// Its error names the key that is wrong, if that is one beside the lock's.
    async fn named<T>(
        &self,
        lock: &str,
        answer: Result<T, CommandError>,
        until: Instant,
    ) -> Result<T, CommandError> {
        match answer {
            Err(error) => Err(self.link.blamed(lock, error, until).await),
            answer => answer,
        }
    }

    /// An answer with the server's time came to a command sent at `sent`.
    fn heard(&self, time: &redis::Value, sent: Moment) -> Result<u64, CommandError> {
        answers::refused(time)?;
        let time = reply::time(time)?;
        self.link.connection.heard_time(time, sent);
        Ok(time)
    }
}

#[cfg(test)]
mod tests;
