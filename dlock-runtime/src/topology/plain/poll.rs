//! What became of an entry in the queue.
//!
//! Most polls change nothing but their own sign of life: one pipeline sends that, and is the machine's
//! window. If the machine wants to write, or what was read may be of two moments, it is asked again
//! under `WATCH`.

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::answers::{self, held};
use super::seen::{SeenKey, within_lease};
use super::watched::QueueView;
use super::{PlainLink, micros, millis};
use crate::link::command_error::CommandError;
use crate::link::redis::names::LockKeys;
use crate::link::redis::reads::Reads;
use crate::link::redis::reply;
use crate::rules::commands::{Claim, Polled};
use crate::rules::queue;
use crate::values::error::Refusal;

/// The answer by what one pipeline found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PollStep {
    Settled(Polled),
    /// Only a transaction can tell, or this if that is broken too often.
    Open(Polled),
}

impl PlainLink {
    pub(super) async fn poll_claim(
        &self,
        claim: &Claim,
        until: Instant,
    ) -> Result<Polled, CommandError> {
        let (key, own) = (&claim.key, claim.queue_entry());
        let alive = self.server_time().saturating_add(micros(queue::HEARTBEAT));
        let keys = self.link.connection.names.of(key);
        let commands = query(key, &keys, &claim.value, alive, self.reads());
        let (answers, sent) = self.exchange(commands, until).await?;
        self.heard(&answers[3], sent)?;
        let is_once = claim.is_once;
        let looked = match read(&answers, claim)? {
            PollStep::Settled(Polled::Gone { .. }) if is_once => {
                let not_due = self.not_due(claim, until).await?;
                let time = self.server_time();
                return Ok(not_due.map_or(Polled::Gone { time }, Polled::NotDue));
            }
            PollStep::Settled(polled) => return Ok(polled),
            PollStep::Open(looked) => looked,
        };
        let decided = self.run_watched(key, (QueueView::HeadAnd(own), is_once), until, |seen| {
            seen.decide(key, |it| it.poll(claim))
        });
        match decided.await? {
            Some((polled, counter)) => with_epoch(polled, &counter),
            None => Ok(looked),
        }
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
pub(super) fn read(answers: &[Value; 9], claim: &Claim) -> Result<PollStep, CommandError> {
    let [
        first,
        counter,
        left,
        time,
        score,
        beat,
        kept,
        also_kept,
        last,
    ] = answers;
    for answer in [left, time, score] {
        answers::refused(answer)?;
    }
    for answer in [beat, kept, also_kept] {
        match answers::refused(answer) {
            Err(CommandError::Refused(Refusal::OutOfMemory, _)) => {} // it loses its position in the queue at worst
            other => other?,
        }
    }
    // If the key ended between `PTTL` and the last read, the next poll sees that it is absent.
    let mut seen = SeenKey::of_lock(last, left, reply::time(time)?)?;
    seen.own = (*score != Value::Nil).then(|| claim.queue_entry().into());
    seen.others_wait = *kept != Value::Int(0);
    let is_granted_meanwhile = seen.held.is(&claim.value) && !held(first)?.is(&claim.value);
    let decided = seen.decide(&claim.key, |it| it.poll(claim))?;
    let is_settled = decided.is_settled() && !is_granted_meanwhile;
    let polled = with_epoch(decided.answer, counter)?;
    Ok(if is_settled {
        PollStep::Settled(polled)
    } else {
        PollStep::Open(polled)
    })
}

/// The answer as a holder or a waiter may count on it.
fn with_epoch(polled: Polled, counter: &Value) -> Result<Polled, CommandError> {
    Ok(match polled {
        Polled::Yours { time, left, .. } => Polled::Yours {
            time,
            epoch: answers::epoch(counter, time)?,
            left,
        },
        Polled::Queued(busy) => Polled::Queued(within_lease(busy)),
        Polled::Gone { .. } | Polled::NotDue(_) => polled,
    })
}
