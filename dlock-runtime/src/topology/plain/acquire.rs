//! Takes a lock on the shared connection, in one transaction that watches nothing; if another has
//! it, enters the key's queue.
//!
//! Invariant: everything that it creates carries the server's time at which it ends, so what is
//! executed late creates nothing.

use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::answers::{self, KeyContent};
use super::{PlainLink, key_lasts, lease_until, micros, millis};
use crate::link::command_error::CommandError;
use crate::link::redis::names::LockKeys;
use crate::link::redis::reads::Reads;
use crate::link::redis::reply;
use crate::rules::commands::{Acquire, Acquired, Busy, Left};
use crate::rules::queue;
use crate::values::entry;
use crate::values::error::Reason;
use crate::values::ttl;

/// The answer to one attempt to SET the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SetOutcome {
    Settled(Acquired),
    /// Another holder has it. `arrival`: the epoch that was drawn.
    Taken {
        busy: Busy,
        arrival: u64,
    },
    /// A value of another type stands at the key. `left`: its PTTL.
    OtherType {
        time: u64,
        left: i64,
        arrival: u64,
    },
}

impl PlainLink {
    pub(super) async fn take_or_queue(
        &self,
        command: &Acquire,
        until: Instant,
    ) -> Result<Acquired, CommandError> {
        let claim = &command.claim;
        let (mut busy, arrival) = loop {
            let (time, left, arrival) = match self.take(command, until).await? {
                SetOutcome::Settled(acquired) => return Ok(acquired),
                SetOutcome::Taken { busy, arrival } => break (busy, arrival),
                SetOutcome::OtherType {
                    time,
                    left,
                    arrival,
                } => (time, left, arrival),
            };
            let Some(there) = self.meta_at(&claim.key, until).await? else {
                continue; // the set has ended since, and perhaps another has the lock
            };
            if !claim.queues {
                return Ok(Acquired::WrongKind {
                    time,
                    there,
                    is_open: false,
                });
            }
            let (left, value) = (left_of(left, &there), there);
            break (Busy { time, left, value }, arrival);
        };
        if let (Left::Endless, Some(repair)) = (busy.left, command.repair_missing_ttl)
            && self.repair(&claim.key, ttl::millis(repair), until).await?
        {
            busy.left = Left::For(repair);
        }
        let is_waited_for = busy.left != Left::Endless && !entry::is_other_layout(&busy.value);
        if !claim.queues || !is_waited_for {
            return Ok(Acquired::Busy(busy));
        }
        self.enter(command, arrival, until).await?;
        Ok(Acquired::Queued(busy))
    }

    async fn take(&self, command: &Acquire, until: Instant) -> Result<SetOutcome, CommandError> {
        let claim = &command.claim;
        let now = self.server_time();
        let ends = lease_until(now, command.lease.get()).min(command.not_after / 1000);
        let keys = self.link.connection.names.of(&claim.key);
        let times = (now, ends);
        let commands = take(&claim.key, &keys.counter, &claim.value, times, self.reads());
        let (items, sent) = self.transact(commands, until).await?;
        self.heard(&items[2], sent)?;
        let tried = read(&items, command)?;
        if let SetOutcome::Settled(_) = tried {
            self.shorten(command, &items[4], until).await?;
        }
        Ok(tried)
    }

    /// Enters the key's queue. The heartbeat says until when the entry counts.
    async fn enter(
        &self,
        command: &Acquire,
        arrival: u64,
        until: Instant,
    ) -> Result<(), CommandError> {
        let claim = &command.claim;
        let alive = self.server_time().saturating_add(micros(queue::HEARTBEAT));
        let keys = self.link.connection.names.of(&claim.key);
        let alive = alive.min(command.not_after);
        let commands = enter(&keys, &claim.value, arrival, alive);
        let (items, _): ([Value; 4], _) = self.transact(commands, until).await?;
        items.iter().try_for_each(answers::refused)
    }

    /// The meta of the set at a key; `None` if no set stands there any more, and an error if it is
    /// none of ours.
    async fn meta_at(&self, lock: &str, until: Instant) -> Result<Option<String>, CommandError> {
        let mut both = redis::pipe();
        both.cmd("MULTI");
        both.add_command(self.reads().get(lock));
        // By its score: see `meta` in set.lua.
        both.cmd("ZRANGE").arg(lock).arg(&["inf", "inf"]);
        both.arg(&["BYSCORE", "REV", "LIMIT", "0", "1"]);
        both.cmd("EXEC");
        let ([value, last], _) = self.transact(both, until).await?;
        match value {
            Value::ServerError(_) => answers::meta(&last).map(Some),
            _ => Ok(None),
        }
    }

    /// Gives a key without a time to live one; `false`: it has one by now.
    async fn repair(&self, lock: &str, ttl: u64, until: Instant) -> Result<bool, CommandError> {
        self.expire(lock, ttl, ("PTTL", &Value::Int(-1)), until)
            .await
    }

