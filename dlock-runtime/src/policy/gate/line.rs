//! Who waits at a gate, in order of arrival. Nearly always nobody or one.

use std::collections::VecDeque;

use super::Seat;

/// Seats rise, so whoever comes last stands last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line<W>(VecDeque<(Seat, W)>);

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<W> Line<W> {
    /// `seat` is higher than all before it.
    pub(super) fn push(&mut self, seat: Seat, waiter: W) {
        debug_assert!(self.0.back().is_none_or(|(last, _)| *last < seat));
        self.0.push_back((seat, waiter));
    }

    pub(super) fn remove(&mut self, seat: Seat) {
        if let Some(at) = self.find(seat) {
            self.0.remove(at);
        }
        if self.0.is_empty() {
            self.0 = VecDeque::new(); // a lock that is held for long keeps its gate, and needs no room there
        }
    }

    pub(super) fn get(&self, seat: Seat) -> Option<&W> {
        let at = self.find(seat)?;
        self.0.get(at).map(|(_, waiter)| waiter)
    }

    pub(super) fn get_mut(&mut self, seat: Seat) -> Option<&mut W> {
        let at = self.find(seat)?;
        self.0.get_mut(at).map(|(_, waiter)| waiter)
    }

    pub(super) fn seats(&self) -> impl Iterator<Item = Seat> {
        self.0.iter().map(|(seat, _)| *seat)
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &W> {
        self.0.iter().map(|(_, waiter)| waiter)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, seat: Seat) -> Option<usize> {
        self.0.binary_search_by_key(&seat, |(seat, _)| *seat).ok()
    }
}

impl<W> IntoIterator for Line<W> {
    type Item = (Seat, W);
    type IntoIter = std::collections::vec_deque::IntoIter<(Seat, W)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
