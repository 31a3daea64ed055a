//! The times of the queue of a key on the server. What stands in it are entries (`values::entry`). The scripts have the
//! same times in `times.lua`.

use std::time::Duration;

/// A place without a sign of life for this long is passed over.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(3500);

/// A lock that is granted to a waiter is its own for so long at most, until it confirms that it runs: a
/// waiter that went deaf since its last sign of life costs no more.
pub(crate) const CLAIM: Duration = Duration::from_secs(3);

/// The queue's keys end so long after the last sign of life in them.
pub(crate) const QUEUE_TTL: Duration = Duration::from_secs(7);

/// So many places a script handles in one call, whoever's they are, so that it never blocks the server for long; its sender goes
/// on at once. Here that is one step.
pub(crate) const PLACES_AT_ONCE: usize = 200;

/// How long something of a token can be left at the server after the last command that could create or
/// prolong it: a lock for its lease, or a place that is granted at the end of its last sign of life.
pub(crate) fn longest_stay(lease: Duration) -> Duration {
    lease.max(HEARTBEAT + CLAIM) + Duration::from_secs(1)
}
