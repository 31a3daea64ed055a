//! Maps each operation to its script and arguments. Sends nothing; the order of the arguments is the one
//! that the head of each script in `lua/` states.

use std::borrow::Cow;
use std::iter;

use redis::{Cmd, RedisWrite, ToRedisArgs};

use super::names::Names;
use super::native::Native;
use super::reads::Reads;
use super::scripts::{self, CallBy, Script};
use crate::rules::commands::{Acquire, Claim, Keep, Renewal, RunNote};
use crate::values::ttl::{self, Ttl};

/// A script about one lock, with its arguments.
pub(super) struct ScriptCall<'a> {
    pub(super) script: &'static Script,
    pub(super) arguments: Vec<Word<'a>>,
}

impl ScriptCall<'_> {
    /// The command, about this key alone.
    pub(super) fn about(&self, key: &str, reads: Reads) -> Cmd {
        let room: usize = self.arguments.iter().map(|it| it.room()).sum();
        let words = 2 + self.arguments.len();
        let mut command = self
            .script
            .called(CallBy::Text(reads), words, key.len() + room);
        command.arg(1).arg(key);
        for word in &self.arguments {
            word.write(&mut command);
        }
        command
    }
}

/// One argument.
#[derive(Clone, Copy)]
pub(super) enum Word<'a> {
    Text(&'a str),
    Number(u64),
    Keep(Keep),
}

impl Word<'_> {
    /// An upper bound of its bytes; a number has at most 20.
    pub(super) fn room(self) -> usize {
        match self {
            Word::Text(text) => text.len(),
            Word::Number(_) => 20,
            Word::Keep(keep) if keep.run().is_none() => 41,
            Word::Keep(_) => 90,
        }
    }

    pub(super) fn write(self, command: &mut Cmd) {
        match self {
            Word::Text(text) => command.arg(text),
            Word::Number(number) => command.arg(number),
            Word::Keep(keep) => command.arg(keep),
        };
    }
}

/// One word, and no allocation where nothing is kept.
impl ToRedisArgs for Keep {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        match *self {
            Self::NOT => out.write_arg(b"0"),
            keep => out.write_arg_fmt(keep),
        }
    }
}

pub(super) fn acquire(command: &Acquire) -> ScriptCall<'_> {
    let claim = &command.claim;
    ScriptCall {
        script: if claim.is_once {
            &scripts::ONCE_ACQUIRE
        } else {
            by_kind(claim, &scripts::ACQUIRE, &scripts::SHARED_ACQUIRE)
        },
        arguments: vec![
            Word::Text(&claim.value),
            Word::Number(command.lease.as_millis()),
            Word::Number(command.not_after),
            Word::Number(repair(command)),
            may_queue(claim),
        ],
    }
}

/// The same with the lock's key alone.
pub(super) fn acquire_key(command: &Acquire) -> ScriptCall<'_> {
    ScriptCall {
        script: &scripts::ACQUIRE_KEY,
        ..acquire(command)
    }
}

/// The ttl in ms for a key that has none; 0: leave the key as it is.
pub(super) fn repair(command: &Acquire) -> u64 {
    command.repair_missing_ttl.map_or(0, ttl::millis)
}

/// A script about several locks, with the keys of all of them.
pub(super) struct CallOfAll<'a> {
    pub(super) keys: Vec<Cow<'a, str>>,
    pub(super) arguments: Vec<Cow<'a, str>>,
}

pub(super) fn acquire_all<'a>(commands: &'a [Acquire], names: &'a Names) -> CallOfAll<'a> {
    let (mut keys, mut arguments, mut absent) = (Vec::new(), Vec::new(), None);
    for Acquire {
        claim,
        lease,
        not_after,
        ..
    } in commands
    {
        let of = names.of(&claim.key);
        if keys.is_empty() {
            absent = names.absent(&of.counter).map(Cow::from);
            keys.push(of.counter);
            arguments.push(not_after.to_string().into());
            arguments.push(lease.as_millis().to_string().into());
        }
        let queue = [of.queue, of.heartbeats].map(|it| it.text().into());
        keys.push(Cow::from(&*claim.key));
        keys.extend(queue);
        arguments.push((&*claim.value).into());
    }
    keys.extend(absent);
    CallOfAll { keys, arguments }
}

pub(super) fn poll(claim: &Claim) -> ScriptCall<'_> {
    ScriptCall {
        script: &scripts::POLL,
        arguments: vec![Word::Text(&claim.value), may_queue(claim)],
    }
}

