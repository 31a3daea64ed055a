//! The waiters of a local queue, in order of arrival. Usually empty or one waiter.
//!
//! It knows nothing of turns or grants. Invariant: waiter ids rise from front to back.

use std::collections::{VecDeque, vec_deque};
use std::iter::Chain;
use std::option;

use super::WaiterId;

/// Waiter ids rise, so the newest waiter stands last. The first needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fifo<W> {
    /// `None`: no waiters.
    first: Option<(WaiterId, W)>,
    behind: VecDeque<(WaiterId, W)>,
}

impl<W> Default for Fifo<W> {
    fn default() -> Self {
        Self {
            first: None,
            behind: VecDeque::new(),
        }
    }
}

impl<W> Fifo<W> {
    /// `waiter_id` is higher than all before it.
    pub(super) fn push(&mut self, waiter_id: WaiterId, waiter: W) {
        debug_assert!(self.all().all(|(before, _)| *before < waiter_id));
        if self.first.is_none() {
            self.first = Some((waiter_id, waiter));
        } else {
            self.behind.push_back((waiter_id, waiter));
        }
    }

    pub(super) fn remove(&mut self, waiter_id: WaiterId) {
        if self
            .first
            .as_ref()
            .is_some_and(|(first, _)| *first == waiter_id)
        {
            self.first = self.behind.pop_front();
        } else if let Some(at) = self.find_behind(waiter_id) {
            self.behind.remove(at);
        }
        if self.behind.is_empty() {
            self.behind = VecDeque::new(); // a queue may outlive its waiters while its lock is held
        }
    }

    pub(super) fn get(&self, waiter_id: WaiterId) -> Option<&W> {
        if let Some((first, waiter)) = &self.first
            && *first == waiter_id
        {
            return Some(waiter);
        }
        let at = self.find_behind(waiter_id)?;
        self.behind.get(at).map(|(_, waiter)| waiter)
    }

    pub(super) fn get_mut(&mut self, waiter_id: WaiterId) -> Option<&mut W> {
        let at = self.find_behind(waiter_id);
        match (&mut self.first, at) {
            (Some((first, waiter)), _) if *first == waiter_id => Some(waiter),
            (_, at) => self.behind.get_mut(at?).map(|(_, waiter)| waiter),
        }
    }

    pub(super) fn waiter_ids(&self) -> impl Iterator<Item = WaiterId> {
        self.all().map(|(waiter_id, _)| *waiter_id)
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &W> {
        self.all().map(|(_, waiter)| waiter)
    }

    pub(super) fn waiters_mut(&mut self) -> impl Iterator<Item = &mut W> {
        let all = self.first.iter_mut().chain(&mut self.behind);
        all.map(|(_, waiter)| waiter)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn all(&self) -> impl Iterator<Item = &(WaiterId, W)> {
        self.first.iter().chain(&self.behind)
    }

    fn find_behind(&self, waiter_id: WaiterId) -> Option<usize> {
        self.behind
            .binary_search_by_key(&waiter_id, |(waiter_id, _)| *waiter_id)
            .ok()
    }
}

impl<W> IntoIterator for Fifo<W> {
    type Item = (WaiterId, W);
    type IntoIter = Chain<option::IntoIter<Self::Item>, vec_deque::IntoIter<Self::Item>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.behind)
    }
}
