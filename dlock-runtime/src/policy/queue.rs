//! A waiter's place in the queue of a key, as it stands on the server, and the times of the queue.
//!
//! `x|<reply address>|<lease ms>|<value>`: the letter is the kind (exclusive; the others are in `values::entry`), the
//! value is SET at the key if the place is granted. The same bytes stand in both sets, so that nothing is looked up by
//! scanning. The scripts have the same times in `times.lua`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::commands::Claim;
use crate::values::entry;
use crate::values::ttl::Ttl;

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

/// A lease of more digits is no lease; so that both sides agree on what can be read.
const MOST_DIGITS: usize = 15;

/// Room for what stands around the address.
const NUMBER_AND_BARS: usize = 4 + MOST_DIGITS;

/// An entry, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The channel that its grant is published to; empty: it has to poll.
    pub(crate) address: &'a str,
    pub(crate) lease: Duration,
    pub(crate) value: &'a str,
}

/// What an entry says beside its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The channel that its grant is published to; empty: it has to poll.
    pub(crate) address: Arc<str>,
    pub(crate) lease: Ttl,
}

impl Place {
    pub(crate) fn new(address: impl Into<Arc<str>>, lease: Ttl) -> Self {
        let address = address.into();
        Self { address, lease }
    }

    /// What stands before the value in the entry of an exclusive lock.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.address.len() + NUMBER_AND_BARS);
        text.push_str("x|");
        text.push_str(&self.address);
        let _ = write!(text, "|{}|", self.lease.as_millis()); // a String takes everything
        text
    }
}

pub(crate) fn write(place: &Place, value: &str) -> String {
    place.text() + value
}

/// `None`: a place of another kind or version, which only its own clients may touch.
pub(crate) fn read(entry: &str) -> Option<Entry<'_>> {
    let (address, rest) = entry.strip_prefix("x|")?.split_once('|')?;
    let (lease, value) = rest.split_once('|')?;
    let is_number = lease.len() <= MOST_DIGITS && lease.bytes().all(|it| it.is_ascii_digit());
    let lease: u64 = is_number.then(|| lease.parse().ok())??;
    (lease > 0 && !value.is_empty()).then_some(Entry {
        address,
        lease: Duration::from_millis(lease),
        value,
    })
}

/// How long something of a token can be left at the server after the last command that could create or
/// prolong it: a lock for its lease, or a place that is granted at the end of its last sign of life.
pub(crate) fn longest_stay(lease: Duration) -> Duration {
    lease.max(HEARTBEAT + CLAIM) + Duration::from_secs(1)
}

/// The same for a claim in the queue, or one that was granted.
pub(crate) fn stay(claim: &Claim) -> Duration {
    let queued = claim.place.as_ref().map(|place| place.lease.get());
    let lease = queued.or_else(|| entry::read(&claim.value).map(|entry| entry.lease));
    longest_stay(lease.unwrap_or(CLAIM))
}