/// What became of a queued claim, by the lock's key alone.
pub(super) fn poll_key(claim: &Claim) -> ScriptCall<'_> {
    ScriptCall {
        script: &scripts::POLL_KEY,
        ..poll(claim)
    }
}

/// A poll without a claim: it grants the lock to the next waiters.
pub(super) fn go_on() -> ScriptCall<'static> {
    ScriptCall {
        script: &scripts::POLL,
        arguments: vec![Word::Text(""), Word::Number(0)],
    }
}

pub(super) fn release(claim: &Claim, keep: Keep, native: Option<Native>) -> ScriptCall<'_> {
    ScriptCall {
        script: match keep.run() {
            Some(_) => &scripts::ONCE_RELEASE,
            None => by_kind(claim, scripts::release(native), &scripts::SHARED_RELEASE),
        },
        arguments: vec![Word::Text(&claim.value), Word::Keep(keep)],
    }
}

pub(super) fn cancel(claim: &Claim, keep: Keep, not_after: u64) -> ScriptCall<'_> {
    ScriptCall {
        script: match keep.run() {
            Some(_) => &scripts::ONCE_CANCEL,
            None => &scripts::CANCEL,
        },
        arguments: vec![
            Word::Text(&claim.value),
            may_queue(claim),
            Word::Keep(keep),
            Word::Number(not_after),
        ],
    }
}

/// The same with the lock's key alone, for a claim that has left the queue.
pub(super) fn cancel_key(claim: &Claim, keep: Keep, not_after: u64) -> ScriptCall<'_> {
    ScriptCall {
        script: &scripts::CANCEL_KEY,
        ..cancel(claim, keep, not_after)
    }
}

pub(super) fn downgrade(claim: &Claim, ttl: Ttl) -> ScriptCall<'_> {
    ScriptCall {
        script: &scripts::DOWNGRADE,
        arguments: vec![Word::Text(&claim.value), Word::Number(ttl.as_millis())],
    }
}

/// The same with the lock's key alone.
pub(super) fn downgrade_key(claim: &Claim, ttl: Ttl) -> ScriptCall<'_> {
    ScriptCall {
        script: &scripts::DOWNGRADE_KEY,
        ..downgrade(claim, ttl)
    }
}

/// Records before its body that a claim runs.
pub(super) fn note_run(claim: &Claim, run: RunNote) -> ScriptCall<'_> {
    ScriptCall {
        script: &scripts::NOTE_RUN,
        arguments: vec![
            Word::Text(&claim.value),
            Word::Number(run.start),
            Word::Number(run.epoch),
        ],
    }
}

/// An epoch, by the counter's key alone.
pub(super) fn draw() -> ScriptCall<'static> {
    ScriptCall {
        script: &scripts::DRAW,
        arguments: Vec::new(),
    }
}

/// Whether a claim still holds the lock for which this epoch was drawn.
pub(super) fn confirm_key(claim: &Claim, epoch: u64) -> ScriptCall<'_> {
    ScriptCall {
        script: &scripts::CONFIRM_KEY,
        arguments: vec![Word::Text(&claim.value), Word::Number(epoch)],
    }
}

/// The first arguments of `renew`, before the values: for each run its item count and ttl.
pub(super) fn renewals<'a>(items: impl Iterator<Item = &'a Renewal>) -> Vec<String> {
    let runs = runs(items.map(|item| item.ttl.as_millis()));
    let each = runs
        .iter()
        .flat_map(|(ttl, items)| [items.to_string(), ttl.to_string()]);
    iter::once(runs.len().to_string()).chain(each).collect()
}

/// Groups equal neighbours into runs, each with its length.
pub(super) fn runs<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<(T, usize)> {
    let mut runs: Vec<(T, usize)> = Vec::new();
    for it in all {
        match runs.last_mut() {
            Some((last, number)) if *last == it => *number += 1,
            _ => runs.push((it, 1)),
        }
    }
    runs
}

/// Only the common cases of exclusive locks have parts of their own.
fn by_kind(claim: &Claim, exclusive: &'static Script, shared: &'static Script) -> &'static Script {
    if claim.kind().is_shared() {
        shared
    } else {
        exclusive
    }
}

fn may_queue(claim: &Claim) -> Word<'static> {
    Word::Number(claim.queues.into())
}
