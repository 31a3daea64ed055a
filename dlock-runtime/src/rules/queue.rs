//! The times and sizes of a key's queue on the server, whose members are entries (`values::entry`).
//! The scripts have the same times in `prelude.lua`.

use std::time::Duration;

/// A queue entry without a sign of life for this long is passed over.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(3500);

/// The longest lease of a grant from the queue, until its waiter confirms that it runs. A waiter
/// that became unresponsive after its last sign of life blocks the lock no longer than this.
pub(crate) const CLAIM: Duration = Duration::from_secs(3);

/// The queue's keys expire this long after the last sign of life in them.
pub(crate) const QUEUE_TTL: Duration = Duration::from_secs(7);

/// The most queue entries that one call of a script handles, over all queues, so that it never
/// blocks the server for long; the sender repeats the call at once. In this machine it is one step.
pub(crate) const ENTRIES_AT_ONCE: usize = 200;

/// The server's clock was set back if the last epoch is ahead of it by this much: an epoch is drawn by the
/// clock, and ahead of it only by the number of those that were drawn in the same microsecond.
pub(crate) const STEP_BACK: Duration = Duration::from_secs(1);

/// How long something of a token can stay on the server after the last command that could create or
/// prolong it: a lock for its lease, or a queue entry that is granted just before its heartbeat
/// lapses.
pub(crate) fn longest_stay(lease: Duration) -> Duration {
    lease.max(HEARTBEAT + CLAIM) + Duration::from_secs(1)
}
