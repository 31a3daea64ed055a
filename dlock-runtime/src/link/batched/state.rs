//! The items that wait for a batch, and how many are in flight: what waits, and what a batch takes, for
//! every link that sends many callers' commands as one. Pure: no clock, no I/O.
//!
//! Invariant: while an item waits, a flusher is pending: one that was started and has not sent its
//! batch yet. A full batch may be taken besides it.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How many callers may send by themselves before others queue. Two, because a task that releases
/// in the background and goes on has two commands in flight.
const ALONE: usize = 2;

/// The maximum number of items in one batch. A larger one gains nothing and occupies the server longer;
/// this one takes Redis about 0.12 ms.
pub(crate) const MOST: usize = 64;

/// With [`Takes::All`]: after a batch of so many items no caller sends by itself, since others of the
/// same turn follow.
pub(crate) const MANY: usize = 4;

/// How much of what waits a batch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Half of the items that wait or are in flight: the server works on one half while the client
    /// prepares the other.
    Half,
    /// All of them, where other servers work meanwhile.
    All,
    /// All acquires or all releases, in turn, where a batch is a transaction: its flusher waits for the
    /// answer, so that callers who work in step come to need one commit for all of them and not two.
    OneSort,
    /// All of them, at most once in this time unless a batch is full: nothing hurries.
    Window(Duration),
}

/// Identifies a waiting item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemId(pub(crate) u64);

#[derive(Debug)]
struct QueuedItem<T> {
    id: ItemId,
    /// How many batches had been taken when it was queued.
    batches: u64,
    is_release: bool,
    item: T,
}

#[derive(Debug)]
pub(crate) struct BatcherState<T> {
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
    /// Which sort the latest batch was, with [`Takes::OneSort`].
    takes_releases: bool,
    /// In order of arrival.
    waiting: VecDeque<QueuedItem<T>>,
    /// Room for the acquires of a batch while it is put together; empty.
    acquires: Vec<T>,
}

impl<T> BatcherState<T> {
    /// `most`: the maximum number of items in one batch.
    pub(crate) fn new(most: usize, takes: Takes) -> Self {
        Self {
            most,
            takes,
            latest: 0,
            left_at: None,
            in_flight: 0,
            is_flushing: false,
            tickets: 0,
            batches: 0,
            takes_releases: false,
            waiting: VecDeque::new(),
            acquires: Vec::new(),
        }
    }

    /// Whether few commands are in flight, no flusher is pending and no other callers are expected;
    /// then the caller sends its command itself, and calls [`ended`](Self::ended) afterwards.
    /// With a window: whether that is over, and nothing waits.
    pub(crate) fn claim_lone_flight(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let is_alone = match self.takes {
            Takes::Half | Takes::All | Takes::OneSort => {
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
    pub(crate) fn not_before(&self, now: Instant) -> Option<Instant> {
        let Takes::Window(window) = self.takes else {
            return None;
        };
        self.left_at.map(|at| at + window).filter(|it| *it > now)
    }

    fn others_follow(&self) -> bool {
        let many = match self.takes {
            // With fewer, the server works on what a caller sends at once while the client prepares
            // the rest.
            Takes::Half | Takes::OneSort | Takes::Window(_) => self.most,
            Takes::All => MANY,
        };
        self.latest >= many
    }

    /// Queues an item. `true`: the caller has to start a flusher.
    pub(crate) fn wait(&mut self, is_release: bool, item: T) -> (ItemId, bool) {
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
    pub(crate) fn has_full_batch(&self) -> bool {
        let (waiting, most) = (self.waiting.len(), self.most);
        match self.takes {
            Takes::Half => waiting >= most && self.share() >= most,
            Takes::All | Takes::OneSort => false,
            Takes::Window(_) => waiting > 0 && waiting.is_multiple_of(most), // once for each
        }
    }

    /// Takes the batch that a flusher sends, in order of arrival, but releases before acquires.
    /// Empty if nothing waits any more. The items count as in flight until
    /// [`ended`](Self::ended).
    pub(crate) fn next_batch(&mut self, now: Instant) -> Vec<T> {
        self.batches += 1;
        if self.takes == Takes::OneSort {
            return self.one_sort();
        }
        let items = self.waiting.len().min(self.share()).min(self.most);
        if items > 0 {
            (self.latest, self.left_at) = (items, Some(now));
        }
        self.in_flight += items;
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

    /// Of the sort that the latest batch was not, if any of it waits.
    fn one_sort(&mut self) -> Vec<T> {
        let waits = |sort| self.waiting.iter().any(|it| it.is_release == sort);
        self.takes_releases ^= waits(!self.takes_releases);
        let mut batch = Vec::new();
        for it in std::mem::take(&mut self.waiting) {
            if it.is_release == self.takes_releases && batch.len() < self.most {
                batch.push(it.item);
            } else {
                self.waiting.push_back(it);
            }
        }
        if !batch.is_empty() {
            self.latest = batch.len();
        }
        self.in_flight += batch.len();
        batch
    }

    fn share(&self) -> usize {
        match self.takes {
            Takes::Half => (self.waiting.len() + self.in_flight).div_ceil(2),
            Takes::All | Takes::OneSort | Takes::Window(_) => self.waiting.len(),
        }
    }

    /// The flusher has sent its batch. `true`: the caller has to start the next one, for the items
    /// that are left.
    pub(crate) fn flushed(&mut self) -> bool {
        self.is_flushing = !self.waiting.is_empty();
        self.is_flushing
    }

    /// Items that were in flight are answered, or given up.
    pub(crate) fn ended(&mut self, items: usize) {
        self.in_flight -= items;
    }

    /// The flusher was dropped with its runtime before it sent anything; returns all waiting items.
    pub(crate) fn give_up(&mut self) -> Vec<T> {
        self.is_flushing = false;
        self.waiting.drain(..).map(|it| it.item).collect()
    }

    pub(crate) fn is_waiting(&self, id: ItemId) -> bool {
        self.position(id).is_some()
    }

    /// Removes the item of a caller that goes; `None`: the item is in a batch.
    pub(crate) fn withdraw(&mut self, id: ItemId) -> Option<T> {
        let at = self.position(id)?;
        self.waiting.remove(at).map(|it| it.item)
    }

    /// The same, but only if no batch has been taken since the item was queued.
    pub(crate) fn withdraw_if_stuck(&mut self, id: ItemId) -> Option<T> {
        let at = self.position(id)?;
        let is_stuck = self.waiting.get(at)?.batches == self.batches;
        is_stuck.then(|| self.withdraw(id))?
    }

    fn position(&self, id: ItemId) -> Option<usize> {
        self.waiting.binary_search_by_key(&id, |it| it.id).ok()
    }
}
