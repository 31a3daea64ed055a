//! One lease from its grant to its end: until when it may be counted on, and when to renew it.
//!
//! ```text
//!            renewal due             answered / failed
//! Resting ───────────────▶ Renewing ───────────────────▶ Resting
//!    │                        │
//!    └──────── deadline ──────┴────▶ over (the token table says what happens then)
//! ```
//! Invariant: the deadline is never later than (when the granting or renewing command was *sent*)
//! + (what that command gave) − margin, and it never moves back.

use std::time::Duration;

use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

/// A failed renewal is repeated after a tenth of the lease, and at the latest after this.
const RETRY_AT_MOST: Duration = Duration::from_millis(250);

/// A lease that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    ttl: Ttl,
    /// The most that any command about it asked for, answered or not.
    longest: Ttl,
    deadline: Moment,
    watchdog: Option<Watchdog>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watchdog {
    every: Duration,
    next: Moment,
    /// A renewal was sent and not yet answered.
    sent: bool,
}

/// What a lease needs at a given moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Renewal,
    /// The deadline has passed.
    End,
}

impl Lease {
    /// A lease granted by a command sent at `sent`; `renew` is the watchdog's interval.
    pub(crate) fn granted(sent: Moment, ttl: Ttl, renew: Option<Duration>) -> Self {
        Self {
            ttl,
            longest: ttl,
            deadline: sent.plus(ttl.validity()),
            watchdog: renew.map(|every| Watchdog {
                every,
                next: sent.plus(every),
                sent: false,
            }),
        }
    }

    /// A lease of which `left` was left when a command sent at `sent` was executed.
    pub(crate) fn found(sent: Moment, left: Duration, ttl: Ttl, renew: Option<Duration>) -> Self {
        let mut lease = Self::granted(sent, ttl, renew);
        lease.deadline = sent.plus(crate::values::ttl::validity(left));
        lease
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// The key is gone this long after the last command about it, whatever became of that.
    pub(crate) fn longest(&self) -> Ttl {
        self.longest
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// A renewal is on its way.
    pub(crate) fn is_renewing(&self) -> bool {
        self.watchdog.is_some_and(|watchdog| watchdog.sent)
    }

    /// When to look at this lease next.
    pub(crate) fn next(&self) -> Moment {
        match self.watchdog {
            Some(watchdog) if !watchdog.sent => watchdog.next.min(self.deadline),
            _ => self.deadline,
        }
    }

    pub(crate) fn due(&self, now: Moment) -> Due {
        match self.watchdog {
            _ if now >= self.deadline => Due::End,
            Some(watchdog) if !watchdog.sent && now >= watchdog.next => Due::Renewal,
            _ => Due::Nothing,
        }
    }

    /// Leases that would be renewed before this may come along with this one's renewal.
    pub(crate) fn early_renewals_until(&self, now: Moment) -> Option<Moment> {
        self.watchdog.map(|watchdog| now.plus(watchdog.every / 4))
    }

    /// Whether the next renewal is less than a quarter of its interval away.
    pub(crate) fn may_renew_early(&self, now: Moment) -> bool {
        self.watchdog
            .is_some_and(|watchdog| !watchdog.sent && now.plus(watchdog.every / 4) >= watchdog.next)
    }

    /// A renewal goes out now.
    pub(crate) fn renewing(&mut self) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.sent = true;
        }
    }

    /// The renewal that was sent at `sent` succeeded.
    pub(crate) fn renewed(&mut self, sent: Moment) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.sent = false;
            watchdog.next = sent.plus(watchdog.every);
        }
        self.extended(sent, self.ttl);
    }

    /// The renewal got no answer, or an error that says nothing about the lock.
    pub(crate) fn renewal_failed(&mut self, now: Moment) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.sent = false;
            watchdog.next = now.plus((self.ttl.get() / 10).min(RETRY_AT_MOST));
        }
    }

    /// A command that makes the lease last `by` is about to be sent.
    pub(crate) fn extending(&mut self, by: Ttl) {
        if by.get() > self.longest.get() {
            self.longest = by;
        }
    }

    /// A command sent at `sent` made the lease last at least `by` from then on.
    pub(crate) fn extended(&mut self, sent: Moment, by: Ttl) {
        self.deadline = self.deadline.max(sent.plus(by.validity()));
    }
}
