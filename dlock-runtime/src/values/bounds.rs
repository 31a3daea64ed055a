//! What bounds a hold from both sides, as it was asked for.

use std::time::Duration;

/// `max_hold`, `max_renewals` and `min_hold`; `None`: no such bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub(crate) max_hold: Option<Duration>,
    pub(crate) max_renewals: Option<u32>,
    pub(crate) min_hold: Option<Duration>,
}
