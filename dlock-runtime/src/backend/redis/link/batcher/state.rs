//! What waits at a batcher, and how much is on its way. Pure: no clock, no I/O.
//!
//! Invariant: while an item waits, a flusher has been promised: one that was started and has not sent its batch yet.

use std::collections::VecDeque;

/// So many callers send by themselves before anybody puts an item down: a task that releases in the background and goes on is two.
const ALONE: usize = 2;

/// Of an item that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemId {
    number: u64,
    /// So many batches had been taken before.
    batches: u64,
}

#[derive(Debug)]
pub(super) struct State<T> {
    most: usize,
    /// Items that were sent, by their callers or in batches, and are not answered yet.
    in_flight: usize,
    /// A flusher is to come, or is at work.
    is_flushing: bool,
    tickets: u64,
    /// How many were taken.
    batches: u64,
    /// In order of arrival, with whether it is a release.
    waiting: VecDeque<(ItemId, bool, T)>,
}

impl<T> State<T> {
    /// At most so many items in one batch.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            in_flight: 0,
            is_flushing: false,
            tickets: 0,
            batches: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Whether hardly anything is on its way and nothing waits: then the caller sends by itself, until [`ended`](Self::ended).
    pub(super) fn goes_alone(&mut self) -> bool {
        let is_alone = self.in_flight < ALONE && !self.is_flushing;
        self.in_flight += usize::from(is_alone);
        is_alone
    }

    /// `true`: a flusher is to be started.
    pub(super) fn wait(&mut self, is_release: bool, item: T) -> (ItemId, bool) {
        let id = ItemId {
            number: self.tickets,
            batches: self.batches,
        };
        self.tickets += 1;
        self.waiting.push_back((id, is_release, item));
        (id, !std::mem::replace(&mut self.is_flushing, true))
    }

    /// What the flusher sends, until [`ended`](Self::ended): half of what waits and is on its way, so that the server works on
    /// one half while the client prepares the other. As it came, but releases before acquires. Empty: nothing waits any more.
    pub(super) fn next_batch(&mut self) -> Vec<T> {
        let half = (self.waiting.len() + self.in_flight).div_ceil(2);
        let items = self.waiting.len().min(half).min(self.most);
        self.in_flight += items;
        self.batches += 1;
        let [mut batch, mut acquires] = [0; 2].map(|_| Vec::with_capacity(items));
        for (_, is_release, item) in self.waiting.drain(..items) {
            if is_release {
                &mut batch
            } else {
                &mut acquires
            }
            .push(item);
        }
        batch.append(&mut acquires);
        batch
    }

    /// The flusher has sent its batch. `true`: the next one is to be started, for what is left.
    pub(super) fn flushed(&mut self) -> bool {
        self.is_flushing = !self.waiting.is_empty();
        self.is_flushing
    }

    /// So many items that were on their way are answered, or given up.
    pub(super) fn ended(&mut self, items: usize) {
        self.in_flight -= items;
    }

    /// A flusher has ended with its runtime, before it sent anything: so does the waiting.
    pub(super) fn give_up(&mut self) -> Vec<T> {
        self.is_flushing = false;
        self.waiting.drain(..).map(|(_, _, item)| item).collect()
    }

    /// A caller goes; `None`: its item is in a batch.
    pub(super) fn withdraw(&mut self, id: ItemId) -> Option<T> {
        let at = self
            .waiting
            .binary_search_by_key(&id.number, |it| it.0.number);
        self.waiting.remove(at.ok()?).map(|(_, _, item)| item)
    }

    /// The same if no batch has been taken since the item was put down.
    pub(super) fn withdraw_if_stuck(&mut self, id: ItemId) -> Option<T> {
        (id.batches == self.batches).then(|| self.withdraw(id))?
    }
}