    /// The server's clock was set back since we heard its time, so a key of ours with this `pttl` would
    /// outlive its lease by the step. If it can't be shortened, it is cleaned up, as after any acquire
    /// without a clear answer.
    async fn shorten(
        &self,
        command: &Acquire,
        pttl: &Value,
        until: Instant,
    ) -> Result<(), CommandError> {
        let (claim, lasts) = (&command.claim, millis(key_lasts(command.lease.get())));
        match pttl {
            Value::Int(left) if u64::try_from(*left).is_ok_and(|left| left > lasts) => {}
            _ => return Ok(()),
        }
        let ours = Value::BulkString(claim.value.as_bytes().to_vec());
        let shortened = self.expire(&claim.key, lasts, ("GET", &ours), until);
        if let Ok(true) = shortened.await {
            return Ok(());
        }
        let why =
            "the server's clock was set back, and the key could not be made to end with its lease";
        Err(CommandError::Unclear(Reason::new(why)))
    }

    /// Sets a key's time to live if this command about it is answered like this; `false`: it is not.
    async fn expire(
        &self,
        lock: &str,
        ttl: u64,
        (command, answer): (&str, &Value),
        until: Instant,
    ) -> Result<bool, CommandError> {
        let mut connection = self.checkouts.check_out(&self.plan, until).await?;
        let mut commands = redis::pipe();
        commands.cmd("WATCH").arg(lock);
        commands.cmd(command).arg(lock);
        let (seen, _) = connection.watch(commands, until).await?;
        let [watched, answered] = answers::exactly(seen)?;
        answers::refused(&watched)?;
        if answered != *answer {
            connection.unwatch(until).await?;
            return Ok(false);
        }
        let mut expire = redis::pipe();
        expire.cmd("MULTI");
        expire.cmd("PEXPIRE").arg(lock).arg(ttl);
        expire.cmd("EXEC");
        Ok(answers::executed(connection.end(expire, until).await?)?.is_some())
    }
}

/// `now`: the server's estimated time in µs, the counter's first value; `ends`: when the key ends,
/// in ms.
fn take(lock: &str, counter: &str, value: &str, (now, ends): (u64, u64), reads: Reads) -> Pipeline {
    let mut commands = redis::pipe();
    commands.cmd("MULTI");
    commands.cmd("SET").arg(counter).arg(now).arg("NX");
    commands.cmd("INCR").arg(counter);
    commands.cmd("TIME");
    commands.cmd("SET").arg(lock).arg(value).arg("NX");
    commands.arg("PXAT").arg(ends);
    commands.cmd("PTTL").arg(lock);
    commands.add_command(reads.get(lock));
    commands.cmd("EXEC");
    commands
}

/// Reads the answers to [`take`]. `SET … PXAT` answers OK also if that time is over and it creates
/// nothing, so PTTL and GET decide.
pub(super) fn read(items: &[Value; 6], command: &Acquire) -> Result<SetOutcome, CommandError> {
    let [_, counter, time, _, pttl, value] = items;
    answers::refused(time)?;
    let time = reply::time(time)?;
    let epoch = answers::epoch(counter, time)?;
    answers::refused(pttl)?;
    let &Value::Int(left) = pttl else {
        return Err(reply::unexpected("PTTL", pttl));
    };
    let value = match answers::held_for(value, pttl)? {
        KeyContent::By(value) => value,
        KeyContent::Nothing => return Ok(SetOutcome::Settled(Acquired::Late { time })),
        KeyContent::OtherType => {
            return Ok(SetOutcome::OtherType {
                time,
                left,
                arrival: epoch,
            });
        }
    };
    if *value == *command.claim.value {
        let lease = command.lease.as_millis();
        let left = u64::try_from(left).unwrap_or_default();
        return Ok(SetOutcome::Settled(if left >= lease {
            Acquired::Granted { time, epoch }
        } else {
            // Our estimate of the server's time was too early.
            let left = Duration::from_millis(left);
            Acquired::Yours { time, epoch, left }
        }));
    }
    Ok(SetOutcome::Taken {
        busy: Busy {
            time,
            left: left_of(left, &value),
            value,
        },
        arrival: epoch,
    })
}

/// How long a value's holder may still count on the lock: a key of ours outlives its lease a little.
pub(super) fn left_of(pttl: i64, value: &str) -> Left {
    let left = match u64::try_from(pttl) {
        Ok(left) => Duration::from_millis(left),
        Err(_) if pttl == -1 => return Left::Endless,
        Err(_) => Duration::ZERO, // it has lapsed
    };
    let lease = entry::read(value).map(|it| it.lease);
    let ours = lease.filter(|lease| left <= key_lasts(*lease));
    Left::For(ours.map_or(left, |lease| left.min(lease)))
}

fn enter(keys: &LockKeys<'_>, value: &str, arrival: u64, alive: u64) -> Pipeline {
    let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
    let kept = millis(queue::QUEUE_TTL);
    let mut commands = redis::pipe();
    commands.cmd("MULTI");
    commands
        .cmd("ZADD")
        .arg(&queue)
        .arg("NX")
        .arg(arrival)
        .arg(value);
    commands.cmd("PEXPIRE").arg(&queue).arg(kept);
    commands.cmd("ZADD").arg(&heartbeats).arg(alive).arg(value);
    commands.cmd("PEXPIRE").arg(&heartbeats).arg(kept);
    commands.cmd("EXEC");
    commands
}
