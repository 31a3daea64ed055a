//! The bounds of a lock besides its ttl: how long it may be held, how often renewed, how long it
//! must stay.
//!
//! The rules are in `dlock_grammar::hold`, which the attribute uses too. Plain data.

use std::time::Duration;

use dlock_grammar::hold::{Hold, HoldError};

use super::ttl::{self, Ttl};

/// The bounds of a lock besides its ttl.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// When a renewed lock is lost, counted from its grant.
    pub(crate) max_hold: Option<Duration>,
    /// After this many renewals the lease runs out at its deadline.
    pub(crate) max_renewals: Option<u32>,
    /// How long the key stays after the grant, at least.
    pub(crate) min_hold: Option<Duration>,
    /// Its job runs once in this time.
    pub(crate) once_per: Option<OncePer>,
}

/// How often a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OncePer {
    /// In ms: from the start of a run that succeeded, it does not run again for so long. 0 is below the
    /// least.
    period: u64,
    after_crash: AfterCrash,
}

impl OncePer {
    pub(crate) fn new(period: Duration) -> Self {
        Self {
            period: ttl::millis(period),
            after_crash: AfterCrash::default(),
        }
    }

    pub(crate) fn with(self, after_crash: AfterCrash) -> Self {
        Self {
            after_crash,
            ..self
        }
    }

    pub(crate) fn is_at_most_once(self) -> bool {
        self.after_crash == AfterCrash::Skip
    }

    pub(crate) fn period(self) -> Duration {
        Duration::from_millis(self.period)
    }
}

/// Whether a job that runs once per period runs again after its process crashed while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AfterCrash {
    /// The next caller runs it: at least once per period. The run is recorded when it has succeeded.
    #[default]
    Again,
    /// Nobody runs it until its period is over: at most once per period. The run is recorded before
    /// the body begins, and taken back if the body returns an `Err`.
    Skip,
}

impl Bounds {
    /// All errors in the bounds; `ttl` is `None` if it is wrong itself.
    pub(crate) fn check(&self, ttl: Option<Ttl>, renewed: bool) -> Vec<HoldError> {
        let Self {
            max_hold,
            max_renewals,
            min_hold,
            once_per,
        } = *self;
        let hold = Hold {
            ttl: ttl.map(Ttl::get),
            renewed,
            max_hold,
            max_renewals,
            min_hold,
            once_per: once_per.map(OncePer::period),
        };
        hold.check()
    }
}
