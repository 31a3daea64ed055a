//! What has to be remembered between the commands about one lock: where something of a claim may be
//! left, until when a vote for it may come late, and which epochs busy nodes told.
//!
//! Never in this folder: a decision. Invariants: a claim that is not here may be at every node;
//! nothing stays here for longer than it can matter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::client::quorum::footprint::Footprint;
use crate::values::moment::Moment;

/// With fewer claims than this, none is swept.
const SWEEP_AT_LEAST: usize = 64;

#[derive(Debug)]
pub(super) struct OpenClaims {
    /// How long something may be left.
    longest: Duration,
    claims: Mutex<Claims>,
}

#[derive(Debug, Default)]
struct Claims {
    /// By the claim's value; each is forgotten after a time.
    by_value: HashMap<Arc<str>, (Footprint, Moment)>,
    /// At this many, those that are over are swept.
    sweep_at: usize,
}

impl OpenClaims {
    pub(super) fn new(max_ttl: Duration) -> Self {
        Self {
            longest: max_ttl * 2 + Duration::from_secs(10),
            claims: Mutex::default(),
        }
    }

    /// The claim's votes are being taken back: no node is asked for one from now on. `None`: something
    /// of the claim may be left at all nodes.
    pub(super) fn end(&self, value: &str) -> Option<Footprint> {
        let mut claims = self.claims();
        let (footprint, _) = claims.by_value.get_mut(value)?;
        footprint.end();
        Some(*footprint)
    }

    /// Changes what is known of a claim that may be held; `None`: nothing is known.
    pub(super) fn change<T>(
        &self,
        value: &str,
        now: Moment,
        change: impl FnOnce(&mut Footprint) -> T,
    ) -> Option<T> {
        let mut claims = self.claims();
        let (footprint, until) = claims.by_value.get_mut(value)?;
        *until = now.plus(self.longest);
        Some(change(footprint))
    }

    pub(super) fn put(&self, value: &Arc<str>, footprint: Footprint, now: Moment) {
        let mut claims = self.claims();
        if claims.by_value.len() >= claims.sweep_at.max(SWEEP_AT_LEAST) {
            claims.by_value.retain(|_, (_, until)| *until > now);
            claims.sweep_at = claims.by_value.len() * 2;
        }
        let until = now.plus(self.longest);
        claims.by_value.insert(value.clone(), (footprint, until));
    }

    /// Nothing of the claim is left, or nobody will ask.
    pub(super) fn forget(&self, value: &str) {
        let mut claims = self.claims();
        if !claims.by_value.is_empty() {
            claims.by_value.remove(value);
        }
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The highest epoch that a node told to somebody whom it outvoted, for each such lock: the next
/// proposal has to be above it, so that fewer draws differ.
#[derive(Debug, Default)]
pub(super) struct SeenEpochs(Mutex<HashMap<Arc<str>, u64>>);

/// More are forgotten: a proposal is then as good as a first one.
const SEEN_AT_MOST: usize = 1024;

impl SeenEpochs {
    /// `epoch`: 0 if no node was busy, so that the lock is ours.
    pub(super) fn told(&self, key: &Arc<str>, epoch: u64) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch == 0 {
            if !seen.is_empty() {
                seen.remove(key);
            }
            return;
        }
        if seen.len() >= SEEN_AT_MOST {
            seen.clear();
        }
        let highest = seen.entry(key.clone()).or_default();
        *highest = epoch.max(*highest);
    }

    pub(super) fn highest(&self, key: &str) -> u64 {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
