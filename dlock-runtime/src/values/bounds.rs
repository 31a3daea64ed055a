//! How long one lock may be held and how long it must be, checked once against its lease.

use std::time::Duration;

use dlock_grammar::hold::{Hold, HoldError};

use super::ttl::Ttl;

/// What bounds a lock besides its ttl.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// When a renewed lock is lost, counted from its grant.
    pub(crate) max_hold: Option<Duration>,
    /// After how many renewals it is left to its deadline.
    pub(crate) max_renewals: Option<u32>,
    /// How long the key stays after the grant at least.
    pub(crate) min_hold: Option<Duration>,
}

impl Bounds {
    /// Everything that is wrong with them; `ttl` is `None` where that is wrong itself.
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
