//! Local hand-off: a lock goes from its holder to the next waiter of this process, without a
//! command to the server.
//!
//! Nothing changes at the server: the same token stands at the key, with the lease that was
//! granted. So the next holder counts its deadline from that grant, and its fencing token goes up
//! within the same epoch.

use super::{Grant, GrantKind, LocalQueue, Remote, WaiterId};
use crate::client::lease::LeaseTerms;
use crate::rules::queue;
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

/// How far a granted lock has been handed on, and how far it may still go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandoffChain {
    /// The current holder: 0 for the one that was granted the lock, then 1, 2, …
    pub(crate) index: u16,
    /// When this holder's turn began; `None`: with the grant.
    pub(crate) since: Option<Moment>,
    /// How many hand-offs are left.
    pub(crate) left: u16,
    /// No hand-off after this.
    pub(crate) until: Moment,
}

impl HandoffChain {
    pub(super) const ALONE: HandoffChain = HandoffChain {
        index: 0,
        since: None,
        left: 0,
        until: Moment::from_nanos(0),
    };
}

impl Grant {
    /// Allows hand-offs within `bounds`. `now` is when this process learned of the grant; `margin`
    /// is that of the pools which share the queue.
    pub(crate) fn with_handoff_limit(
        mut self,
        bounds: &Handoff,
        margin: Margin,
        now: Moment,
    ) -> Self {
        self.margin = margin;
        self.chain.left = bounds.most;
        // `within` counts from `now`, for the grant may have been on its way for longer than that;
        // the lease counts from the grant.
        let end_of_part = self.since.plus(self.lease / bounds.part);
        self.chain.until = now.plus(bounds.within).min(end_of_part);
        self
    }

    /// Until when it may be handed on once more, if it may.
    pub(super) fn handed_on_until(&self, now: Moment) -> Option<Moment> {
        let may_be = self.chain.left > 0 && now < self.chain.until && now < self.deadline();
        may_be.then_some(self.chain.until)
    }

    /// Whether this grant is as good as an own one for a waiter with these terms: nine tenths of
    /// its ttl are left, and it lasts as long as the waiter wants, or as a grant from the queue
    /// lasts at first. With `min_hold`, nothing is handed on.
    pub(crate) fn suits(&self, terms: &LeaseTerms, now: Moment) -> bool {
        let is_long = match self.how {
            GrantKind::AtOnce => self.lease >= terms.lease().get(),
            GrantKind::InTurn => self.lease >= terms.lease().get().min(queue::CLAIM),
        };
        is_long && terms.bounds.min_hold.is_none() && self.since.until(now) <= terms.ttl.get() / 10
    }

    fn handed_on(mut self, now: Moment) -> Self {
        self.chain.index += 1;
        self.chain.left -= 1;
        self.chain.since = Some(now);
        self
    }
}

impl<W> LocalQueue<W> {
    /// Whether the next waiter may have this lock from its holder, who is done. `fits`: whether a
    /// waiter can use this grant.
    pub(crate) fn can_hand_on(
        &self,
        token: Token,
        now: Moment,
        fits: impl Fn(&W, &Grant) -> bool,
    ) -> bool {
        self.next_holder(token, now, fits).is_some()
    }

    /// Ends the hand-off chain of the held lock: the leader sends its acquire now, and not only
    /// when the chain's time is over.
    pub(crate) fn end_chain(&mut self) {
        if let Remote::Held(_, grant) = &mut self.remote {
            grant.chain.left = 0;
        }
    }

    /// The same, if the next waiter can't use the grant.
    pub(crate) fn end_chain_unless(&mut self, fits: impl Fn(&W, &Grant) -> bool) {
        let next = self
            .first_responsive()
            .and_then(|waiter_id| self.fifo.get(waiter_id));
        if let (Remote::Held(_, grant), Some(next)) = (&self.remote, next)
            && !fits(next, grant)
        {
            self.end_chain();
        }
    }

    /// Whether the held lock may still go to the next waiter; the leader sleeps until it may not.
    pub(crate) fn may_be_handed_on(&self, now: Moment) -> bool {
        matches!(&self.remote, Remote::Held(_, grant) if grant.handed_on_until(now).is_some())
    }

    /// Grants the held lock to the next waiter; `false` if that is not possible (any more).
    pub(crate) fn hand_on(
        &mut self,
        token: Token,
        now: Moment,
        fits: impl Fn(&W, &Grant) -> bool,
    ) -> bool {
        let Some(waiter_id) = self.next_holder(token, now, fits) else {
            return false;
        };
        if let Remote::Held(token, grant) = self.remote {
            self.remote = Remote::Granted(token, grant.handed_on(now));
            self.turn = Some((waiter_id, None));
        }
        true
    }

    fn next_holder(
        &self,
        token: Token,
        now: Moment,
        fits: impl Fn(&W, &Grant) -> bool,
    ) -> Option<WaiterId> {
        let Remote::Held(ours, grant) = &self.remote else {
            return None;
        };
        grant.handed_on_until(now)?;
        let waiter_id = self.first_responsive()?;
        let fits = *ours == token && fits(self.fifo.get(waiter_id)?, grant);
        fits.then_some(waiter_id)
    }
}
