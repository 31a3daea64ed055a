//! The bounds of local hand-off: how far a lock may go from holder to holder inside one process
//! before the server is asked again.
//!
//! The hand-off itself is in `client::local_queue`.

use std::time::Duration;

use super::fence::PER_EPOCH;

/// One less than the tokens of an epoch, for the first holder under a grant has one too.
pub(crate) const MOST_HANDOFFS: u16 = PER_EPOCH - 1;

/// The bounds of local hand-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handoff {
    /// How many hand-offs in a chain; 0: none.
    pub(crate) most: u16,
    /// For how long after this process learned of the grant.
    pub(crate) within: Duration,
    /// At most this part of the lease (10: a tenth), counted from the grant, so that the last
    /// holder of the chain has most of a lease.
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
