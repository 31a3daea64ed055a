//! The heartbeats that wait at a connection, and when they are sent. Pure: no clock, no I/O.
//!
//! Invariant: while an item waits, `wait` has returned its batch's number with the time at which to
//! send that batch.

use std::time::Duration;

use tokio::time::Instant;

/// Identifies a waiting item that is not in a batch yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeartbeatId(u64);

/// The number of a batch: the one that is being collected, or an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchNumber(u64);

#[derive(Debug)]
pub(super) struct HeartbeatState<T> {
    window: Duration,
    most: usize,
    /// When the last heartbeat went out, alone or in a batch.
    last: Option<Instant>,
    tickets: u64,
    batch: u64,
    waiting: Vec<(HeartbeatId, T)>,
}

/// What the caller has to do after it has queued a heartbeat.
#[derive(Debug)]
pub(super) struct QueuedHeartbeat<T> {
    pub(super) id: HeartbeatId,
    /// For the first item of a batch: the batch's number, and when to send it at the latest.
    pub(super) opens: Option<(Instant, BatchNumber)>,
    /// A full batch, to be sent now; otherwise empty.
    pub(super) full: Vec<T>,
}

impl<T> HeartbeatState<T> {
    pub(super) fn new(window: Duration, most: usize) -> Self {
        Self {
            window,
            most,
            last: None,
            tickets: 0,
            batch: 0,
            waiting: Vec::new(),
        }
    }

    /// Whether nothing was sent for a while and nothing waits; then the caller polls at once.
    pub(super) fn claim_lone_poll(&mut self, now: Instant) -> bool {
        let is_lone = self.waiting.is_empty() && self.window_ends().is_none_or(|end| end <= now);
        if is_lone {
            self.last = Some(now);
        }
        is_lone
    }

    /// Queues an item. Call it only after [`claim_lone_poll`](Self::claim_lone_poll) returned `false`.
    pub(super) fn wait(&mut self, item: T, now: Instant) -> QueuedHeartbeat<T> {
        let id = HeartbeatId(self.tickets);
        self.tickets += 1;
        self.waiting.push((id, item));
        let is_first = self.waiting.len() == 1;
        let due = self.window_ends().unwrap_or(now);
        let opens = is_first.then_some((due, BatchNumber(self.batch)));
        let full = if self.waiting.len() < self.most {
            Vec::new()
        } else {
            self.next_batch(now)
        };
        QueuedHeartbeat { id, opens, full }
    }

    /// The time of a batch has come; returns nothing if the batch was already taken.
    pub(super) fn due(&mut self, number: BatchNumber, now: Instant) -> Vec<T> {
        if number != BatchNumber(self.batch) {
            return Vec::new();
        }
        self.next_batch(now)
    }

    /// Removes the item of a caller that goes; `None`: its heartbeat is in a batch.
    pub(super) fn withdraw(&mut self, id: HeartbeatId) -> Option<T> {
        let at = self.waiting.binary_search_by_key(&id.0, |it| it.0.0);
        at.ok().map(|at| self.waiting.remove(at).1)
    }

    fn window_ends(&self) -> Option<Instant> {
        self.last.map(|last| last + self.window)
    }

    fn next_batch(&mut self, now: Instant) -> Vec<T> {
        let batch = std::mem::take(&mut self.waiting);
        self.batch += 1;
        if !batch.is_empty() {
            self.last = Some(now);
        }
        batch.into_iter().map(|(_, item)| item).collect()
    }
}
