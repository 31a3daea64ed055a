//! Heartbeats: batches the routine polls of a connection's waiters into one command
//! (`lua/heartbeat.lua`). `state` decides what is sent when, `batch` sends it.
//!
//! - **A lone waiter is not delayed**: the first heartbeat after a pause goes out at once, as a
//!   poll of its own. Those that follow within [`HeartbeatPace::window`] go out in one command at its end,
//!   or as soon as there are [`HeartbeatPace::most`].
//! - **An entry that may be granted the lock polls**: the command refreshes the heartbeats, and
//!   says which entries still wait. If it can't say that of an entry, for whatever reason, the
//!   entry's waiter is told to poll, on its own task and with its own error.
//! - **Cancel safety**: a caller that goes before its heartbeat is sent withdraws it. If it goes
//!   later, the heartbeat still runs, but it creates nothing and finds no entry that a `cancel` has
//!   removed.
//!
//! Never in this folder: the lock held across an `await`, or a call under it that takes another
//! lock.

mod batch;
mod state;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use self::state::{BatchNumber, HeartbeatId, HeartbeatState};
use super::connection::Connection;
use crate::link::command_error::CommandError;
use crate::rules::commands::{Claim, Polled};
use crate::values::error::Reason;
use crate::values::shown::rounded;

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

/// The heartbeats of one connection.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    connection: Arc<Connection>,
    /// `None`: every waiter polls by itself.
    state: Option<Mutex<HeartbeatState<HeartbeatItem>>>,
}

/// The heartbeat of one waiting caller.
struct HeartbeatItem {
    claim: Claim,
    until: Instant,
    /// Closed when its caller goes.
    answer: oneshot::Sender<HeartbeatOutcome>,
}

impl fmt::Debug for HeartbeatItem {
    /// Shows the lock only: the value contains a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.claim.key.fmt(f)
    }
}

/// `None`: the caller has to poll.
type HeartbeatOutcome = Result<Option<Polled>, CommandError>;

impl Heartbeats {
    pub(super) fn new(connection: &Arc<Connection>, pace: Option<HeartbeatPace>) -> Arc<Self> {
        Arc::new(Self {
            connection: connection.clone(),
            state: pace.map(|pace| Mutex::new(HeartbeatState::new(pace.window, pace.most))),
        })
    }

    /// The answer of a poll; `None`: the caller has to poll.
    pub(crate) async fn beat(
        self: &Arc<Self>,
        claim: &Claim,
        within: Duration,
    ) -> HeartbeatOutcome {
        let until = Instant::now() + within;
        match self.wait(claim, until) {
            None => Ok(None),
            Some(mut waiting) => waiting.outcome(within, until).await,
        }
    }

    /// `None`: the caller polls by itself, at once.
    fn wait(self: &Arc<Self>, claim: &Claim, until: Instant) -> Option<WaitingHeartbeat<'_>> {
        if !claim.queues {
            return None;
        }
        let now = Instant::now();
        let mut state = self.state()?;
        if state.claim_lone_poll(now) {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let item = HeartbeatItem {
            claim: claim.clone(),
            until,
            answer: sender,
        };
        let waits = state.wait(item, now);
        drop(state);
        if let Some((due, number)) = waits.opens {
            let flusher = HeartbeatFlusher(self.clone(), number);
            self.connection.runtime.spawn(flusher.run(due));
        }
        if !waits.full.is_empty() {
            let own = self.clone();
            let send = async move { own.send(waits.full).await };
            self.connection.runtime.spawn(send);
        }
        Some(WaitingHeartbeat {
            heartbeats: self,
            id: waits.id,
            answer,
        })
    }

    /// `None`: every waiter polls by itself.
    fn state(&self) -> Option<MutexGuard<'_, HeartbeatState<HeartbeatItem>>> {
        let state = self.state.as_ref()?;
        Some(state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self, number: BatchNumber) -> Vec<HeartbeatItem> {
        let now = Instant::now();
        let batch = self.state().map(|mut state| state.due(number, now));
        batch.unwrap_or_default()
    }
}

/// Sends a batch that did not become full in time. If the connection's runtime ends first, dropping
/// the flusher drops the batch, so that its callers get an error.
struct HeartbeatFlusher(Arc<Heartbeats>, BatchNumber);

impl HeartbeatFlusher {
    async fn run(self, due: Instant) {
        sleep_until(due).await;
        let batch = self.0.take(self.1);
        self.0.send(batch).await;
    }
}

impl Drop for HeartbeatFlusher {
    fn drop(&mut self) {
        drop(self.0.take(self.1)); // each caller sees the end of its channel
    }
}

/// A caller whose heartbeat waits, or is in a batch.
struct WaitingHeartbeat<'a> {
    heartbeats: &'a Heartbeats,
    id: HeartbeatId,
    answer: oneshot::Receiver<HeartbeatOutcome>,
}

impl WaitingHeartbeat<'_> {
    async fn outcome(&mut self, within: Duration, until: Instant) -> HeartbeatOutcome {
        match timeout_at(until, &mut self.answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(CommandError::Unclear(Reason::new(
                "the runtime of the connection has ended",
            ))),
            Err(_) if self.withdraw() => Err(CommandError::Unsent(Reason::new(format_args!(
                "not sent within {:?}",
                rounded(within)
            )))),
            Err(_) => Err(self.heartbeats.connection.no_answer(within)),
        }
    }

    /// Withdraws the heartbeat if it still waits; returns whether it was certainly not sent.
    fn withdraw(&mut self) -> bool {
        let state = self.heartbeats.state();
        self.answer.close();
        state.is_some_and(|mut state| state.withdraw(self.id).is_some())
    }
}

impl Drop for WaitingHeartbeat<'_> {
    fn drop(&mut self) {
        if !self.answer.is_terminated() {
            self.withdraw();
        }
    }
}
