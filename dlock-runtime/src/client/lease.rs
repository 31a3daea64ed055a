//! One lease from its grant to its end: until when its holder may count on it, and when to renew
//! it.
//!
//! ```text
//!            renewal due             answered / failed
//! Resting ───────────────▶ Renewing ───────────────────▶ Resting
//!    │                        │
//!    └──────── deadline ──────┴────▶ over (the token table says what happens then)
//! ```
//! Invariants: the deadline is never later than the time at which the granting or renewing command
//! was *sent*, plus what that command gave, minus the margin; nor later than `max_hold` after the
//! holder's turn began. It never moves back.

use std::time::Duration;

use crate::values::bounds::Bounds;
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::ttl::{Margin, Ttl};

/// A failed renewal is repeated after a tenth of the lease, and at the latest after this.
const RETRY_AT_MOST: Duration = Duration::from_millis(250);

/// What a holder wants of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseTerms {
    pub(crate) ttl: Ttl,
    /// The watchdog's interval.
    pub(crate) renew: Option<Duration>,
    pub(crate) bounds: Bounds,
    pub(crate) margin: Margin,
}

/// A lease that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lease {
    ttl: Ttl,
    margin: Margin,
    /// The longest lease that any command for it requested, answered or not.
    longest: Duration,
    deadline: Moment,
    /// No command about it has been sent since the grant.
    is_as_granted: bool,
    /// `max_hold` after the holder's turn began.
    ends: Moment,
    renewals: Renewals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Renewals {
    /// The interval; `None`: the lease is not renewed, or not any more.
    every: Option<Duration>,
    /// When to send the next renewal; [`Moment::NEVER`]: none is to come.
    next: Moment,
    /// A renewal was sent and not yet answered.
    sent: Option<RenewalPurpose>,
    /// The grant is shorter than the ttl: the next renewal makes it whole, and does not count as a
    /// renewal.
    short: bool,
    /// How many renewals may still come.
    rest: Option<u32>,
    /// At the last one too few nodes had the lock.
    at_too_few: bool,
}

/// What a renewal was sent for; the holder may extend the lease before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RenewalPurpose {
    ToMakeWhole,
    ToLast,
}

/// What a lease needs at a given moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Renewal,
    /// The deadline has passed.
    End(LostCause),
}

impl LeaseTerms {
    /// How much of the ttl the holder may count on.
    pub(crate) fn validity(&self) -> Duration {
        self.margin.validity(self.ttl.get())
    }

    /// How long the server keeps the lock: the ttl, or `min_hold` where that is longer, for a job
    /// that must not run again too soon.
    pub(crate) fn lease(&self) -> Ttl {
        match self.bounds.min_hold.map(Ttl::new) {
            Some(Ok(min_hold)) if min_hold.get() > self.ttl.get() => min_hold,
            _ => self.ttl,
        }
    }
}

impl Lease {
    /// A lease for which the server gives `left`, counted from `since`: no later than the grant, or
    /// than the command that found it.
    #[cfg(test)]
    pub(crate) fn granted(since: Moment, left: Duration, terms: &LeaseTerms) -> Self {
        Self::handed_on(since, left, since, terms)
    }

