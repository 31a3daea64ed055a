//! What the process holds and waits for, as gauges that all its pools share.
//!
//! Each pool says once a second what it has, and a gauge shows the sum over the pools, or the oldest.
//! Invariant: a class that no pool has any more is set to 0 once, and a pool that ends takes its part
//! back. What a pool has is set each time, so a recorder that is installed late, or has forgotten an
//! idle gauge, shows it a second later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::classes::ObservedClass;
use super::metrics;
use crate::values::process::{Home, PerProcess};

/// The labels of a class: what it is called, and its kind.
type ClassLabels = (Arc<str>, &'static str);

/// What a pool has of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClassCounts {
    held: usize,
    waiting: usize,
    /// For how long the oldest of what is held has been held.
    oldest: Duration,
}

impl ClassCounts {
    fn and(self, other: Self) -> Self {
        Self {
            held: self.held + other.held,
            waiting: self.waiting + other.waiting,
            oldest: self.oldest.max(other.oldest),
        }
    }
}

/// What a pool has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolGauges {
    cleaning_up: usize,
    in_flight: usize,
    classes: BTreeMap<ClassLabels, ClassCounts>,
}

impl PoolGauges {
    pub(crate) fn new(cleaning_up: usize, in_flight: usize) -> Self {
        Self {
            cleaning_up,
            in_flight,
            classes: BTreeMap::new(),
        }
    }

    pub(crate) fn add_held(&mut self, class: &ObservedClass, held_for: Duration) {
        self.add(class, |it| {
            it.held += 1;
            it.oldest = it.oldest.max(held_for);
        });
    }

    pub(crate) fn add_waiting(&mut self, class: &ObservedClass) {
        self.add(class, |it| it.waiting += 1);
    }

    fn add(&mut self, class: &ObservedClass, add: impl FnOnce(&mut ClassCounts)) {
        let (label, kind) = class.labels();
        add(self.classes.entry((label.clone(), kind)).or_default());
    }
}

/// What the pools of a process have said.
#[derive(Debug)]
struct AllPools {
    by_pool: BTreeMap<u64, PoolGauges>,
    /// Shown, although no pool of this process has them: its parent's.
    inherited: BTreeSet<ClassLabels>,
}

/// What the gauges show next.
#[derive(Debug, PartialEq, Eq)]
struct NextGauges {
    cleaning_up: usize,
    in_flight: usize,
    classes: Vec<(ClassLabels, ClassCounts)>,
}

impl Default for AllPools {
    fn default() -> Self {
        Self::new()
    }
}

impl AllPools {
    const fn new() -> Self {
        Self {
            by_pool: BTreeMap::new(),
            inherited: BTreeSet::new(),
        }
    }

    /// A pool has this now; `None`: it has ended. Returns the gauges of each class that it has or had,
    /// and of those that were inherited.
    fn say(&mut self, pool: u64, has: Option<PoolGauges>) -> NextGauges {
        let mut labels = std::mem::take(&mut self.inherited);
        labels.extend(has.iter().flat_map(|it| it.classes.keys().cloned()));
        let before = match has {
            Some(has) => self.by_pool.insert(pool, has),
            None => self.by_pool.remove(&pool),
        };
        labels.extend(before.into_iter().flat_map(|it| it.classes.into_keys()));
        let pools = || self.by_pool.values();
        let of_class = |labels: &ClassLabels| {
            let counts = pools().filter_map(|it| it.classes.get(labels));
            counts.fold(ClassCounts::default(), |sum, one| sum.and(*one))
        };
        let classes = labels.into_iter().map(|it| {
            let counts = of_class(&it);
            (it, counts)
        });
        NextGauges {
            classes: classes.collect(),
            cleaning_up: pools().map(|it| it.cleaning_up).sum(),
            in_flight: pools().map(|it| it.in_flight).sum(),
        }
    }

    /// This process was forked from the one that has these: the copy of its recorder shows them.
    fn inherit(&mut self, parents: &AllPools) {
        let pools = parents.by_pool.values();
        let shown = pools.flat_map(|it| it.classes.keys().cloned());
        self.inherited.extend(shown);
        self.inherited.extend(parents.inherited.iter().cloned());
    }
}

/// A recorder is called while it is locked, so that gauges are set in the order of what is said.
static ALL_POOLS: PerProcess<Mutex<AllPools>> = PerProcess::new(Mutex::new(AllPools::new()));

fn all_pools() -> MutexGuard<'static, AllPools> {
    let parents = ALL_POOLS.inherited();
    let mut ours = lock(ALL_POOLS.ours());
    // Another thread may have locked it at the fork, for ever; then its gauges stay as they are.
    if let Some(parents) = parents.and_then(|it| it.try_lock().ok()) {
        ours.inherit(&parents);
    }
    ours
}

fn lock(pools: &Mutex<AllPools>) -> MutexGuard<'_, AllPools> {
    pools.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of one pool.
#[derive(Debug)]
pub(crate) struct Gauges {
    home: Home,
    /// `None`: nothing was said yet.
    pool: Option<u64>,
}

impl Default for Gauges {
    fn default() -> Self {
        Self {
            home: Home::here(),
            pool: None,
        }
    }
}

impl Gauges {
    /// The pool has this now.
    pub(crate) fn set(&mut self, has: PoolGauges) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if self.home.is_elsewhere() {
            return; // a forked child has nothing of its parent's pool
        }
        let new = || NEXT.fetch_add(1, Ordering::Relaxed);
        let pool = *self.pool.get_or_insert_with(new);
        show(&mut all_pools(), pool, Some(has));
    }
}

/// The pool has nothing any more.
impl Drop for Gauges {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.filter(|_| !self.home.is_elsewhere()) {
            show(&mut all_pools(), pool, None);
        }
    }
}

fn show(pools: &mut AllPools, pool: u64, has: Option<PoolGauges>) {
    let next = pools.say(pool, has);
    metrics::pool_gauges([next.cleaning_up, next.in_flight]);
    for ((lock, kind), counts) in next.classes {
        let numbers = (counts.held, counts.waiting, counts.oldest);
        metrics::class_gauges(&lock, kind, numbers);
    }
}

#[cfg(test)]
mod tests;
