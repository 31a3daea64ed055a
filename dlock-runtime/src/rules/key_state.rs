//! All that a server stores about one key: who holds the lock, who waits for it, the record of the last
//! run of a job that runs once per period, and at a node of a quorum whom to tell when it is free.
//!
//! `fits`, `put`, `remove` and `ends` are all that the kinds differ in; a value and a set are
//! alike to everybody else. Invariant: a state without anything in it is not stored.

use std::sync::Arc;
use std::time::Duration;

use super::hints::Hints;
use super::last_run::StoredRecord;
use super::lock::{Held, Lock};
use super::micros;
use super::set::Set;
use super::wait_queue::WaitQueue;
use crate::rules::commands::{Busy, Keep, Left, Renewal, Renewed};
use crate::rules::queue;
use crate::values::entry::{self, Entry};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct KeyState {
    pub(super) lock: Option<Lock>,
    pub(super) queue: WaitQueue,
    pub(super) hints: Hints,
    pub(super) record: Option<StoredRecord>,
}

impl KeyState {
    /// The same, and what ends too late because the clock was set back is cut. Without the last epoch as
    /// a proof, a build that does not note what it gave beyond an entry's lease wrote it.
    pub(super) fn tidy_at(&mut self, last_epoch: u64, time: u64) {
        if last_epoch > time.saturating_add(micros(queue::STEP_BACK))
            && let Some(set) = self.set()
        {
            set.cut_ends(time);
        }
        self.tidy(time);
    }

    /// Drops what has lapsed.
    pub(super) fn tidy(&mut self, time: u64) {
        self.drop_lapsed_holders(time);
        self.queue.drop_if_lapsed(time);
        self.hints.drop_if_lapsed(time);
        let is_over = |it: &mut StoredRecord| it.expires.is_some_and(|at| at <= time);
        self.record.take_if(is_over);
    }

    pub(super) fn is_empty(&self) -> bool {
        let nobody = self.lock.is_none() && self.queue.is_empty() && self.hints.is_empty();
        nobody && self.record.is_none()
    }

    /// Whether a value is stored at the key, beside which no other holder fits.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.lock, Some(Lock::One(_)))
    }

    pub(super) fn is_free(&self) -> bool {
        self.lock.is_none()
    }

    /// The set of holders of a kind with many.
    pub(super) fn set(&mut self) -> Option<&mut Set> {
        match &mut self.lock {
            Some(Lock::Many(set)) => Some(set),
            _ => None,
        }
    }

    pub(super) fn fits(&self, entry: &Entry<'_>) -> bool {
        self.lock.as_ref().is_none_or(|lock| lock.fits(entry))
    }

    /// Adds a holder that fits. Returns its epoch: all entries of an owner's hold share one.
    pub(super) fn put(
        &mut self,
        value: &Arc<str>,
        entry: &Entry<'_>,
        lease: Duration,
        (epoch, time): (u64, u64),
    ) -> u64 {
        let until = time.saturating_add(micros(lease));
        if !entry.letter.is_shared() {
            self.lock = Some(Lock::One(Held {
                value: value.clone(),
                expires: Some(until),
                epoch: None,
            }));
            return epoch;
        }
        if self.set().is_none() {
            self.lock = Some(Lock::Many(Set::new(entry, epoch)));
        }
        let Some(set) = self.set() else { return epoch };
        set.put(value.clone(), entry.take, until, time);
        set.meta.epoch().unwrap_or(epoch)
    }

    /// Extends a claim's lease, and never shortens it.
    pub(super) fn renew(&mut self, Renewal { claim, ttl }: &Renewal, time: u64) -> Renewed {
        let until = time + ttl.as_millis() * 1000;
        let lock = self.lock.as_mut();
        Renewed::by_holder(lock.is_some_and(|it| it.renew(&claim.value, until, time)))
    }

    /// Takes a claim's entry out, or leaves it there without an owner if it is to be kept. Returns
    /// whether it was there.
    pub(super) fn remove(&mut self, value: &str, keep: Keep, time: u64) -> bool {
        match &mut self.lock {
            Some(Lock::One(held)) if *held.value == *value => {
                self.lock = keep.left(time).map(|left| {
                    Lock::One(Held {
                        value: entry::retired(value).into(),
                        // In whole milliseconds, rounded up, as the server keeps them.
                        expires: Some(time + left.div_ceil(1000) * 1000),
                        epoch: None,
                    })
                });
                true
            }
            Some(Lock::Many(set)) => {
                let found = set.give_back(value, keep, time);
                self.drop_lapsed_holders(time);
                found
            }
            _ => false,
        }
    }

    pub(super) fn holds(&self, value: &str) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.holds(value))
    }

    /// Who is in the way, and for how long.
    pub(super) fn busy(&self, time: u64) -> Busy {
        let free = || Busy {
            // Behind a queue entry that can't be read, or a writer that was told at a node.
            time,
            left: Left::For(Duration::ZERO),
            value: String::new(),
        };
        self.lock.as_ref().map_or_else(free, |lock| lock.busy(time))
    }

    fn drop_lapsed_holders(&mut self, time: u64) {
        if let Some(lock) = &mut self.lock
            && !lock.drop_lapsed(time)
        {
            self.lock = None;
        }
    }
}
