//! A connection to PostgreSQL 13 or newer: locks are rows of a table, decided by the server's machine.
//!
//! `machine` reads the rows of a command, lets `rules` decide, and writes the difference if nobody changed
//! them meanwhile; `session` is one connection, on which the statements of all callers follow each other,
//! each a transaction of its own; `connect` makes one; `statements` has the texts, `errors` what an answer
//! means, `push` the messages that wake waiters, `questions` what nobody waits for. What is not decided by
//! the machine is each in one statement: exclusive locks that nobody waits for, which go through `batches` or,
//! if they are contended, by themselves; their `renewals`; and signs of life.
//!
//! Never in this folder: a transaction over several round trips, which would keep rows locked while its
//! client stands still; a statement that waits for a row.

mod batches;
mod connect;
mod errors;
mod machine;
mod push;
mod questions;
mod renewals;
mod session;
mod statements;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use self::batches::Order;
use self::machine::micros;
use self::push::OutgoingNotes;
use self::statements::Ask;
use super::batched::{BatchedAnswer, ReleaseCommand};
use super::by_machine::by_machine;
use super::command_error::CommandError;
use super::{Answer, Link, LinkCommand, LinkReply, not_offered, replied};
use crate::rules::Server;
use crate::rules::commands::{Acquire, Acquired, Busy, Claim, GivenBack, Keep, Left, Polled};
use crate::values::entry::{self, META};
use crate::values::moment::Moment;
use crate::values::report::{Notice, Scanned, Sought};

pub(crate) use self::connect::{PostgresPlan, check_in, migrate};
pub(crate) use self::session::PostgresLink;
pub(crate) use self::statements::{check, migration};

/// How many keys one step of a scan reads.
const KEYS_AT_ONCE: i64 = 1000;

impl Link for PostgresLink {
    fn server_time_at(&self, now: Moment) -> u64 {
        self.time_at(now)
    }

    fn runtime(&self) -> Option<&Handle> {
        Some(&self.runtime)
    }

    fn address(&self) -> Option<&Arc<str>> {
        self.channel.as_ref()
    }

    fn acquire<'a>(
        &'a self,
        command: &'a Acquire,
        within: Duration,
    ) -> BatchedAnswer<'a, &'a Acquire, Acquired> {
        BatchedAnswer::Boxed(Box::pin(async move {
            let until = Instant::now() + within;
            let claim = &command.claim;
            self.asked.add(claim);
            let acquired = self.acquire_until(command, until).await;
            let is_over = match &acquired {
                Ok(Acquired::Granted { .. } | Acquired::Yours { .. } | Acquired::Queued(_)) => {
                    false
                }
                Ok(_) => true,
                Err(error) => !error.leaves_open(),
            };
            if is_over {
                self.asked.remove(claim);
            }
            acquired
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
            self.asked.remove(claim);
            let (key, value) = ([&*claim.key], [&*claim.value]);
            let mut known = None;
            if keep == Keep::NOT && !claim.kind().is_shared() {
                let given = if self.contended.contains(&claim.key) {
                    let (given, rows) = self.change_or_read(claim, None, until).await?;
                    known = Some(rows);
                    given
                } else {
                    let given = self.ordered(Order::give(claim), until).await?;
                    given.map(|(_, found)| found)
                };
                if let Some(found) = given {
                    return Ok(GivenBack {
                        found: found > 0,
                        ..GivenBack::default()
                    });
                }
                self.contended.note(&claim.key);
            }
            let release = |server: &mut Server, time, outbox: &mut OutgoingNotes| {
                (server.release(claim, keep, time, outbox), Vec::new())
            };
            Box::pin(self.run((&key, &value), u64::MAX, until, known, release)).await
        }))
    }

    fn call<'a>(&'a self, command: LinkCommand<'a>, within: Duration) -> Answer<'a, LinkReply> {
        match command {
            LinkCommand::Vote(_) | LinkCommand::Adopt { .. } => {
                not_offered("a node of a quorum is a Redis server")
            }
            LinkCommand::Write(..) => not_offered("a guarded write has commands of Redis"),
            LinkCommand::Heartbeat(claim) => replied(self.beat(claim, within)),
            LinkCommand::Renew(items) => replied(self.renew(items, within)),
            LinkCommand::Scan {
                sought,
                prefix,
                cursor,
            } => replied(self.scan(sought, prefix, cursor, within)),
            LinkCommand::TellEvicted(claim) => replied(self.tell_evicted(claim, within)),
            LinkCommand::Ping => replied(self.ping(within)),
            LinkCommand::Check => replied(self.query_settings(within)),
            command => Box::pin(self.execute(command, within)),
        }
    }
}

