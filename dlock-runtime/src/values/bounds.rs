//! The bounds of a lock besides its ttl: how long it may be held, how often renewed, how long it
//! must stay.
//!
//! The rules are in `dlock_grammar::hold`, which the attribute uses too. Plain data.

use std::time::Duration;

use dlock_grammar::hold::{Hold, HoldError};

use super::ttl::Ttl;

/// The bounds of a lock besides its ttl.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// When a renewed lock is lost, counted from its grant.
    pub(crate) max_hold: Option<Duration>,
    /// After this many renewals the lease runs out at its deadline.
    pub(crate) max_renewals: Option<u32>,
    /// How long the key stays after the grant, at least.
    pub(crate) min_hold: Option<Duration>,
}

impl Bounds {
    /// All errors in the bounds; `ttl` is `None` if it is wrong itself.
    pub(crate) fn check(&self, ttl: Option<Ttl>, renewed: bool) -> Vec<HoldError> {
        let Self {
            max_hold,
            max_renewals,
            min_hold,
        } = *self;
        let hold = Hold {
            ttl: ttl.map(Ttl::get),
            renewed,
            max_hold,
            max_renewals,
            min_hold,
        };
        hold.check()
    }
}
