//! Which heartbeats wait at a connection, and when they are sent. Pure: the time is told, and nothing is sent.
//!
//! Invariant: whenever somebody waits, the number of its batch has been given out with a time at which to send it.

use std::time::Duration;

use tokio::time::Instant;

/// Who waits, and is not in a batch yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemId(u64);

/// Of a batch: the one that is being collected, or one that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u64);

#[derive(Debug)]
pub(super) struct State<T> {
    window: Duration,
    most: usize,
    /// When the last one went out, alone or in a batch.
    last: Option<Instant>,
    tickets: u64,
    batch: u64,
    waiting: Vec<(ItemId, T)>,
}

/// What follows from a heartbeat that waits.
#[derive(Debug)]
pub(super) struct Waits<T> {
    pub(super) id: ItemId,
    /// When this batch has to be sent at the latest, said to the first of it.
    pub(super) opens: Option<(Instant, Number)>,
    /// It is full: to be sent now. Else empty.
    pub(super) full: Vec<T>,
}

impl<T> State<T> {
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

    /// Nothing was sent for a while, and nobody waits.
    pub(super) fn goes_at_once(&mut self, now: Instant) -> bool {
        let is_lone = self.waiting.is_empty() && self.window_ends().is_none_or(|end| end <= now);
        if is_lone {
            self.last = Some(now);
        }
        is_lone
    }

    /// Only after [`goes_at_once`](Self::goes_at_once) said no.
    pub(super) fn wait(&mut self, item: T, now: Instant) -> Waits<T> {
        let id = ItemId(self.tickets);
        self.tickets += 1;
        self.waiting.push((id, item));
        let is_first = self.waiting.len() == 1;
        let due = self.window_ends().unwrap_or(now);
        let opens = is_first.then_some((due, Number(self.batch)));
        let full = if self.waiting.len() < self.most {
            Vec::new()
        } else {
            self.next_batch(now)
        };
        Waits { id, opens, full }
    }

    /// The time of a batch has come; it may have gone before.
    pub(super) fn due(&mut self, number: Number, now: Instant) -> Vec<T> {
        if number != Number(self.batch) {
            return Vec::new();
        }
        self.next_batch(now)
    }

    /// Somebody goes; `None`: its heartbeat is in a batch.
    pub(super) fn withdraw(&mut self, id: ItemId) -> Option<T> {
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
