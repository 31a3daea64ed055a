//! What became of an entry in the queue.
//!
//! It grants nothing to itself: if it finds the key free, it gives the lock to the first entry, whose
//! own poll finds it.

use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::acquire::{left_of, millis};
use super::answers::{self, KeyContent, held};
use super::{PlainLink, micros};
use crate::link::command_error::CommandError;
use crate::link::redis::names::LockKeys;
use crate::link::redis::reads::Reads;
use crate::link::redis::reply;
use crate::rules::commands::{Busy, Claim, Keep, Left, Polled};
use crate::rules::queue;
use crate::values::error::Refusal;

/// How often one poll reads the key: the lock may change hands while it does.
const READS: u32 = 2;

/// What one query about the key and the queue found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PollStep {
    Settled(Polled),
    /// Nobody has the lock, and the entry waits.
    Free(Busy),
    /// It was granted between the first and the last answer.
    Again,
}

impl PlainLink {
    pub(super) async fn poll_claim(
        &self,
        claim: &Claim,
        until: Instant,
    ) -> Result<Polled, CommandError> {
        let mut last = None;
        for _ in 0..READS {
            let alive = self.server_time().saturating_add(micros(queue::HEARTBEAT));
            let keys = self.link.connection.names.of(&claim.key);
            let commands = query(&claim.key, &keys, &claim.value, alive, self.reads());
            let (answers, sent) = self.exchange(commands, until).await?;
            self.heard(&answers[3], sent)?;
            match read(&answers, &claim.value)? {
                PollStep::Settled(polled) => return Ok(polled),
                PollStep::Again => {}
                PollStep::Free(busy) => {
                    last = Some(busy);
                    self.give_back(&claim.key, None, Keep::NOT, until).await?;
                }
            }
        }
        let busy = last.unwrap_or_else(|| Busy {
            time: self.server_time(),
            left: Left::For(Duration::ZERO),
            value: String::new(),
        });
        Ok(Polled::Queued(busy))
    }
}

/// Not a transaction: out of memory, none can be begun. If the entry holds the lock at the first and
/// at the last command, it held it at all between, because it is granted once.
fn query(lock: &str, keys: &LockKeys<'_>, value: &str, alive: u64, reads: Reads) -> Pipeline {
    let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
    let kept = millis(queue::QUEUE_TTL);
    let mut commands = redis::pipe();
    commands.add_command(reads.get(lock));
    commands.cmd("GET").arg(&*keys.counter);
    commands.cmd("PTTL").arg(lock);
    commands.cmd("TIME");
    commands.cmd("ZSCORE").arg(&queue).arg(value);
    commands.cmd("ZADD").arg(&heartbeats).arg("XX");
    commands.arg(alive).arg(value);
    commands.cmd("PEXPIRE").arg(&queue).arg(kept);
    commands.cmd("PEXPIRE").arg(&heartbeats).arg(kept);
    commands.add_command(reads.get(lock));
    commands
}

/// Reads the answers to [`query`].
pub(super) fn read(answers: &[Value; 9], value: &str) -> Result<PollStep, CommandError> {
    let [first, counter, left, time, score, beat, rest @ .., last] = answers;
    for answer in [left, time, score] {
        answers::refused(answer)?;
    }
    for answer in std::iter::once(beat).chain(rest) {
        match answers::refused(answer) {
            Err(CommandError::Refused(Refusal::OutOfMemory, _)) => {} // it loses its position in the queue at worst
            other => other?,
        }
    }
    let time = reply::time(time)?;
    let &Value::Int(pttl) = left else {
        return Err(reply::unexpected("PTTL", left));
    };
    // If the key ended between `PTTL` and the last read, the next poll sees that it is absent.
    let (first, last) = (held(first)?, answers::held_for(last, left)?);
    if last.is(value) {
        if !first.is(value) {
            return Ok(PollStep::Again);
        }
        let left = Duration::from_millis(u64::try_from(pttl).unwrap_or_default());
        let epoch = answers::epoch(counter, time)?;
        return Ok(PollStep::Settled(Polled::Yours { time, epoch, left }));
    }
    if *score == Value::Nil {
        return Ok(PollStep::Settled(Polled::Gone { time }));
    }
    let value = match last {
        KeyContent::Nothing => {
            return Ok(PollStep::Free(Busy {
                time,
                left: Left::For(Duration::ZERO),
                value: String::new(),
            }));
        }
        KeyContent::By(value) => value,
        KeyContent::OtherType => String::new(),
    };
    let left = left_of(pttl, &value);
    Ok(PollStep::Settled(Polled::Queued(Busy {
        time,
        left,
        value,
    })))
}
