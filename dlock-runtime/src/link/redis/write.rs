//! Sends a guarded write over a connection: builds the arguments of `lua/write.lua` and reads its
//! reply. Never repeats a batch that may have been executed.

use std::borrow::Cow;
use std::time::Duration;

use redis::Value;

use super::errors;
use super::link::RedisLink;
use super::reply;
use super::scripts;
use crate::extras::writes::{What, Writes, Wrote};
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::rules::commands::Claim;
use crate::values::error::{Reason, Refusal};
use crate::values::moment::Moment;

impl RedisLink {
    /// A batch executed after `within` has passed writes nothing, so that it can't overtake what
    /// its caller does then. If the server replies "late" before that, its clock was set: the reply
    /// has the time, and the batch is sent once more.
    pub(super) async fn write(
        &self,
        claim: &Claim,
        writes: &Writes<'_>,
        within: Duration,
    ) -> Result<Wrote, CommandError> {
        let until = self.connection.clock.now().plus(within);
        for _ in 0..2 {
            let now = self.connection.clock.now();
            match self.send_batch(claim, writes, now.until(until)).await? {
                (WriteReply::Wrote(wrote), _) => return Ok(wrote),
                (WriteReply::Late { time }, sent) => self.connection.heard_time(time, sent),
            }
        }
        Err(CommandError::too_late())
    }

    async fn send_batch(
        &self,
        claim: &Claim,
        writes: &Writes<'_>,
        within: Duration,
    ) -> Result<(WriteReply, Moment), CommandError> {
        let longest = u64::try_from(within.as_micros()).unwrap_or(u64::MAX);
        let not_after = self
            .server_time_at(self.connection.clock.now())
            .saturating_add(longest);
        let names = &self.connection.names;
        let absent = names.absent(&names.of(&claim.key).counter);
        let mut keys = vec![&*claim.key];
        keys.extend(&writes.keys);
        keys.extend(absent.as_deref());
        let arguments = arguments(&claim.value, writes, not_after);
        let (reply, sent) = self
            .connection
            .script(&scripts::WRITE, &keys, &arguments, within)
            .await?;
        let said = read(&reply).ok_or_else(|| reply::unexpected("write", &reply))?;
        if let WriteReply::Wrote(Wrote::Stopped(_, Refusal::ReadOnly, why)) = &said {
            let error = CommandError::Refused(Refusal::ReadOnly, why.clone());
            if let error @ CommandError::Unsent(_) = self.connection.noted(error) {
                return Err(error); // a replica wrote nothing
            }
        }
        Ok((said, sent))
    }
}

enum WriteReply {
    Wrote(Wrote),
    Late { time: u64 },
}

/// Refers to a key by its index in `KEYS`, where the lock is the first.
fn arguments<'a>(value: &'a str, writes: &'a Writes<'_>, not_after: u64) -> Vec<Cow<'a, [u8]>> {
    let text = |number: usize| Cow::from(number.to_string().into_bytes());
    let name = |name: &'static str| Cow::from(name.as_bytes());
    let may_run_dry = if writes.may_run_dry() { "1" } else { "0" };
    let mut words = vec![
        value.as_bytes().into(),
        Cow::from(not_after.to_string().into_bytes()),
        name(may_run_dry),
        text(writes.needs.len()),
    ];
    for need in &writes.needs {
        let (what, field) = match need.what {
            What::Is(wanted) => (wanted.name(), &b""[..]),
            What::Number => ("number", &b""[..]),
            What::NumberIn(field) => ("field", field),
        };
        words.extend([name(what), text(need.key + 2), field.into()]);
    }
    for (key, change) in &writes.commands {
        let behind = change.words();
        words.extend([name(change.name()), text(key + 2), text(behind.len())]);
        words.extend(behind);
    }
    words
}

fn read(reply: &Value) -> Option<WriteReply> {
    let Value::Array(items) = reply else {
        return None;
    };
    let nth = || {
        usize::try_from(reply::number(items.get(1)?)?)
            .ok()?
            .checked_sub(1)
    };
    Some(WriteReply::Wrote(match reply::number(items.first()?)? {
        0 => Wrote::NotOurs,
        1 => Wrote::All,
        5 => {
            let time = reply::number(items.get(1)?)?;
            return Some(WriteReply::Late { time });
        }
        6 => Wrote::Unfit(nth()?),
        8 => {
            let words = reply::text(items.get(2)?)?;
            let code = words.split(' ').next().unwrap_or_default();
            Wrote::Stopped(nth()?, errors::refusal(code, &words), Reason::new(&words))
        }
        _ => return None,
    }))
}
