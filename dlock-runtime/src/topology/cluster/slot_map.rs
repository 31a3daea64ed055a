//! Which node of a cluster serves which hash slot, as far as it is known: what a node listed, and
//! what others said since (`MOVED`).
//!
//! Pure. Invariants: an answer to a question that was asked before a `MOVED` arrived does not
//! overrule it; what is listed is bounded by the number of slots; a slot that one list leaves out is
//! looked up in the next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::values::config::Host;
use crate::values::slot::SLOTS;

/// The slots that a node serves, as one of the nodes says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) slots: RangeInclusive<u16>,
    pub(crate) node: Host,
}

#[derive(Debug, Default)]
pub(crate) struct SlotMap {
    /// By the last slot of each range; they do not overlap.
    ranges: BTreeMap<u16, Listed>,
    /// The slots that are elsewhere than listed, with the number of the redirect that said so.
    moved: BTreeMap<u16, (Host, u64)>,
    redirects: u64,
}

/// When a question was asked, for [`SlotMap::learn`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedAt(u64);

impl SlotMap {
    /// Who serves the slot; `None`: nobody, or it is not known.
    pub(crate) fn node(&self, slot: u16) -> Option<&Host> {
        if let Some((node, _)) = self.moved.get(&slot) {
            return Some(node);
        }
        let (_, listed) = self.ranges.range(slot..).next()?;
        listed.slots.contains(&slot).then_some(&listed.node)
    }

    /// A number of the node that serves the slot, the same for all its slots.
    pub(crate) fn number(&self, slot: u16) -> usize {
        let nodes = || self.ranges.values().map(|it| &it.node);
        let node = self.node(slot);
        let at = node.and_then(|node| nodes().position(|it| it == node));
        at.unwrap_or_else(|| nodes().count() + usize::from(slot))
    }

    /// All nodes that serve a slot, each once.
    pub(crate) fn nodes(&self) -> BTreeSet<&Host> {
        let listed = self.ranges.values().map(|it| &it.node);
        let moved = self.moved.values().map(|(node, _)| node);
        listed.chain(moved).collect()
    }

    /// How many slots no node serves, and the first of them.
    pub(crate) fn unserved(&self) -> Option<(usize, u16)> {
        let mut slots = (0..SLOTS).filter(|slot| self.node(*slot).is_none());
        let first = slots.next()?;
        Some((1 + slots.count(), first))
    }

    /// The first slot that this node serves.
    pub(crate) fn slot_of(&self, node: &Host) -> Option<u16> {
        let listed = self.ranges.values().filter(|it| it.node == *node);
        let mut slots = listed.flat_map(|it| it.slots.clone());
        let moved = self.moved.iter();
        let moved = || {
            moved
                .clone()
                .find(|(_, (to, _))| to == node)
                .map(|(slot, _)| *slot)
        };
        slots
            .find(|slot| !self.moved.contains_key(slot))
            .or_else(moved)
    }

    /// A node did not execute a command, because this one serves the slot.
    pub(crate) fn moved(&mut self, slot: u16, node: Host) {
        if slot < SLOTS {
            self.redirects += 1;
            self.moved.insert(slot, (node, self.redirects));
        }
    }

    /// A question for the list of slots is about to be asked.
    pub(crate) fn asking(&self) -> AskedAt {
        AskedAt(self.redirects)
    }

    /// Nodes answered that question; the first list is believed first. Returns whether they say
    /// something new.
    pub(crate) fn learn(&mut self, lists: Vec<Vec<Listed>>, asked: AskedAt) -> bool {
        let before = std::mem::take(&mut self.ranges);
        for mut listed in lists {
            let mut free = 0;
            listed.sort_by_key(|it| *it.slots.start());
            for it in listed {
                let (first, last) = (*it.slots.start(), *it.slots.end());
                if first >= free && first <= last && last < SLOTS {
                    free = last + 1;
                    self.add(&it);
                }
            }
        }
        let moved = self.moved.len();
        self.moved.retain(|_, (_, number)| *number > asked.0);
        before != self.ranges || moved != self.moved.len()
    }

    /// Adds those slots of a range that no other range has.
    fn add(&mut self, listed: &Listed) {
        let (mut next, last) = (*listed.slots.start(), *listed.slots.end());
        while next <= last {
            let known = self.ranges.range(next..).next();
            let known = known.map(|(_, known)| (*known.slots.start(), *known.slots.end()));
            match known {
                Some((first, end)) if first <= next => next = end + 1,
                other => {
                    let end = other.map_or(last, |(first, _)| last.min(first - 1));
                    let slots = next..=end;
                    let node = listed.node.clone();
                    self.ranges.insert(end, Listed { slots, node });
                    next = end + 1;
                }
            }
        }
    }
}
