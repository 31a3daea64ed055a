//! The driver of a gate: whether there is one, and what it has to do next.

use std::time::Duration;

use super::{Gate, Next, Place, Position};
use crate::values::moment::Moment;

/// Whoever does not take what is offered for so long does not hear: nobody polls it. The next one gets it.
const PATIENCE: Duration = Duration::from_secs(1);

impl<W> Gate<W> {
    /// Takes the driver's part, if nobody has it and somebody waits.
    pub(crate) fn take_wheel(&mut self) -> bool {
        let free = !self.driven && !self.line.is_empty();
        self.driven |= free;
        free
    }

    /// The driver is gone; whoever waits has to be told.
    pub(crate) fn driver_gone(&mut self) {
        self.driven = false;
    }

    /// Takes the driver's part from one that shows no sign of life. An acquire of its that is on its way
    /// has to be cleaned up after.
    pub(crate) fn seize_wheel(&mut self) -> Option<Position> {
        self.driven = true;
        let Place::Asking(position) = &self.place else {
            return None;
        };
        let position = position.clone();
        self.place = Place::vacant(Moment::from_nanos(0));
        Some(position)
    }

    /// What the driver has to do now.
    pub(crate) fn next(&mut self, now: Moment) -> Next {
        if self.line.is_empty() {
            self.driven = false;
            return Next::Rest;
        }
        match &self.place {
            Place::Held(..) | Place::Vacant { .. } if self.first_hearing().is_none() => {
                Next::Sleep(Moment::NEVER)
            }
            Place::Held(_, offer) => offer.handed_on_until(now).map_or(Next::Ask, Next::Sleep),
            Place::Vacant { not_before } if *not_before <= now => Next::Ask,
            Place::Vacant { not_before } => Next::Sleep(*not_before),
            Place::Queued { position, poll } if *poll <= now => Next::Poll(position.clone()),
            Place::Queued { poll, .. } => Next::Sleep(*poll),
            Place::Offered(position, offer) if offer.deadline() <= now => {
                let position = position.clone();
                (self.place, self.turn) = (Place::vacant(now), None);
                Next::GiveUp(position)
            }
            Place::Offered(_, offer) => {
                // Whoever takes it rings no bell while it may be handed on.
                let end = offer.handed_on_until(now).unwrap_or(offer.deadline());
                self.watch_the_turn(now, end)
            }
            Place::Asking(_) => Next::Sleep(Moment::NEVER),
        }
    }

    /// Whoever lets its turn pass is passed over until it is heard of again.
    fn watch_the_turn(&mut self, now: Moment, end: Moment) -> Next {
        match &mut self.turn {
            Some((seat, Some(until))) if *until <= now => {
                self.deaf.insert(*seat);
                match self.wanted_by_somebody() {
                    Some(position) => Next::GiveUp(position),
                    None => Next::PassOn,
                }
            }
            Some((_, until)) => {
                let until = *until.get_or_insert(now.plus(PATIENCE));
                Next::Sleep(until.min(end))
            }
            None => Next::Sleep(end),
        }
    }

    /// Nobody would miss this gate.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_at_rest() && matches!(self.place, Place::Vacant { .. })
    }

    /// The same at a given moment: of a lock that is held it knows only that it may be handed on, and for how long.
    pub(crate) fn is_idle_at(&self, now: Moment) -> bool {
        let is_kept = matches!(self.place, Place::Held(..)) && !self.may_be_handed_on(now);
        self.is_idle() || self.is_at_rest() && is_kept
    }

    fn is_at_rest(&self) -> bool {
        self.line.is_empty() && !self.driven
    }
}
