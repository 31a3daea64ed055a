//! Who waits at a gate, in order of arrival. Nearly always nobody or one.

use std::collections::{VecDeque, vec_deque};
use std::iter::Chain;
use std::option;

use super::Seat;

/// Seats rise, so whoever comes last stands last. Only those behind the first need room of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line<W> {
    /// `None`: nobody waits.
    first: Option<(Seat, W)>,
    behind: VecDeque<(Seat, W)>,
}

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self {
            first: None,
            behind: VecDeque::new(),
        }
    }
}

impl<W> Line<W> {
    /// `seat` is higher than all before it.
    pub(super) fn push(&mut self, seat: Seat, waiter: W) {
        debug_assert!(self.all().all(|(before, _)| *before < seat));
        if self.first.is_none() {
            self.first = Some((seat, waiter));
        } else {
            self.behind.push_back((seat, waiter));
        }
    }

    pub(super) fn remove(&mut self, seat: Seat) {
        if self.first.as_ref().is_some_and(|(first, _)| *first == seat) {
            self.first = self.behind.pop_front();
        } else if let Some(at) = self.find_behind(seat) {
            self.behind.remove(at);
        }
        if self.behind.is_empty() {
            self.behind = VecDeque::new(); // a gate may be kept while its lock is held, and needs no room there
        }
    }

    pub(super) fn get(&self, seat: Seat) -> Option<&W> {
        if let Some((first, waiter)) = &self.first
            && *first == seat
        {
            return Some(waiter);
        }
        let at = self.find_behind(seat)?;
        self.behind.get(at).map(|(_, waiter)| waiter)
    }

    pub(super) fn get_mut(&mut self, seat: Seat) -> Option<&mut W> {
        let at = self.find_behind(seat);
        match (&mut self.first, at) {
            (Some((first, waiter)), _) if *first == seat => Some(waiter),
            (_, at) => self.behind.get_mut(at?).map(|(_, waiter)| waiter),
        }
    }

    pub(super) fn seats(&self) -> impl Iterator<Item = Seat> {
        self.all().map(|(seat, _)| *seat)
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &W> {
        self.all().map(|(_, waiter)| waiter)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn all(&self) -> impl Iterator<Item = &(Seat, W)> {
        self.first.iter().chain(&self.behind)
    }

    fn find_behind(&self, seat: Seat) -> Option<usize> {
        self.behind
            .binary_search_by_key(&seat, |(seat, _)| *seat)
            .ok()
    }
}

impl<W> IntoIterator for Line<W> {
    type Item = (Seat, W);
    type IntoIter = Chain<option::IntoIter<Self::Item>, vec_deque::IntoIter<Self::Item>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.behind)
    }
}
