//! The items that wait at a batcher, and how many are in flight. Pure: no clock, no I/O.
//!
//! Invariant: while an item waits, a flusher is pending: one that was started and has not sent its
//! batch yet. A full batch may be taken besides it.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How many callers may send by themselves before others queue. Two, because a task that releases
/// in the background and goes on has two commands in flight.
const ALONE: usize = 2;

/// With [`Takes::All`]: after a batch of so many items no caller sends by itself, since others of the
/// same turn follow.
pub(super) const MANY: usize = 4;

/// How much of what waits a batch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Half of the items that wait or are in flight: the server works on one half while the client
    /// prepares the other.
    Half,
    /// All of them, where other servers work meanwhile.
    All,
    /// All of them, at most once in this time unless a batch is full: nothing hurries.
    Window(Duration),
}

/// Identifies a waiting item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ItemId(pub(super) u64);

#[derive(Debug)]
struct QueuedItem<T> {
    id: ItemId,
    /// How many batches had been taken when it was queued.
    batches: u64,
    is_release: bool,
    item: T,
}

#[derive(Debug)]
pub(super) struct BatcherState<T> {
    most: usize,
    takes: Takes,
    /// How many items the latest batch had when it was taken; empty ones don't count.
    latest: usize,
    /// When the latest one left, or a caller's own command.
    left_at: Option<Instant>,
    /// Items that were sent, by their callers or in batches, and are not answered yet.
    in_flight: usize,
    /// A flusher was started and has not sent its batch yet.
    is_flushing: bool,
    tickets: u64,
    /// How many batches were taken.
    batches: u64,
    /// In order of arrival.
    waiting: VecDeque<QueuedItem<T>>,
    /// Room for the acquires of a batch while it is put together; empty.
    acquires: Vec<T>,
}

impl<T> BatcherState<T> {
    /// `most`: the maximum number of items in one batch.
    pub(super) fn new(most: usize, takes: Takes) -> Self {
        Self {
            most,
            takes,
            latest: 0,
            left_at: None,
            in_flight: 0,
            is_flushing: false,
            tickets: 0,
            batches: 0,
            waiting: VecDeque::new(),
            acquires: Vec::new(),
        }
    }

    /// Whether few commands are in flight, no flusher is pending and no other callers are expected;
    /// then the caller sends its command itself, and calls [`ended`](Self::ended) afterwards.
    /// With a window: whether that is over, and nothing waits.
    pub(super) fn claim_lone_flight(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let is_alone = match self.takes {
            Takes::Half | Takes::All => {
                self.in_flight < ALONE && !self.is_flushing && !self.others_follow()
            }
            Takes::Window(_) if !self.waiting.is_empty() => false,
            Takes::Window(_) => {
                let now = now();
                let is_over = self.not_before(now).is_none();
                if is_over {
                    self.left_at = Some(now);
                }
                is_over
            }
        };
        self.in_flight += usize::from(is_alone);
        is_alone
    }

    /// Until when the pending flusher has to wait; `None`: it sends now.
    pub(super) fn not_before(&self, now: Instant) -> Option<Instant> {
        let Takes::Window(window) = self.takes else {
            return None;
        };
        self.left_at.map(|at| at + window).filter(|it| *it > now)
    }

    fn others_follow(&self) -> bool {
        let many = match self.takes {
            // With fewer, the server works on what a caller sends at once while the client prepares
            // the rest.
            Takes::Half | Takes::Window(_) => self.most,
            Takes::All => MANY,
        };
        self.latest >= many
    }

    /// Queues an item. `true`: the caller has to start a flusher.
    pub(super) fn wait(&mut self, is_release: bool, item: T) -> (ItemId, bool) {
        let id = ItemId(self.tickets);
        self.tickets += 1;
        self.waiting.push_back(QueuedItem {
            id,
            batches: self.batches,
            is_release,
            item,
        });
        (id, !std::mem::replace(&mut self.is_flushing, true))
    }

    /// Whether a full batch waits: there is no need to wait for the flusher, which lets ready tasks
    /// run first so that the batch becomes larger.
    pub(super) fn has_full_batch(&self) -> bool {
        let (waiting, most) = (self.waiting.len(), self.most);
        match self.takes {
            Takes::Half => waiting >= most && self.share() >= most,
            Takes::All => false,
            Takes::Window(_) => waiting > 0 && waiting.is_multiple_of(most), // once for each
        }
    }

    /// Takes the batch that a flusher sends, in order of arrival, but releases before acquires.
    /// Empty if nothing waits any more. The items count as in flight until
    /// [`ended`](Self::ended).
    pub(super) fn next_batch(&mut self, now: Instant) -> Vec<T> {
        let items = self.waiting.len().min(self.share()).min(self.most);
        if items > 0 {
            (self.latest, self.left_at) = (items, Some(now));
        }
        self.in_flight += items;
        self.batches += 1;
        let mut batch = Vec::with_capacity(items);
        for it in self.waiting.drain(..items) {
            if it.is_release {
                &mut batch
            } else {
                &mut self.acquires
            }
            .push(it.item);
        }
        batch.append(&mut self.acquires);
        batch
    }

    fn share(&self) -> usize {
        match self.takes {
            Takes::Half => (self.waiting.len() + self.in_flight).div_ceil(2),
            Takes::All | Takes::Window(_) => self.waiting.len(),
        }
    }

    /// The flusher has sent its batch. `true`: the caller has to start the next one, for the items
    /// that are left.
    pub(super) fn flushed(&mut self) -> bool {
        self.is_flushing = !self.waiting.is_empty();
        self.is_flushing
    }

    /// Items that were in flight are answered, or given up.
    pub(super) fn ended(&mut self, items: usize) {
        self.in_flight -= items;
    }

    /// The flusher was dropped with its runtime before it sent anything; returns all waiting items.
    pub(super) fn give_up(&mut self) -> Vec<T> {
        self.is_flushing = false;
        self.waiting.drain(..).map(|it| it.item).collect()
    }

    pub(super) fn is_waiting(&self, id: ItemId) -> bool {
        self.position(id).is_some()
    }

    /// Removes the item of a caller that goes; `None`: the item is in a batch.
    pub(super) fn withdraw(&mut self, id: ItemId) -> Option<T> {
        let at = self.position(id)?;
        self.waiting.remove(at).map(|it| it.item)
    }

    /// The same, but only if no batch has been taken since the item was queued.
    pub(super) fn withdraw_if_stuck(&mut self, id: ItemId) -> Option<T> {
        let at = self.position(id)?;
        let is_stuck = self.waiting.get(at)?.batches == self.batches;
        is_stuck.then(|| self.withdraw(id))?
    }

    fn position(&self, id: ItemId) -> Option<usize> {
        self.waiting.binary_search_by_key(&id, |it| it.id).ok()
    }
}
