//! The gates of a pool, by their lines.

use std::collections::HashMap;
use std::sync::Arc;

use super::keyed::Keyed;
use super::lane::Lane;
use crate::values::error::LockError;
use crate::values::hashed::HashedMap;
use crate::values::moment::Moment;

/// Fewer gates than this are never looked at.
const SWEEP_AT_LEAST: usize = 64;

/// As many as leave with one answer of the server, and a few.
const SPARE_AT_MOST: usize = 128;

#[derive(Debug, Default)]
pub(in crate::engine) struct Keys {
    /// Boxed: most slots of a table are empty.
    pub(super) gates: HashedMap<Lane, Box<Keyed>>,
    /// The lines that are not for all, by the value of the last acquire of each: whatever a push names, one look finds its line,
    /// however many wait for the key.
    own: HashMap<Arc<str>, Lane>,
    /// What gates were kept in, for those that come next: most come and go with each lock.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    spare: Vec<Box<Keyed>>,
    /// With so many gates, those go that nobody would miss.
    sweep_at: usize,
    /// What everybody hears from here on who comes.
    pub(super) closed: Option<LockError>,
}

impl Keys {
    /// The gate of a line, new if there is none.
    pub(super) fn at(&mut self, lane: &Lane, now: Moment) -> &mut Keyed {
        self.sweep(now);
        let spare = || self.spare.pop().unwrap_or_default();
        self.gates.entry(lane.clone()).or_insert_with(spare)
    }

    /// An acquire of this queue went out with this value.
    pub(super) fn sent(&mut self, lane: &Lane, value: &Arc<str>) {
        if lane.is_for_all() {
            return;
        }
        if let Some(keyed) = self.gates.get_mut(lane) {
            if let Some(before) = keyed.asked.replace(value.clone()) {
                self.own.remove(&before);
            }
            self.own.insert(value.clone(), lane.clone());
        }
    }

    /// The line whose place has this value.
    pub(super) fn awaits(&self, key: &Arc<str>, value: &str) -> Option<Lane> {
        let for_all = Lane::for_all(key.clone());
        let own = self.own.get(value).filter(|lane| lane.key() == key);
        let awaits = |lane: &Lane| {
            #[cfg(test)]
            LOOKS.with(|looks| looks.set(looks.get() + 1));
            let keyed = self.gates.get(lane);
            keyed.is_some_and(|keyed| keyed.gate.awaits(value).is_some())
        };
        if awaits(&for_all) {
            return Some(for_all);
        }
        own.filter(|lane| awaits(lane)).cloned()
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
        let Some(mut keyed) = self.gates.remove(lane) else {
            return;
        };
        self.sweep_at = self.sweep_at.min(self.gates.len() * 4); // what was many once is not many for ever
        if let Some(asked) = &keyed.asked {
            self.own.remove(asked);
        }
        if self.spare.len() < SPARE_AT_MOST {
            *keyed = Keyed::default();
            self.spare.push(keyed);
        }
    }
}

#[cfg(test)]
thread_local! {
    /// How many gates were looked at for a push.
    static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
