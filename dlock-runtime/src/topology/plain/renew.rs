//! Lengthens leases, in transactions over up to [`RENEWALS_AT_ONCE`](crate::link::RENEWALS_AT_ONCE)
//! keys.
//!
//! Invariant: a lease is never shortened, and no key is created. A key that others keep changing
//! fails by itself: a transaction that was broken is halved.

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::answers;
use super::seen::SeenKey;
use super::{PlainLink, checkout::CheckedOut, left};
use crate::link::command_error::CommandError;
use crate::link::redis::reads::Reads;
use crate::link::redis::reply;
use crate::rules::commands::{Renewal, Renewed};
use crate::values::error::Refusal;

/// What to do about one key, by its value and PTTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RenewalStep {
    Lengthen,
    Done(Renewed),
}

impl PlainLink {
    /// One answer per item, in order.
    pub(super) async fn renew_all(
        &self,
        items: &[Renewal],
        until: Instant,
    ) -> Result<Vec<Renewed>, CommandError> {
        let mut connection = self.checkouts.check_out(&self.plan, until).await?;
        // Groups of neighbours, the first one last.
        let names = &self.link.connection.names;
        let group = |item: &Renewal| names.script_group(&item.claim.key);
        let groups = items.chunk_by(|one, next| group(one) == group(next));
        let mut groups: Vec<&[Renewal]> = groups.rev().collect();
        let mut renewed = Vec::with_capacity(items.len());
        while let Some(group) = groups.pop() {
            match transaction(&mut connection, group, self.reads(), until).await {
                Ok(Some(outcomes)) => renewed.extend(outcomes),
                Ok(None) if group.len() > 1 => {
                    let (first, second) = group.split_at(group.len() / 2);
                    groups.extend([second, first]);
                }
                // Somebody changed this very key: try again while there is time.
                Ok(None) if Instant::now() < until => groups.push(group),
                Ok(None) => renewed.push(Renewed::Failed),
                Err(CommandError::Refused(Refusal::OutOfMemory, _)) => {
                    renewed.extend(self.out_of_memory(group, until).await?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(renewed)
    }

    /// Out of memory, no transaction can be begun, but `PEXPIRE` is executed. With `GT` (Redis 7)
    /// it shortens no lease. It is sent for keys that were just seen to have our value: if one
    /// changes hands before it is executed, the next holder's lease is the longer for it.
    async fn out_of_memory(
        &self,
        items: &[Renewal],
        until: Instant,
    ) -> Result<Vec<Renewed>, CommandError> {
        let (connection, reads) = (&self.link.connection, self.reads());
        let (before, _) = connection
            .exchange(query(items, reads), left(until))
            .await?;
        let before = steps(&before, items)?;
        if !before.contains(&RenewalStep::Lengthen) {
            return Ok(outcomes(&before, Vec::new()));
        }
        let mut lengthen = redis::pipe();
        for item in to_lengthen(items, &before) {
            lengthen.cmd("PEXPIRE").arg(&*item.claim.key);
            lengthen.arg(item.ttl.as_millis()).arg("GT");
        }
        let (lengthened, _) = connection.exchange(lengthen, left(until)).await?;
        let (after, _) = connection
            .exchange(query(items, reads), left(until))
            .await?;
        let after = steps(&after, items)?;
        let outcomes = outcomes(&before, lengthened).into_iter();
        let still = outcomes.zip(after).map(|(outcome, after)| match after {
            RenewalStep::Done(Renewed::NotOurs) => Renewed::NotOurs,
            _ => outcome,
        });
        Ok(still.collect())
    }
}

/// `None`: one of the keys was changed meanwhile, and nothing was done.
async fn transaction(
    connection: &mut CheckedOut<'_>,
    items: &[Renewal],
    reads: Reads,
    until: Instant,
) -> Result<Option<Vec<Renewed>>, CommandError> {
    let mut commands = redis::pipe();
    commands.cmd("WATCH");
    for item in items {
        commands.arg(&*item.claim.key);
    }
    for command in query(items, reads).cmd_iter() {
        commands.add_command(command.clone());
    }
    let (seen, _) = connection.watch(commands, until).await?;
    let Some((watched, seen)) = seen.split_first() else {
        return Err(reply::unexpected("WATCH", &Value::Nil));
    };
    answers::refused(watched)?;
    let steps = steps(seen, items)?;
    let mut lengthen = redis::pipe();
    lengthen.cmd("MULTI");
    for item in to_lengthen(items, &steps) {
        lengthen.cmd("PEXPIRE").arg(&*item.claim.key);
        lengthen.arg(item.ttl.as_millis());
    }
    lengthen.cmd("EXEC");
    let executed = answers::executed(connection.end(lengthen, until).await?)?;
    Ok(executed.map(|lengthened| outcomes(&steps, lengthened)))
}

fn query(items: &[Renewal], reads: Reads) -> Pipeline {
    let mut query = redis::pipe();
    for item in items {
        query.add_command(reads.get(&item.claim.key));
        query.cmd("PTTL").arg(&*item.claim.key);
    }
    query
}

fn to_lengthen<'a>(
    items: &'a [Renewal],
    steps: &[RenewalStep],
) -> impl Iterator<Item = &'a Renewal> {
    let each = items.iter().zip(steps);
    each.filter_map(|(item, step)| (*step == RenewalStep::Lengthen).then_some(item))
}

/// What to do about each key, by the answers to [`query`].
pub(super) fn steps(seen: &[Value], items: &[Renewal]) -> Result<Vec<RenewalStep>, CommandError> {
    if seen.len() != 2 * items.len() {
        return Err(reply::unexpected("GET", &Value::Nil));
    }
    let step = |(seen, item): (&[Value], &Renewal)| match seen {
        [value, pttl] => step(value, pttl, item),
        _ => Ok(RenewalStep::Done(Renewed::Failed)),
    };
    seen.chunks(2).zip(items).map(step).collect()
}

fn step(value: &Value, pttl: &Value, item: &Renewal) -> Result<RenewalStep, CommandError> {
    let failed = RenewalStep::Done(Renewed::Failed);
    // Both ends are counted from now.
    let seen = match SeenKey::of_lock(value, pttl, 0) {
        // A missing right to one key, or any other error of it, is that item's own.
        Err(CommandError::Refused(refusal, _)) if refusal != Refusal::ReadOnly => {
            return Ok(failed);
        }
        Err(_) if !matches!(pttl, Value::Int(_) | Value::ServerError(_)) => return Ok(failed),
        seen => seen?,
    };
    let decided = seen.decide(&item.claim.key, |it| it.renew(item))?;
    Ok(if decided.is_settled() {
        RenewalStep::Done(decided.answer)
    } else {
        RenewalStep::Lengthen
    })
}

/// `lengthened`: the answers to `PEXPIRE`, for those that were to be lengthened.
fn outcomes(steps: &[RenewalStep], lengthened: Vec<Value>) -> Vec<Renewed> {
    let mut lengthened = lengthened.into_iter();
    let outcome = |step: &RenewalStep| match step {
        RenewalStep::Done(outcome) => *outcome,
        RenewalStep::Lengthen => match lengthened.next() {
            Some(Value::Int(1)) => Renewed::Yes,
            _ => Renewed::Failed,
        },
    };
    steps.iter().map(outcome).collect()
}