    /// As `granted`, for a holder whose turn `began` later, after a hand-off from another holder of
    /// this process.
    pub(crate) fn handed_on(
        since: Moment,
        left: Duration,
        began: Moment,
        terms: &LeaseTerms,
    ) -> Self {
        let counts = left.min(terms.ttl.get());
        let short = counts < terms.ttl.get();
        let mut lease = Self {
            ttl: terms.ttl,
            margin: terms.margin,
            longest: left.max(terms.lease().get()),
            deadline: Moment::from_nanos(0),
            is_as_granted: true,
            ends: terms
                .bounds
                .max_hold
                .map_or(Moment::NEVER, |most| began.plus(most)),
            renewals: Renewals {
                every: terms.renew.filter(|_| terms.bounds.max_renewals != Some(0)),
                next: Moment::NEVER,
                sent: None,
                short,
                rest: terms.bounds.max_renewals,
                at_too_few: false,
            },
        };
        lease.last_until(since.plus(terms.margin.validity(counts)));
        lease.renewals.next = match (short, lease.renewals.every) {
            (true, renew) => since.plus(renew.map_or(counts / 3, |every| every.min(counts / 3))),
            (false, Some(every)) => since.plus(every),
            (false, None) => Moment::NEVER,
        };
        lease
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// How long after the last command about it the key is gone, whatever became of that command.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Why the lease is over once its deadline has passed.
    pub(crate) fn cause(&self) -> LostCause {
        if self.deadline >= self.ends {
            LostCause::MaxHold
        } else if self.renewals.rest == Some(0) {
            LostCause::MaxRenewals
        } else if self.renewals.at_too_few {
            LostCause::TooFewNodes
        } else {
            LostCause::Deadline
        }
    }

    /// Whether a renewal is under way.
    pub(crate) fn is_renewing(&self) -> bool {
        self.renewals.sent.is_some()
    }

    /// Whether the server still has exactly what it granted, and the lease is not over.
    pub(crate) fn is_as_granted(&self, now: Moment) -> bool {
        self.is_as_granted && now < self.deadline
    }

    /// When to check this lease next.
    pub(crate) fn next(&self) -> Moment {
        if self.is_renewing() {
            self.deadline
        } else {
            self.renewals.next.min(self.deadline)
        }
    }

    pub(crate) fn due(&self, now: Moment) -> Due {
        if now >= self.deadline {
            Due::End(self.cause())
        } else if !self.is_renewing() && now >= self.renewals.next {
            Due::Renewal
        } else {
            Due::Nothing
        }
    }

    /// Leases whose renewal is due before this may be renewed along with this one.
    pub(crate) fn early_renewals_until(&self, now: Moment) -> Option<Moment> {
        self.renewals.every.map(|every| now.plus(every / 4))
    }

    /// Whether the next renewal is less than a quarter of its interval away. A renewal that only
    /// makes a short grant whole keeps its time: most bodies end before it.
    pub(crate) fn may_renew_early(&self, now: Moment) -> bool {
        let it = self.renewals;
        let soon = |every| now.plus(every / 4) >= it.next;
        it.sent.is_none() && !it.short && it.every.is_some_and(soon)
    }

    /// A renewal is sent now.
    pub(crate) fn renewing(&mut self) {
        self.is_as_granted = false;
        let it = &mut self.renewals;
        it.sent = Some(if it.short {
            RenewalPurpose::ToMakeWhole
        } else {
            RenewalPurpose::ToLast
        });
    }

    /// The renewal that was sent at `sent` succeeded.
    pub(crate) fn renewed(&mut self, sent: Moment) {
        let it = &mut self.renewals;
        if it.sent.take() == Some(RenewalPurpose::ToLast) {
            it.rest = it.rest.map(|rest| rest.saturating_sub(1));
        }
        if it.rest == Some(0) {
            it.every = None;
        }
        it.next = it.every.map_or(Moment::NEVER, |every| sent.plus(every));
        self.extended(sent, self.ttl);
    }

    /// The renewal got no answer, or an error that says nothing about the lock.
    pub(crate) fn renewal_failed(&mut self, now: Moment) {
        let it = &mut self.renewals;
        it.at_too_few = false;
        let is_wanted = it.short || it.every.is_some(); // the holder may have extended it meanwhile
        if it.sent.take().is_some() && is_wanted {
            it.next = now.plus((self.ttl.get() / 10).min(RETRY_AT_MOST));
        }
    }

    /// Too few nodes had the lock for it to be renewed.
    pub(crate) fn at_too_few_nodes(&mut self, now: Moment) {
        self.renewal_failed(now);
        self.renewals.at_too_few = true;
    }

    /// A command that makes the lease last `by` is about to be sent.
    pub(crate) fn extending(&mut self, by: Ttl) {
        self.is_as_granted = false;
        self.longest = self.longest.max(by.get());
    }

    /// A command sent at `sent` made the lease last at least `by` from then on.
    pub(crate) fn extended(&mut self, sent: Moment, by: Ttl) {
        self.renewals.at_too_few = false;
        self.last_until(sent.plus(self.margin.validity(by.get())));
        if self.renewals.short && by.get() >= self.ttl.get() {
            self.renewals.short = false;
            let every = self.renewals.every;
            self.renewals.next = every.map_or(Moment::NEVER, |every| sent.plus(every));
        }
    }

    fn last_until(&mut self, deadline: Moment) {
        self.deadline = self.deadline.max(deadline.min(self.ends));
    }
}
