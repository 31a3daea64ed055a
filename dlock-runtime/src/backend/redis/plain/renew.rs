//! Lengthens leases, in transactions over up to [`RENEWALS_AT_ONCE`](crate::backend::RENEWALS_AT_ONCE)
//! keys.
//!
//! Invariant: a lease is lengthened only while its key has its value, and never shortened. A key
//! that others keep changing fails by itself: a transaction that was broken is halved.

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::answers::{self, Held, held};
use super::{PlainLink, checkout::CheckedOut};
use crate::backend::command_error::CommandError;
use crate::backend::redis::reply;
use crate::policy::commands::{Renewal, Renewed};
use crate::values::error::Refusal;

/// What to do about one key, by its value and PTTL.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
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
        let mut groups = vec![items];
        let mut renewed = Vec::with_capacity(items.len());
        while let Some(group) = groups.pop() {
            match renew(&mut connection, group, until).await? {
                Some(outcomes) => renewed.extend(outcomes),
                None if group.len() > 1 => {
                    let (first, second) = group.split_at(group.len() / 2);
                    groups.extend([second, first]);
                }
                // Somebody changed this very key: look at it again while there is time.
                None if Instant::now() < until => groups.push(group),
                None => renewed.push(Renewed::Failed),
            }
        }
        Ok(renewed)
    }
}

/// `None`: one of the keys was changed meanwhile, and nothing was done.
async fn renew(
    connection: &mut CheckedOut<'_>,
    items: &[Renewal],
    until: Instant,
) -> Result<Option<Vec<Renewed>>, CommandError> {
    let (answers, _) = connection.watch(look(items), until).await?;
    let Some((watched, answers)) = answers.split_first() else {
        return Err(reply::unexpected("WATCH", &Value::Nil));
    };
    answers::refused(watched)?;
    let steps = answers.chunks(2).zip(items).map(|(seen, item)| match seen {
        [value, pttl] => step(value, pttl, item),
        _ => Err(reply::unexpected("PTTL", &Value::Nil)),
    });
    let steps: Vec<Step> = steps.collect::<Result<_, _>>()?;
    if steps.len() != items.len() {
        return Err(reply::unexpected("WATCH", watched));
    }
    let mut lengthen = redis::pipe();
    lengthen.cmd("MULTI");
    for (item, _) in items
        .iter()
        .zip(&steps)
        .filter(|(_, it)| **it == Step::Lengthen)
    {
        let ttl = item.ttl.as_millis();
        lengthen.cmd("PEXPIRE").arg(&*item.claim.key).arg(ttl);
    }
    lengthen.cmd("EXEC");
    let Some(executed) = answers::executed(connection.end(lengthen, until).await?)? else {
        return Ok(None);
    };
    let mut executed = executed.into_iter();
    let outcomes = steps.into_iter().map(|step| match step {
        Step::Done(outcome) => outcome,
        Step::Lengthen => match executed.next() {
            Some(Value::Int(1)) => Renewed::Yes,
            _ => Renewed::Failed,
        },
    });
    Ok(Some(outcomes.collect()))
}

fn look(items: &[Renewal]) -> Pipeline {
    let mut look = redis::pipe();
    look.cmd("WATCH");
    for item in items {
        look.arg(&*item.claim.key);
    }
    for item in items {
        look.cmd("GET").arg(&*item.claim.key);
        look.cmd("PTTL").arg(&*item.claim.key);
    }
    look
}

pub(super) fn step(value: &Value, pttl: &Value, item: &Renewal) -> Result<Step, CommandError> {
    match held(value) {
        Ok(Held::By(value)) if *value == *item.claim.value => {}
        Ok(_) => return Ok(Step::Done(Renewed::NotOurs)),
        // A missing right to one key, or any other error of it, is that item's own.
        Err(CommandError::Refused(refusal, _)) if refusal != Refusal::ReadOnly => {
            return Ok(Step::Done(Renewed::Failed));
        }
        Err(error) => return Err(error),
    }
    Ok(match pttl {
        Value::Int(left) if u64::try_from(*left).is_ok_and(|it| it >= item.ttl.as_millis()) => {
            Step::Done(Renewed::Yes)
        }
        Value::Int(_) => Step::Lengthen,
        _ => Step::Done(Renewed::Failed),
    })
}
