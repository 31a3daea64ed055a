//! The heartbeats of waiters: routine polls that go out as one command (`lua/heartbeat.lua`). What
//! differs from other batches is here and in [`BatchSort::Heartbeats`].
//!
//! - **A lone waiter is not delayed**: the first heartbeat after a pause goes out at once, as a
//!   poll of its own. Those that follow within [`HeartbeatPace::window`] go out in one command at its end,
//!   or as soon as there are [`HeartbeatPace::most`].
//! - **An entry that may be granted the lock polls**: the command refreshes the heartbeats, and
//!   says which entries still wait. If it can't say that of an entry, for whatever reason, the
//!   entry's waiter is told to poll, on its own task and with its own error.
//! - **Cancel safety**: a heartbeat whose caller goes after it was sent still runs, but it creates
//!   nothing and finds no entry that a `cancel` has removed.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::{BatchItem, BatchSort, Batcher, BegunCommand, Command, ItemOutcome};
use crate::link::batched::state::Takes;
use crate::link::command_error::CommandError;
use crate::link::redis::link::connection::Connection;
use crate::link::redis::names::Names;
use crate::link::redis::reply::{self, ItemReply, Replies};
use crate::link::redis::scripts::{self, CallBy};
use crate::rules::commands::{Claim, Polled};

/// The rate and size of the heartbeat commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeartbeatPace {
    /// The minimum time between two commands, except full ones.
    pub(crate) window: Duration,
    /// The maximum number of entries in one command, so that it never blocks the server for long.
    pub(crate) most: usize,
}

impl HeartbeatPace {
    /// For waiters with this poll interval. The window is short compared with the interval, and
    /// long enough for thousands of waiters to fill a command.
    pub(crate) fn of(poll_interval: Duration) -> Self {
        Self {
            window: Duration::from_millis(25).min(poll_interval / 8),
            most: 128,
        }
    }
}

impl Batcher {
    /// The batcher of heartbeats. `None`: every waiter polls by itself.
    pub(in crate::link::redis::link) fn of_heartbeats(
        connection: &Arc<Connection>,
        pace: Option<HeartbeatPace>,
    ) -> Arc<Self> {
        let (most, window) = pace.map_or_else(Default::default, |it| (it.most, it.window));
        let takes = Takes::Window(window);
        Self::of(connection, BatchSort::Heartbeats, most, takes)
    }

    /// The answer of a poll; `None`: the caller has to poll.
    pub(crate) async fn beat(
        self: &Arc<Self>,
        claim: &Claim,
        within: Duration,
    ) -> Result<Option<Polled>, CommandError> {
        if !claim.queues {
            return Ok(None);
        }
        let until = Instant::now() + within;
        let begun = self.begun(Command::Beat(claim), within, until).await;
        let BegunCommand::Waits(mut waiting) = begun else {
            return Ok(None);
        };
        match waiting.outcome(within, until).await? {
            ItemOutcome::Ended(answered) => answered?.0.polled(),
            ItemOutcome::Alone => Ok(None),
        }
    }
}

/// Entries of the same lock are adjacent, so that the script reads each lock once.
pub(super) fn by_lock(mut batch: Vec<BatchItem>) -> Vec<BatchItem> {
    batch.sort_by(|one, other| lock(one).cmp(&lock(other)));
    batch
}

/// The lock, and whether its waiter wants it as one of many holders.
fn lock(item: &BatchItem) -> (&str, bool) {
    let claim = claim(item);
    (&claim.key, claim.kind().is_shared())
}

fn claim(item: &BatchItem) -> &Claim {
    item.command.command().claim()
}

/// The entries of each lock.
fn groups(batch: &[BatchItem]) -> impl Iterator<Item = &[BatchItem]> {
    batch.chunk_by(|one, other| lock(one) == lock(other))
}

pub(super) fn command(by: CallBy, names: &Names, batch: &[BatchItem]) -> Cmd {
    let locks = groups(batch).count();
    let bytes = |it| 4 * claim(it).key.len() + 2 * claim(it).value.len();
    let (words, room) = (2 + 4 * locks + batch.len(), batch.iter().map(bytes).sum());
    let mut command = scripts::HEARTBEAT.called(by, words, room);
    let counter = batch.first().map(|it| names.of(&claim(it).key).counter);
    let counter = counter.unwrap_or_default(); // there is a first one
    let absent = names.absent(&counter);
    command.arg(1 + 3 * locks + usize::from(absent.is_some()));
    command.arg(&*counter);
    let mut name = String::new();
    for first in groups(batch).filter_map(<[_]>::first) {
        let keys = names.of(&claim(first).key);
        command.arg(&*claim(first).key);
        command.arg(keys.queue.text_in(&mut name));
        command.arg(keys.heartbeats.text_in(&mut name));
    }
    command.arg(absent);
    for group in groups(batch) {
        command.arg(group.len());
    }
    for item in batch {
        command.arg(&*claim(item).value);
    }
    command
}

pub(super) fn replies(reply: &Value, batch: &[BatchItem]) -> Result<Replies, CommandError> {
    let sizes: Vec<_> = groups(batch).map(<[_]>::len).collect();
    let (time, answers) = reply::heartbeat(reply, &sizes)?;
    let answers = answers.into_iter().map(|said| {
        let said = said.map(Box::new);
        Ok(ItemReply::Heartbeat { time, said })
    });
    Ok(Replies::each(answers))
}