impl PostgresLink {
    async fn acquire_until(
        &self,
        command: &Acquire,
        until: Instant,
    ) -> Result<Acquired, CommandError> {
        let claim = &command.claim;
        let keys = (&[&*claim.key][..], &[&*claim.value][..]);
        let mut known = None;
        if !claim.is_once && !claim.kind().is_shared() {
            let taken = if self.contended.contains(&claim.key) {
                let (taken, rows) = self.change_or_read(claim, Some(command), until).await?;
                let time = rows.0;
                known = Some(rows);
                taken.map(|epoch| (time, epoch))
            } else {
                self.ordered(Order::take(command), until).await?
            };
            if let Some((time, epoch)) = taken {
                return Ok(Acquired::Granted { time, epoch });
            }
            self.contended.note(&claim.key);
        }
        let acquire = |server: &mut Server, time, outbox: &mut OutgoingNotes| {
            let acquired = server.acquire(command, time, outbox);
            let told = acquired.epoch().map(|epoch| (&*claim.key, epoch));
            (acquired, told.into_iter().collect())
        };
        Box::pin(self.run(keys, command.not_after, until, known, acquire)).await
    }

    /// Whatever the machine alone decides.
    async fn execute(
        &self,
        command: LinkCommand<'_>,
        within: Duration,
    ) -> Result<LinkReply, CommandError> {
        let until = Instant::now() + within;
        let (keys, own, not_after) = about(command);
        if let LinkCommand::AcquireAll(commands) = command {
            for it in commands {
                self.asked.add(&it.claim);
            }
        }
        let run = |server: &mut _, time, outbox: &mut OutgoingNotes| {
            let reply = by_machine(command, server, time, outbox);
            let reply = reply.unwrap_or(LinkReply::Pong(()));
            let told = told(command, &reply);
            (reply, told)
        };
        let reply = if changes_nothing(command) {
            self.look(&keys, until, |server, time| {
                run(server, time, &mut OutgoingNotes::default()).0
            })
            .await
        } else {
            self.run((&keys, &own), not_after, until, None, run).await
        };
        let mut reply = reply;
        if let (LinkCommand::Inspect { keys: [key], .. }, Ok(LinkReply::Inspected(found))) =
            (command, &mut reply)
        {
            for stored in found {
                // Only people read it.
                let _ = self.name_keepers((key, stored), until).await;
            }
        }
        match (command, &reply) {
            (
                LinkCommand::Poll(claim),
                Ok(LinkReply::Polled(Polled::Gone { .. } | Polled::NotDue(_))),
            )
            | (LinkCommand::Cancel { claim, .. }, _) => self.asked.remove(claim),
            (LinkCommand::AcquireAll(commands), Ok(LinkReply::AcquiredAll(answer)))
                if answer.epochs().is_empty() =>
            {
                for it in commands {
                    self.asked.remove(&it.claim);
                }
            }
            _ => {}
        }
        reply
    }

    /// Whether the holder of an exclusive lock keeps the waiter waiting; anything else a poll tells.
    async fn beat(&self, claim: &Claim, within: Duration) -> Result<Option<Polled>, CommandError> {
        let until = Instant::now() + within;
        let (rows, sent) = self
            .query(Ask::Beat, &[&&*claim.key, &claim.queue_entry()], until)
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let time = self.heard(row, 0, sent)?;
        let waits: bool = session::read(row, 1)?;
        let (holder, ends): (Option<String>, Option<i64>) =
            (session::read(row, 2)?, session::read(row, 3)?);
        let ends = ends.and_then(|it| u64::try_from(it).ok());
        let (Some(value), Some(ends)) = (holder, ends) else {
            return Ok(None);
        };
        let left = ends.saturating_sub(time).div_ceil(1000);
        if !waits || left == 0 || value.is_empty() || value.starts_with(META) {
            return Ok(None);
        }
        let left = Left::For(Duration::from_millis(left));
        Ok(Some(Polled::Queued(Busy { time, left, value })))
    }

