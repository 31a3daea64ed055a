//! The watchdog's look at what is held and waited for, once a second: logs each hold that has become
//! longer than `long_hold`, and sets the gauges.
//!
//! No lock does anything for it. Since when a lock is held is what a look remembers of those before
//! it, so it hears of a hold up to a second late, and never counts one as longer than it is.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::lease_table::LeaseTable;
use crate::driver::lease_cell::LeaseCell;
#[cfg(feature = "metrics")]
use crate::driver::shared::PoolSnapshot;
use crate::driver::status::PoolCounts;
#[cfg(feature = "metrics")]
use crate::observe::{Gauges, ObservedHold, Observers, PoolGauges};
use crate::values::hashed::HashedMap;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// How often, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many holds one look logs as long, at most; the next look goes on. Many become long together
/// when what they all wait for hangs, and renewals must not wait for what listens to the log.
const LOGGED_AT_ONCE: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Look {
    next: Moment,
    known: KnownHolds,
    /// The last look saw a lock that was held, or anything else that a gauge shows.
    has_seen: bool,
    /// `memory://`: a task looks on, although no lease's task is left.
    pub(super) looks_on: bool,
    #[cfg(feature = "metrics")]
    gauges: Gauges,
}

impl Look {
    /// When the next one is due.
    pub(super) fn next(&self) -> Moment {
        self.next
    }

    /// Returns whether it was due.
    pub(super) fn if_due(&mut self, leases: &LeaseTable, now: Moment) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.look(leases, now);
        }
        is_due
    }

    /// Whether a gauge may show something that is over by now.
    pub(super) fn has_seen(&self) -> bool {
        self.has_seen
    }

    pub(super) fn look(&mut self, leases: &LeaseTable, now: Moment) {
        self.next = now.plus(LOOK_EVERY);
        let has = leases.shared.lock().snapshot();
        self.has_seen = has.counts != PoolCounts::default();
        let held_for = self.known.see(&has.held, now);
        if let Some(long) = leases.observers.long_hold() {
            log_long(&has.held, &held_for, long);
        }
        #[cfg(feature = "metrics")]
        self.gauges.set(gauges(&leases.observers, &has, &held_for));
    }
}

/// `held_for`: each of these, in the same order.
fn log_long(held: &[Arc<LeaseCell>], held_for: &[Duration], long: Duration) {
    let long = held.iter().zip(held_for).filter(|(_, it)| **it >= long);
    let logged = long.filter(|(cell, held_for)| cell.log_as_long(**held_for));
    let _ = logged.take(LOGGED_AT_ONCE).count();
}

#[cfg(feature = "metrics")]
fn gauges(observers: &Observers, has: &PoolSnapshot, held_for: &[Duration]) -> PoolGauges {
    let mut gauges = PoolGauges::new(has.counts.cleaning_up, has.counts.in_flight);
    for (cell, held_for) in has.held.iter().zip(held_for) {
        // Nearly all have one, which need not be found.
        let known = cell.observed().and_then(ObservedHold::class).cloned();
        if let Some(class) = known.or_else(|| observers.class_of(cell.spec().asked())) {
            gauges.add_held(&class, *held_for);
        }
    }
    for spec in &has.waiting {
        if let Some(class) = observers.class_of(spec.asked()) {
            gauges.add_waiting(&class);
        }
    }
    gauges
}

/// The holds that the last look saw.
#[derive(Debug, Default)]
struct KnownHolds(HashedMap<Token, KnownHold>);

#[derive(Debug)]
struct KnownHold {
    /// Weak, but its address is no other's meanwhile.
    cell: Weak<LeaseCell>,
    /// When it was first seen.
    since: Moment,
}

impl KnownHolds {
    /// These are held now, and no others. Returns for how long each has been held, at least.
    fn see(&mut self, held: &[Arc<LeaseCell>], now: Moment) -> Vec<Duration> {
        let mut before = std::mem::take(&mut self.0);
        self.0.reserve(held.len());
        let each = held.iter().map(|cell| {
            let known = before.remove(&cell.token());
            // A lock that is handed on keeps its token, and its next holder has another cell.
            let known = known.filter(|it| Weak::as_ptr(&it.cell) == Arc::as_ptr(cell));
            let known = known.unwrap_or_else(|| KnownHold {
                cell: Arc::downgrade(cell),
                since: now,
            });
            let held_for = known.since.until(now);
            self.0.insert(cell.token(), known);
            held_for
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests;
