//! A server that can't be used for a while: how long to leave it alone, and when to say so.

use std::time::Duration;

use crate::backend::fault::Fault;
use crate::observe;
use crate::policy::retry::{self, Jitter};
use crate::values::moment::Moment;

/// How often a wait through an outage is mentioned.
const MENTION_EVERY: Duration = Duration::from_secs(60);

/// What failed in a row, up to now.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failures: u32,
    since: Option<Moment>,
    mention: Option<Moment>,
}

impl Outage {
    /// Counts a failure that is no outage; whether it was the first.
    pub(super) fn first_failure(&mut self) -> bool {
        let first = self.failures == 0;
        self.failures = self.failures.max(1);
        first
    }

    /// One failure more: the pause before the next attempt. Says once a minute that somebody still waits.
    pub(super) fn pause(
        &mut self,
        key: &str,
        fault: &Fault,
        now: Moment,
        jitter: &mut Jitter,
    ) -> Duration {
        let since = *self.since.get_or_insert(now);
        let mention = self.mention.get_or_insert(now.plus(MENTION_EVERY));
        if now >= *mention {
            *mention = now.plus(MENTION_EVERY);
            observe::waiting_through_outage(key, since.until(now), fault);
        }
        self.failures = self.failures.saturating_add(1);
        retry::after_failure(self.failures, jitter)
    }
}
