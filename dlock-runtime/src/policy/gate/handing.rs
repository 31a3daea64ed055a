//! Local handoff: a lock goes from its holder to the next in line here, and the server is not asked.
//!
//! Nothing changes at the server: the same token stands at the key, with the lease that was granted. So whoever
//! takes over counts its deadline from that grant, and numbers the fence on under the same epoch.

use super::{Gate, Granted, Offer, Place, Seat};
use crate::policy::lease::Terms;
use crate::policy::queue;
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

/// How a lock that was granted may be handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    /// Who holds it now: 0, who was granted it; then 1, 2, …
    pub(crate) index: u16,
    /// When this one's turn began; `None`: with the grant.
    pub(crate) since: Option<Moment>,
    /// How many may still come.
    pub(crate) left: u16,
    /// Nobody after this.
    pub(crate) until: Moment,
}

impl Row {
    pub(super) const ALONE: Row = Row {
        index: 0,
        since: None,
        left: 0,
        until: Moment::from_nanos(0),
    };
}

impl Offer {
    /// May be handed on within these bounds from `now` on, when its grant is known here, by pools that keep this margin.
    pub(crate) fn to_be_handed_on(mut self, bounds: &Handoff, margin: Margin, now: Moment) -> Self {
        self.margin = margin;
        self.row.left = bounds.most;
        // The time counts from here, for a grant may have been on its way for longer than that; the lease counts from the grant.
        let end_of_part = self.since.plus(self.lease / bounds.part);
        self.row.until = now.plus(bounds.within).min(end_of_part);
        self
    }

    /// Until when it may be handed on once more, if it may.
    pub(super) fn handed_on_until(&self, now: Moment) -> Option<Moment> {
        let may_be = self.row.left > 0 && now < self.row.until && now < self.deadline();
        may_be.then_some(self.row.until)
    }

    /// Whether it is as good to a waiter with these terms as a grant of its own: nine tenths of its ttl are left, and it lasts as
    /// long as this one asks for, or as a grant in turn lasts at first. With `min_hold`, nothing is handed on.
    pub(crate) fn suits(&self, terms: &Terms, now: Moment) -> bool {
        let is_long = match self.how {
            Granted::AtOnce => self.lease >= terms.lease().get(),
            Granted::InTurn => self.lease >= terms.lease().get().min(queue::CLAIM),
        };
        is_long && terms.bounds.min_hold.is_none() && self.since.until(now) <= terms.ttl.get() / 10
    }

    fn handed_on(mut self, now: Moment) -> Self {
        self.row.index += 1;
        self.row.left -= 1;
        self.row.since = Some(now);
        self
    }
}

impl<W> Gate<W> {
    /// Whether the next in line may have this lock from its holder, who is done. `fits`: whether a waiter could
    /// begin with what was granted.
    pub(crate) fn can_hand_on(
        &self,
        token: Token,
        now: Moment,
        fits: impl Fn(&W, &Offer) -> bool,
    ) -> bool {
        self.next_holder(token, now, fits).is_some()
    }

    /// The lock that is held is not handed on any more: so the driver asks at once, and not when it may no longer be.
    pub(crate) fn end_row(&mut self) {
        if let Place::Held(_, offer) = &mut self.place {
            offer.row.left = 0;
        }
    }

    /// The same where the next in line could not begin with it.
    pub(crate) fn end_row_unless(&mut self, fits: impl Fn(&W, &Offer) -> bool) {
        let next = self.first_hearing().and_then(|seat| self.line.get(seat));
        if let (Place::Held(_, offer), Some(next)) = (&self.place, next)
            && !fits(next, offer)
        {
            self.end_row();
        }
    }

    /// Whether a lock that is held may still go to the next in line; the driver sleeps until it may not.
    pub(crate) fn may_be_handed_on(&self, now: Moment) -> bool {
        matches!(&self.place, Place::Held(_, offer) if offer.handed_on_until(now).is_some())
    }

    /// Offers the lock that is held to the next in line; `false` where that can't be (any more).
    pub(crate) fn hand_on(
        &mut self,
        token: Token,
        now: Moment,
        fits: impl Fn(&W, &Offer) -> bool,
    ) -> bool {
        let Some(seat) = self.next_holder(token, now, fits) else {
            return false;
        };
        if let Place::Held(position, offer) = &self.place {
            self.place = Place::Offered(position.clone(), offer.handed_on(now));
            self.turn = Some((seat, None));
        }
        true
    }

    fn next_holder(
        &self,
        token: Token,
        now: Moment,
        fits: impl Fn(&W, &Offer) -> bool,
    ) -> Option<Seat> {
        let Place::Held(position, offer) = &self.place else {
            return None;
        };
        offer.handed_on_until(now)?;
        let seat = self.first_hearing()?;
        let fits = position.token == token && fits(self.line.get(seat)?, offer);
        fits.then_some(seat)
    }
}
