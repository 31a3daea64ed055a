//! What has to be remembered between the commands about one lock: where something of a claim may be
//! left, until when a vote for it may come late, and which epochs busy nodes told.
//!
//! Never in this folder: a decision. Invariants: a claim that is not here may be at every node;
//! nothing stays here for longer than it can matter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::policy::quorum::nodes::NodeSet;
use crate::values::moment::Moment;

/// With fewer claims than this, none is swept.
const SWEEP_AT_LEAST: usize = 64;

#[derive(Debug)]
pub(super) struct OpenClaims {
    /// How long something may be left.
    longest: Duration,
    claims: Mutex<Claims>,
}

/// Where something of a claim may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) nodes: NodeSet,
    /// The pool's time until which a node may execute a vote for it.
    pub(super) votes_until: u64,
}

#[derive(Debug, Default)]
struct Claims {
    /// By the claim's value; each is forgotten after a time.
    by_value: HashMap<Arc<str>, (Open, Moment)>,
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

    /// `None`: something of the claim may be left at all nodes.
    pub(super) fn of(&self, value: &str) -> Option<Open> {
        let claims = self.claims();
        if claims.by_value.is_empty() {
            return None; // the usual case
        }
        claims.by_value.get(value).map(|(open, _)| *open)
    }

    /// Something of the claim may be left at these nodes only.
    pub(super) fn only_at(&self, value: &Arc<str>, open: Open, now: Moment) {
        let mut claims = self.claims();
        if claims.by_value.len() >= claims.sweep_at.max(SWEEP_AT_LEAST) {
            claims.by_value.retain(|_, (_, until)| *until > now);
            claims.sweep_at = claims.by_value.len() * 2;
        }
        let until = now.plus(self.longest);
        claims.by_value.insert(value.clone(), (open, until));
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
