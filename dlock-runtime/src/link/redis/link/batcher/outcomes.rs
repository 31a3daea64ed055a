//! Where callers whose commands wait or are in a batch find the outcome. Pure: no clock, no I/O.
//!
//! Slots are used again, so that an item allocates nothing. Invariants: a slot is free only if
//! neither a caller nor an item has its id; no waker is dropped here, but handed out, to be dropped
//! or woken after unlocking: its vtable is a stranger's code, which may drop a guard.

use std::task::Waker;

use crate::strangers::CallersWaker;

/// A slot: its caller has this id, and so has its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotId(pub(super) usize);

#[derive(Debug)]
#[must_use = "its waker has to be dropped after unlocking"]
pub(super) enum OutcomeSlot<T> {
    Free,
    /// Its caller waits, with this waker.
    Waits(CallersWaker),
    /// The item has ended, and its caller has not read that.
    Ended(T),
    /// Its caller has gone.
    Left,
}

#[derive(Debug)]
pub(super) struct Outcomes<T> {
    slots: Vec<OutcomeSlot<T>>,
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
        let waits = OutcomeSlot::Waits(CallersWaker::of(waker));
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(OutcomeSlot::Free);
            SlotId(self.slots.len() - 1)
        });
        let _free = self.set(id, waits);
        id
    }

    /// The caller reads the outcome, and then has the slot no more; otherwise it is woken when there
    /// is one. Another waker that it had before is handed out; `Free`: nothing is.
    pub(super) fn poll(&mut self, id: SlotId, waker: &Waker) -> OutcomeSlot<T> {
        match self.slots.get_mut(id.0) {
            Some(OutcomeSlot::Waits(known)) if !known.will_wake(waker) => {
                OutcomeSlot::Waits(std::mem::replace(known, CallersWaker::of(waker)))
            }
            Some(OutcomeSlot::Ended(_)) => self.free(id),
            _ => OutcomeSlot::Free,
        }
    }

    /// The caller goes, with the outcome if there is one, or with its waker. `withdrawn`: the item
    /// goes, too.
    pub(super) fn leave(&mut self, id: SlotId, withdrawn: bool) -> OutcomeSlot<T> {
        if let Some(OutcomeSlot::Waits(_)) = self.slots.get(id.0)
            && !withdrawn
        {
            self.departures += 1;
            return self.set(id, OutcomeSlot::Left);
        }
        self.free(id)
    }

    /// Whether the item's caller still waits.
    pub(super) fn is_awaited(&self, id: SlotId) -> bool {
        matches!(self.slots.get(id.0), Some(OutcomeSlot::Waits(_)))
    }

    /// The item ends; returns the waker of its caller, to be woken after unlocking.
    pub(super) fn end(&mut self, id: SlotId, outcome: T) -> Option<CallersWaker> {
        if let OutcomeSlot::Waits(waker) = self.set(id, OutcomeSlot::Ended(outcome)) {
            return Some(waker);
        }
        let _unread = self.free(id); // nobody is left who has a waker
        None
    }

    /// The former content.
    fn free(&mut self, id: SlotId) -> OutcomeSlot<T> {
        self.free.push(id);
        self.set(id, OutcomeSlot::Free)
    }

    /// The former content.
    fn set(&mut self, id: SlotId, slot: OutcomeSlot<T>) -> OutcomeSlot<T> {
        let kept = self.slots.get_mut(id.0);
        kept.map_or(OutcomeSlot::Free, |kept| std::mem::replace(kept, slot))
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl<T> OutcomeSlot<T> {
    pub(super) fn outcome(self) -> Option<T> {
        match self {
            OutcomeSlot::Ended(outcome) => Some(outcome),
            OutcomeSlot::Free | OutcomeSlot::Waits(_) | OutcomeSlot::Left => None,
        }
    }
}
