//! How far a lock may go from holder to holder inside one process before the server is asked again.

use std::time::Duration;

use super::fence::PER_EPOCH;

/// The first holder under a grant has a number of its own.
pub(crate) const MOST_HANDOFFS: u16 = PER_EPOCH - 1;

/// The bounds of local handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handoff {
    /// How often in a row; 0: never.
    pub(crate) most: u16,
    /// For how long after the server's grant is known here.
    pub(crate) within: Duration,
    /// And no longer than this part of what was granted, counted from the grant, so that the last holder in the row has most of a lease.
    pub(crate) part: u32,
}

impl Handoff {
    pub(crate) const DEFAULT: Handoff = Handoff::up_to(16, Duration::from_millis(10));

    pub(crate) const fn up_to(most: u16, within: Duration) -> Self {
        Self {
            most,
            within,
            part: 10,
        }
    }
}