    async fn scan(
        &self,
        sought: Sought,
        prefix: &str,
        after: &str,
        within: Duration,
    ) -> Result<Scanned, CommandError> {
        let until = Instant::now() + within;
        let records = matches!(sought, Sought::Records);
        let (rows, _) = self
            .query(
                Ask::Keys,
                &[&prefix, &after, &KEYS_AT_ONCE, &records],
                until,
            )
            .await?;
        let keys: Vec<String> = rows
            .iter()
            .map(|row| session::read(row, 1))
            .collect::<Result<_, _>>()?;
        let is_last = i64::try_from(keys.len()).is_ok_and(|it| it < KEYS_AT_ONCE);
        let last = keys.last().filter(|_| !is_last);
        Ok(Scanned {
            cursor: last.cloned().unwrap_or_default(),
            keys,
        })
    }

    async fn tell_evicted(&self, claim: &Claim, within: Duration) -> Result<Notice, CommandError> {
        let mut outbox = OutgoingNotes::default();
        let holder = entry::of_holder(&claim.value);
        if !holder.is_some_and(|it| outbox.evicted(it.address, &claim.key)) {
            return Ok(Notice::NoAddress);
        }
        let (channels, messages) = (outbox.channels, outbox.messages);
        let until = Instant::now() + within;
        let sent = self
            .query(Ask::Notify, &[&channels, &messages], until)
            .await;
        // A hold of this pool is not among what it asked for any more, since it was released.
        if let Some(listener) = self.asked.listener() {
            listener.evicted(&claim.key, &claim.value, false);
        }
        Ok(sent.map_or(Notice::Failed, |_| Notice::Sent))
    }

    pub(crate) async fn ping(&self, within: Duration) -> Result<(), CommandError> {
        let until = Instant::now() + within;
        self.look(&[], until, |_, _| ()).await
    }
}

/// The keys that a command is about, the entries of its own claims, and the time after which it creates
/// nothing.
fn about<'a>(command: LinkCommand<'a>) -> (Vec<Arc<str>>, Vec<&'a str>, u64) {
    let one = |claim: &'a Claim| (vec![claim.key.clone()], vec![&*claim.value], u64::MAX);
    match command {
        LinkCommand::AcquireAll(commands) => (
            commands.iter().map(|it| it.claim.key.clone()).collect(),
            commands.iter().map(|it| &*it.claim.value).collect(),
            commands.iter().map(|it| it.not_after).min().unwrap_or(0),
        ),
        LinkCommand::Poll(claim)
        | LinkCommand::Cancel { claim, .. }
        | LinkCommand::Downgrade { claim, .. }
        | LinkCommand::Holds(claim)
        | LinkCommand::NoteRun { claim, .. } => one(claim),
        LinkCommand::Inspect { keys, .. } => (
            keys.iter().map(|it| Arc::from(*it)).collect(),
            Vec::new(),
            0,
        ),
        command => (vec![command.key().into()], Vec::new(), u64::MAX),
    }
}

fn changes_nothing(command: LinkCommand<'_>) -> bool {
    matches!(
        command,
        LinkCommand::Holds(_)
            | LinkCommand::LastRun(_)
            | LinkCommand::Read(_)
            | LinkCommand::Inspect { .. }
    )
}

/// The epochs that a reply tells, with their keys.
fn told<'a>(command: LinkCommand<'a>, reply: &LinkReply) -> Vec<(&'a str, u64)> {
    match (command, reply) {
        (LinkCommand::Poll(claim), LinkReply::Polled(Polled::Yours { epoch, .. })) => {
            vec![(&claim.key, *epoch)]
        }
        (LinkCommand::AcquireAll(commands), LinkReply::AcquiredAll(answer)) => {
            let keys = commands.iter().map(|it| &*it.claim.key);
            keys.zip(answer.epochs().iter().copied()).collect()
        }
        _ => Vec::new(),
    }
}

/// As the columns are.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
