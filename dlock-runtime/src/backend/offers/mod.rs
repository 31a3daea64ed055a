//! What a backend can do, asked once for each request before anything is sent or queued.
//!
//! Never in this folder: a command. Invariant: a refusal says why, and what to do instead.

use std::fmt::Display;

use crate::values::error::Reason;
use crate::values::kind::Kind;

/// What a backend offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offers {
    Everything,
    /// A Redis server that runs no scripts: the exclusive lock, one key at a time.
    WithoutScripts,
    /// Several servers, of which a quorum decides: every kind but permits, one key at a time.
    Quorum,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedOffer<'a> {
    Lock {
        kind: &'a Kind,
        fair: bool,
        several: bool,
    },
    /// Guarded writes.
    Writes,
    /// Ending the hold of one of many holders.
    EvictionOfOne,
}

impl Offers {
    /// `Err`: the backend can't do that.
    #[inline]
    pub(crate) fn check(self, wanted: WantedOffer<'_>) -> Result<(), Reason> {
        match self {
            Offers::Everything => Ok(()),
            Offers::WithoutScripts => without_scripts(wanted),
            Offers::Quorum => quorum(wanted),
        }
    }
}

fn without_scripts(wanted: WantedOffer<'_>) -> Result<(), Reason> {
    let needs = |what: &dyn Display, why: &str, instead: &str| {
        Err(Reason::new(format_args!(
            "{what} needs scripts, and this pool is `without_scripts`: {why}; use a server that runs scripts, or {instead}"
        )))
    };
    match wanted {
        WantedOffer::Lock { several: true, .. } => needs(
            &"a lock of several keys",
            "all or none are taken in one step",
            "take one lock inside the other, everywhere in the same order",
        ),
        WantedOffer::Lock { fair: true, .. } => needs(
            &"`fair`",
            "a lease that ran out may go to a newcomer",
            "leave `fair` out: waiters still take turns",
        ),
        WantedOffer::Lock { kind, .. } if kind.is_shared() => needs(
            kind,
            "the server counts its holders",
            "take an exclusive lock (also `reentrant`, without an `owner`)",
        ),
        WantedOffer::Lock { .. } => Ok(()),
        WantedOffer::Writes => needs(
            &"a guarded write",
            "the server checks the lock and writes in one step",
            "let your resource check the lock's `fence`",
        ),
        WantedOffer::EvictionOfOne => needs(
            &"evicting one of many holders",
            "the server counts its holders",
            "evict it from a program whose pool uses scripts",
        ),
    }
}

fn quorum(wanted: WantedOffer<'_>) -> Result<(), Reason> {
    let refused = |what: &dyn Display, why: &str, instead: &str| {
        Err(Reason::new(format_args!(
            "{what} can't be had of several servers (`redlock://`): {why}; {instead}"
        )))
    };
    match wanted {
        WantedOffer::Lock { fair: true, .. } => refused(
            &"`fair`",
            "no server sees all who wait, so none knows who came first",
            "leave `fair` out: first come is usually first served",
        ),
        WantedOffer::Lock {
            kind: Kind::Permits { .. },
            ..
        } => refused(
            &"a lock with permits",
            "each server would give out all permits, and a quorum of them more than there are",
            "take one of several exclusive locks, `name#1` to `name#k`",
        ),
        WantedOffer::Lock { .. } | WantedOffer::EvictionOfOne => Ok(()),
        WantedOffer::Writes => refused(
            &"a guarded write",
            "the data would be on one server and the lock on all",
            "let your resource check the lock's `fence`",
        ),
    }
}

#[cfg(test)]
mod tests;
