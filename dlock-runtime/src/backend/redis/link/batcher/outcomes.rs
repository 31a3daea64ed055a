//! Where callers whose commands wait or are in a batch find the outcome. Pure: no clock, no I/O.
//!
//! Slots are used again, so that an item allocates nothing. Invariant: a slot is free only if
//! neither a caller nor an item has its id.

use std::task::Waker;

/// A slot: its caller has this id, and so has its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotId(pub(super) usize);

#[derive(Debug)]
enum Slot<T> {
    Free,
    /// Its caller waits, with this waker.
    Waits(Waker),
    /// The item has ended, and its caller has not read that.
    Ended(T),
    /// Its caller has gone.
    Left,
}

#[derive(Debug)]
pub(super) struct Outcomes<T> {
    slots: Vec<Slot<T>>,
    free: Vec<SlotId>,
    /// How many callers have gone and left their items behind.
    departures: u64,
}

impl<T> Outcomes<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            departures: 0,
        }
    }

    /// As long as it stays the same, whoever waited still waits, unless its item has ended.
    pub(super) fn departures(&self) -> u64 {
        self.departures
    }

    /// A slot for a caller and its item; the caller is woken when there is an outcome.
    pub(super) fn open(&mut self, waker: &Waker) -> SlotId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            SlotId(self.slots.len() - 1)
        });
        self.set(id, Slot::Waits(waker.clone()));
        id
    }

    /// The caller reads the outcome, and then has the slot no more; `None`: it is woken when there
    /// is one.
    pub(super) fn poll(&mut self, id: SlotId, waker: &Waker) -> Option<T> {
        match self.slots.get_mut(id.0)? {
            Slot::Waits(known) => known.clone_from(waker), // costs nothing if it is the same
            Slot::Ended(_) => return self.take(id),
            Slot::Free | Slot::Left => {}
        }
        None
    }

    /// The caller goes, with the outcome if there is one. `withdrawn`: so does the item.
    pub(super) fn leave(&mut self, id: SlotId, withdrawn: bool) -> Option<T> {
        if let Some(Slot::Waits(_)) = self.slots.get(id.0)
            && !withdrawn
        {
            self.set(id, Slot::Left);
            self.departures += 1;
            return None;
        }
        self.take(id)
    }

    /// Whether the item's caller still waits.
    pub(super) fn is_awaited(&self, id: SlotId) -> bool {
        matches!(self.slots.get(id.0), Some(Slot::Waits(_)))
    }

    /// The item ends; returns the waker of its caller, to be woken after unlocking.
    pub(super) fn end(&mut self, id: SlotId, outcome: T) -> Option<Waker> {
        if let Slot::Waits(waker) = self.set(id, Slot::Ended(outcome)) {
            return Some(waker);
        }
        self.take(id); // nobody reads it
        None
    }

    fn take(&mut self, id: SlotId) -> Option<T> {
        self.free.push(id);
        match self.set(id, Slot::Free) {
            Slot::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The former content.
    fn set(&mut self, id: SlotId, slot: Slot<T>) -> Slot<T> {
        let kept = self.slots.get_mut(id.0);
        kept.map_or(Slot::Free, |kept| std::mem::replace(kept, slot))
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
