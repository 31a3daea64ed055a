//! The gates of a pool, by their lines.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use super::Lane;
use super::keyed::Keyed;
use super::lane::HashedBefore;
use crate::values::error::LockError;
use crate::values::moment::Moment;

/// Fewer gates than this are never looked at.
const SWEEP_AT_LEAST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Boxed: most slots of a table are empty.
    pub(super) gates: HashMap<Lane, Box<Keyed>, BuildHasherDefault<HashedBefore>>,
    /// The lines that are not for all, by key: a push names the key alone.
    own: HashMap<Arc<str>, BTreeSet<Lane>>,
    /// With so many gates, those go that nobody would miss.
    sweep_at: usize,
    /// What everybody hears from here on who comes.
    pub(super) closed: Option<LockError>,
}

impl Keys {
    /// The gate of a line, new if there is none.
    pub(super) fn at(&mut self, lane: &Lane, now: Moment) -> &mut Keyed {
        self.sweep(now);
        if !lane.is_for_all() {
            let own = self.own.entry(lane.key().clone()).or_default();
            own.insert(lane.clone());
        }
        self.gates.entry(lane.clone()).or_default()
    }

    /// The line whose place has this value.
    pub(super) fn awaits(&self, key: &Arc<str>, value: &str) -> Option<Lane> {
        let for_all = Lane::for_all(key.clone());
        let own = self.own.get(key).into_iter().flatten();
        let mut lanes = std::iter::once(&for_all).chain(own);
        let awaits = |lane: &&Lane| {
            let keyed = self.gates.get(lane);
            keyed.is_some_and(|keyed| keyed.gate.awaits(value).is_some())
        };
        lanes.find(awaits).cloned()
    }

    /// Forgets the gates of locks that are held for so long that nobody here can have them from their holder. Each time that
    /// there are twice as many gates as the last time left, so it costs every one a look or two.
    fn sweep(&mut self, now: Moment) {
        if self.gates.len() < self.sweep_at.max(SWEEP_AT_LEAST) {
            return;
        }
        let all = self.gates.iter();
        let idle = all.filter(|(_, keyed)| keyed.is_idle_at(now));
        let idle: Vec<Lane> = idle.map(|(lane, _)| lane.clone()).collect();
        for lane in &idle {
            self.remove(lane);
        }
        self.sweep_at = self.gates.len() * 2;
        self.gates.shrink_to(self.sweep_at);
    }

    pub(super) fn remove(&mut self, lane: &Lane) {
        self.gates.remove(lane);
        self.sweep_at = self.sweep_at.min(self.gates.len() * 4); // what was many once is not many for ever
        if let Some(own) = self.own.get_mut(lane.key()) {
            own.remove(lane);
            if own.is_empty() {
                self.own.remove(lane.key());
            }
        }
    }
}

#[cfg(test)]
mod tests;
