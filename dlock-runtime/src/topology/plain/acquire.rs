//! Takes a lock on the shared connection, in one transaction that watches nothing; if another has
//! it, enters the key's queue.
//!
//! Invariant: everything that it creates carries the server's time at which it ends, so what is
//! executed late creates nothing.

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::answers::{self, KeyContent};
use super::seen::{Decided, SeenKey, within_lease};
use super::watched::{QueueView, unsettled};
use super::{PlainLink, key_lasts, lease_until, micros, millis};
use crate::link::command_error::CommandError;
use crate::link::redis::reads::Reads;
use crate::link::redis::reply;
use crate::rules::commands::{Acquire, Acquired, Claim, Keep, NotDue};
use crate::rules::queue;
use crate::rules::window::StoredChange;
use crate::values::error::Reason;

/// What one attempt to SET the lock came to.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) seen: SeenKey,
    pub(super) decided: Decided<Acquired>,
    /// Was drawn, for a grant or as the arrival in the queue.
    epoch: u64,
}

impl PlainLink {
    pub(super) async fn take_or_queue(
        &self,
        command: &Acquire,
        until: Instant,
    ) -> Result<Acquired, CommandError> {
        let claim = &command.claim;
        let (decided, arrival) = loop {
            let Tried {
                seen,
                mut decided,
                epoch,
            } = self.take(command, until).await?;
            if let (KeyContent::OtherType, Acquired::Busy(busy) | Acquired::Queued(busy)) =
                (&seen.held, &mut decided.answer)
            {
                let Some(there) = self.meta_at(&claim.key, until).await? else {
                    continue; // the set has ended since, and perhaps another has the lock
                };
                // By hand, because a window of a set would have to have all that it holds.
                if !claim.queues {
                    return Ok(Acquired::WrongKind {
                        time: seen.time,
                        there,
                        is_open: false,
                    });
                }
                busy.value = there;
            }
            break (decided, epoch);
        };
        // Looked at behind the lock: if the claim has that, nobody else writes the record now.
        let not_due = match decided.answer {
            Acquired::Late { .. } => Ok(None),
            _ if claim.is_once => self.not_due(claim, until).await,
            _ => Ok(None),
        };
        if !matches!(not_due, Ok(None)) && decided.answer.epoch().is_some() {
            self.release_claim(claim, Keep::NOT, until).await?;
        }
        if let Some(not_due) = not_due? {
            return Ok(Acquired::NotDue(not_due));
        }
        for change in &decided.changes {
            match change {
                StoredChange::Waiter(waiter) => {
                    let alive = waiter.alive_until.min(command.not_after);
                    self.enter(claim, arrival, alive, until).await?;
                }
                StoredChange::Value { .. } => self.repair(command, until).await?,
                _ => {} // what another holds is not changed otherwise
            }
        }
        Ok(decided.answer)
    }

    /// Why a claim may not run now, by the record of the last run.
    pub(super) async fn not_due(
        &self,
        claim: &Claim,
        until: Instant,
    ) -> Result<Option<NotDue>, CommandError> {
        let looked = self.run_watched(&claim.key, (QueueView::None, true), until, |seen| {
            seen.decide(&claim.key, |it| it.not_due(claim))
        });
        let (not_due, _) = looked.await?.ok_or_else(unsettled)?;
        Ok(not_due)
    }

    async fn take(&self, command: &Acquire, until: Instant) -> Result<Tried, CommandError> {
        let claim = &command.claim;
        let now = self.server_time();
        let ends = lease_until(now, command.lease.get()).min(command.not_after / 1000);
        let keys = self.link.connection.names.of(&claim.key);
        let times = (now, ends);
        let commands = take(&claim.key, &keys.counter, &claim.value, times, self.reads());
        let (items, sent) = self.transact(commands, until).await?;
        self.heard(&items[2], sent)?;
        let tried = read(&items, command)?;
        if tried.seen.held.is(&claim.value) {
            self.shorten(command, &tried.seen, until).await?;
        }
        Ok(tried)
    }

    /// Enters the key's queue. Not under `WATCH`, which would be a round trip more: if the lock is free by
    /// then, the entry's poll finds it. `alive`: until when it counts.
    async fn enter(
        &self,
        claim: &Claim,
        arrival: u64,
        alive: u64,
        until: Instant,
    ) -> Result<(), CommandError> {
        let (keys, value) = (self.link.connection.names.of(&claim.key), &*claim.value);
        let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
        let kept = millis(queue::QUEUE_TTL);
        let mut commands = redis::pipe();
        commands.cmd("MULTI");
        commands.cmd("ZADD").arg(&queue).arg("NX");
        commands.arg(arrival).arg(value);
        commands.cmd("PEXPIRE").arg(&queue).arg(kept);
        commands.cmd("ZADD").arg(&heartbeats).arg(alive).arg(value);
        commands.cmd("PEXPIRE").arg(&heartbeats).arg(kept);
        commands.cmd("EXEC");
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

    async fn repair(&self, command: &Acquire, until: Instant) -> Result<(), CommandError> {
        let key = &command.claim.key;
        let repair = self.run_watched(key, (QueueView::None, false), until, |seen| {
            seen.decide(key, |it| it.repair(command))
        });
        repair.await.map(drop)
    }

    /// A key that ends later than its lease can: the server's clock was set back since we heard its time.
    /// If it can't be shortened, it is cleaned up, as after any acquire without a clear answer. The
    /// machine has no such rule: what a script sets ends by its own clock.
    async fn shorten(
        &self,
        command: &Acquire,
        seen: &SeenKey,
        until: Instant,
    ) -> Result<(), CommandError> {
        let (key, value) = (&command.claim.key, &command.claim.value);
        let lasts = key_lasts(command.lease.get());
        if !u64::try_from(seen.pttl).is_ok_and(|left| left > millis(lasts)) {
            return Ok(());
        }
        let shortened = self.run_watched(key, (QueueView::None, false), until, |seen| {
            let ends = Some(seen.time.saturating_add(micros(lasts)));
            let (is_ours, value) = (seen.held.is(value), value.clone());
            let change = is_ours.then_some(StoredChange::Value { value, ends });
            Ok(Decided {
                answer: is_ours,
                changes: change.into_iter().collect(),
                draws: false,
                again: false,
            })
        });
        if let Ok(Some((true, _))) = shortened.await {
            return Ok(());
        }
        let why =
            "the server's clock was set back, and the key could not be made to end with its lease";
        Err(CommandError::Unclear(Reason::new(why)))
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
pub(super) fn read(items: &[Value; 6], command: &Acquire) -> Result<Tried, CommandError> {
    let [_, counter, time, _, pttl, value] = items;
    answers::refused(time)?;
    let time = reply::time(time)?;
    let epoch = answers::epoch(counter, time)?;
    let mut seen = SeenKey::of_lock(value, pttl, time)?;
    seen.others_wait = true;
    let mut decided = seen.decide(&command.claim.key, |it| it.acquire(command))?;
    decided.answer = match decided.answer {
        _ if seen.held == KeyContent::Nothing => Acquired::Late { time },
        // It is so by this SET, and for less than the lease if our estimate of the server's time was
        // too early.
        Acquired::Yours { left, .. } if left >= command.lease.get() => {
            Acquired::Granted { time, epoch }
        }
        Acquired::Yours { left, .. } => Acquired::Yours { time, epoch, left },
        Acquired::Busy(busy) => Acquired::Busy(within_lease(busy)),
        Acquired::Queued(busy) => Acquired::Queued(within_lease(busy)),
        other => other,
    };
    Ok(Tried {
        seen,
        decided,
        epoch,
    })
}
