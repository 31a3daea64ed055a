//! Reads the reply to a batch of heartbeats, entry by entry. A reply of another shape is an error.
//!
//! Never in this folder: a command, a decision about a lock.

use redis::Value;

use super::{busy, number, unexpected};
use crate::link::command_error::CommandError;
use crate::rules::commands::Polled;

/// Returns the server's time and each entry's poll reply (`None`: it must poll by itself). `sizes`:
/// entries per lock.
pub(crate) fn heartbeat(
    reply: &Value,
    sizes: &[usize],
) -> Result<(u64, Vec<Option<Polled>>), CommandError> {
    read(reply, sizes).ok_or_else(|| unexpected("heartbeat", reply))
}

fn read(reply: &Value, sizes: &[usize]) -> Option<(u64, Vec<Option<Polled>>)> {
    let Value::Array(items) = reply else {
        return None;
    };
    let (time, groups) = items.split_first()?;
    let time = number(time)?;
    if groups.len() != 3 * sizes.len() {
        return None;
    }
    let mut all = Vec::new();
    for (group, size) in groups.chunks_exact(3).zip(sizes) {
        let [left, holder, polls] = group else {
            return None;
        };
        let waits = Polled::Queued(busy(time, left, holder)?);
        let begin = all.len();
        all.resize(begin + size, Some(waits));
        let polls = match polls {
            Value::Int(0) => &[],
            Value::Array(polls) => &polls[..],
            _ => return None,
        };
        for at in polls {
            let at = usize::try_from(number(at)?).ok()?.checked_sub(1)?;
            *all.get_mut(begin..)?.get_mut(at)? = None;
        }
    }
    Some((time, all))
}

#[cfg(test)]
mod tests;
