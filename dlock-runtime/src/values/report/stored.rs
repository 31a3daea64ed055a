//! What a server stores of one lock, as it was read, and the report made of it.
//!
//! It has no `Debug`, because it holds entries, which nothing may show.

use std::time::Duration;

use super::LockReport;

/// The keys of one lock at one moment.
pub(crate) struct Stored {
    /// The server's time, µs.
    pub(crate) time: u64,
    pub(crate) lock: StoredLock,
    /// The first entries of the queue.
    pub(crate) queue: Vec<Queued>,
    pub(crate) queue_len: usize,
    /// The last epoch that was drawn.
    pub(crate) last_epoch: Option<u64>,
}

/// What stands at a lock's key.
pub(crate) enum StoredLock {
    Nothing,
    /// A string; `left`: `None` without a time to live.
    Value {
        value: Vec<u8>,
        left: Option<Duration>,
    },
    /// A sorted set; of its members the first ones, with their ends in µs.
    Set {
        members: Vec<(Vec<u8>, u64)>,
        /// The last member.
        last: Vec<u8>,
        /// All of them.
        count: usize,
        left: Option<Duration>,
    },
    OtherType,
}

/// An entry of the queue.
pub(crate) struct Queued {
    pub(crate) entry: Vec<u8>,
    /// An epoch: in µs since 1970, at least the server's time when it came.
    pub(crate) arrival: u64,
    pub(crate) is_silent: bool,
}

impl Stored {
    /// `None`: nothing stands there.
    pub(crate) fn report(&self, _key: &str) -> Option<LockReport> {
        None
    }
}
