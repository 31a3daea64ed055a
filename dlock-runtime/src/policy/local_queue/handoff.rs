//! Local handoff: a lock goes from its holder to the next in line here, and the server is not asked.
//!
//! Nothing changes at the server: the same token stands at the key, with the lease that was granted. So whoever
//! takes over counts its deadline from that grant, and numbers the fence on under the same epoch.

use super::{Grant, GrantKind, LocalQueue, Remote, WaiterId};
use crate::policy::lease::Terms;
use crate::policy::queue;
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

/// How a lock that was granted may be handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandoffChain {
    /// Who holds it now: 0, who was granted it; then 1, 2, …
    pub(crate) index: u16,
    /// When this one's turn began; `None`: with the grant.
    pub(crate) since: Option<Moment>,
    /// How many may still come.
    pub(crate) left: u16,
    /// Nobody after this.
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
    /// May be handed on within these bounds from `now` on, when its grant is known here, by pools that keep this margin.
    pub(crate) fn to_be_handed_on(mut self, bounds: &Handoff, margin: Margin, now: Moment) -> Self {
        self.margin = margin;
        self.chain.left = bounds.most;
        // The time counts from here, for a grant may have been on its way for longer than that; the lease counts from the grant.
        let end_of_part = self.since.plus(self.lease / bounds.part);
        self.chain.until = now.plus(bounds.within).min(end_of_part);
        self
    }

    /// Until when it may be handed on once more, if it may.
    pub(super) fn handed_on_until(&self, now: Moment) -> Option<Moment> {
        let may_be = self.chain.left > 0 && now < self.chain.until && now < self.deadline();
        may_be.then_some(self.chain.until)
    }

    /// Whether it is as good to a waiter with these terms as a grant of its own: nine tenths of its ttl are left, and it lasts as
    /// long as this one asks for, or as a grant in turn lasts at first. With `min_hold`, nothing is handed on.
    pub(crate) fn suits(&self, terms: &Terms, now: Moment) -> bool {
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
    /// Whether the next in line may have this lock from its holder, who is done. `fits`: whether a waiter could
    /// begin with what was granted.
    pub(crate) fn can_hand_on(
        &self,
        token: Token,
        now: Moment,
        fits: impl Fn(&W, &Grant) -> bool,
    ) -> bool {
        self.next_holder(token, now, fits).is_some()
    }

    /// The lock that is held is not handed on any more: so the driver asks at once, and not when it may no longer be.
    pub(crate) fn end_chain(&mut self) {
        if let Remote::Held(_, grant) = &mut self.remote {
            grant.chain.left = 0;
        }
    }

    /// The same where the next in line could not begin with it.
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

    /// Whether a lock that is held may still go to the next in line; the driver sleeps until it may not.
    pub(crate) fn may_be_handed_on(&self, now: Moment) -> bool {
        matches!(&self.remote, Remote::Held(_, grant) if grant.handed_on_until(now).is_some())
    }

    /// Offers the lock that is held to the next in line; `false` where that can't be (any more).
    pub(crate) fn hand_on(
        &mut self,
        token: Token,
        now: Moment,
        fits: impl Fn(&W, &Grant) -> bool,
    ) -> bool {
        let Some(waiter_id) = self.next_holder(token, now, fits) else {
            return false;
        };
        if let Remote::Held(attempt, grant) = &self.remote {
            self.remote = Remote::Granted(attempt.clone(), grant.handed_on(now));
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
        let Remote::Held(attempt, grant) = &self.remote else {
            return None;
        };
        grant.handed_on_until(now)?;
        let waiter_id = self.first_responsive()?;
        let fits = attempt.token == token && fits(self.fifo.get(waiter_id)?, grant);
        fits.then_some(waiter_id)
    }
}
