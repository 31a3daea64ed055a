//! One key in one process: who waits here, and the one place that the process has at the server.
//!
//! ```text
//!            asking              queued                granted (push, poll)
//! Vacant ───────────▶ Asking ───────────▶ Queued ──────────────────────────┐
//!   ▲  ▲                │ │ granted                                        ▼
//!   │  └─ nothing came ─┘ └───────────────────────────────────────────▶ Offered
//!   │       of it; gone; nobody waits any more: given up                 │   │
//!   ├───────────────◀────────────────────────────────── stale, given up ─┘ ▲ │ taken
//!   │                                                          handed on   │ ▼
//!   └──────────────────────────── left ─────────────────────────────────── Held
//! ```
//! Invariants:
//!
//! - At most one token of the queue is at the server and not held. When it is granted, it goes to the first waiter that
//!   responds, even if another one's acquire asked for it.
//! - Waiters stand in order of arrival. One that does not take what is offered keeps its seat and stops nobody.
//! - While somebody waits, there is a driver, or everybody was told that there is none.
//! - A token that leaves without being taken is named to the caller, who cleans up after it.
//! - A lock is handed on within the bounds of its grant only.
//!
//! Never in this folder: when a lease ends (`lease`, `tokens`; what is offered carries its length), a server (`server`), a waker.

mod driving;
mod handing;
mod line;
mod place;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::values::moment::Moment;
use crate::values::token::Token;

pub(crate) use self::line::Line;
pub(crate) use self::place::{Granted, Offer, Place, Position};

/// Hints closer together are one.
const HINTS_APART: Duration = Duration::from_millis(100);

/// A waiter's number; the smaller came first.
pub(crate) type Seat = u64;

/// One key; `W` is what the host knows of a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gate<W> {
    line: Line<W>,
    last_seat: Seat,
    place: Place,
    /// Something may have been missed by the command that is on its way: whatever it answers, the server is asked again then.
    again: Option<Moment>,
    /// A hint about the place that we have counts from then on.
    next_hint: Moment,
    /// The next poll is for something that may well be so, and goes out by itself.
    hurried: bool,
    /// Whose turn it is while the lock is offered, and until when it may take its time.
    turn: Option<(Seat, Option<Moment>)>,
    /// Those who did not take their turn, until they are heard of again.
    deaf: BTreeSet<Seat>,
    /// Somebody carries out what [`Gate::next`] says.
    driven: bool,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send an acquire for the first in line.
    Ask,
    /// Send a poll for this place.
    Poll(Position),
    /// Clean up after this token: it was offered, and its lease is over, or nobody hears.
    GiveUp(Position),
    /// Whose turn it was does not hear: wake whose turn it is now.
    PassOn,
    /// Nothing until then.
    Sleep(Moment),
    /// Nothing any more: the driver is dismissed.
    Rest,
}

/// What became of news about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The place has taken it in; the first in line is to be told.
    Taken,
    /// Nobody waits any more: the token has to be cleaned up.
    Unwanted(Position),
    /// It is not about the place that we have.
    NotOurs,
}

/// What somebody in line finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is not this one's turn.
    Wait,
    /// The lock is this one's, and it has left the line.
    Yours(Position, Offer),
    /// It was this one's turn, but the lease was over: this token has to be cleaned up.
    Stale(Position),
}

impl<W> Default for Gate<W> {
    fn default() -> Self {
        Self {
            line: Line::default(),
            last_seat: 0,
            place: Place::vacant(Moment::from_nanos(0)),
            again: None,
            next_hint: Moment::from_nanos(0),
            hurried: false,
            turn: None,
            deaf: BTreeSet::new(),
            driven: false,
        }
    }
}

/// The line.
impl<W> Gate<W> {
    /// Somebody comes to wait.
    pub(crate) fn enter(&mut self, waiter: W) -> Seat {
        self.last_seat += 1;
        self.line.push(self.last_seat, waiter);
        self.last_seat
    }

    /// Somebody stops waiting, with or without the lock. What was offered goes to the next in line; with
    /// nobody left, the token of the place has to be cleaned up. An acquire on its way is waited for: who
    /// comes meanwhile inherits it.
    pub(crate) fn leave(&mut self, seat: Seat) -> Option<Position> {
        self.line.remove(seat);
        self.deaf.remove(&seat);
        if self.line.is_empty() {
            return self.vacate();
        }
        if self.turn.is_some_and(|(whose, _)| whose == seat) {
            self.turn = None;
            return self.wanted_by_somebody();
        }
        None
    }

    /// Everybody is sent away.
    pub(crate) fn clear(&mut self) -> (Line<W>, Option<Position>) {
        self.deaf.clear();
        (std::mem::take(&mut self.line), self.vacate())
    }

    /// Looks whether the lock is this one's by now.
    pub(crate) fn look(&mut self, seat: Seat, now: Moment) -> Look {
        if self.turn.is_none_or(|(whose, _)| whose != seat) {
            return Look::Wait;
        }
        let (position, offer) = match std::mem::replace(&mut self.place, Place::vacant(now)) {
            Place::Offered(position, offer) => (position, offer),
            kept => {
                self.place = kept;
                return Look::Wait;
            }
        };
        self.turn = None;
        if now >= offer.deadline() {
            return Look::Stale(position);
        }
        self.line.remove(seat);
        if self.line.is_empty() || offer.handed_on_until(now).is_some() {
            self.place = Place::Held(position.clone(), offer);
        }
        Look::Yours(position, offer)
    }

    pub(crate) fn waiter(&mut self, seat: Seat) -> Option<&mut W> {
        self.line.get_mut(seat)
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = &W> {
        self.line.waiters()
    }

    /// The first in line that hears.
    pub(crate) fn first(&self) -> Option<&W> {
        self.line.get(self.first_hearing()?)
    }

    /// Whose turn it is.
    pub(crate) fn called(&self) -> Option<&W> {
        self.line.get(self.turn?.0)
    }

    /// Somebody is heard of; whether it had been taken for deaf, so that there is more to do now.
    pub(crate) fn hears(&mut self, seat: Seat) -> bool {
        self.deaf.remove(&seat)
    }

    fn first_hearing(&self) -> Option<Seat> {
        let mut seats = self.line.seats();
        seats.find(|seat| !self.deaf.contains(seat))
    }

    pub(crate) fn is_waited_at(&self) -> bool {
        !self.line.is_empty()
    }
}

/// The place.
impl<W> Gate<W> {
    /// Whether an acquire may go out: also after [`Next::Ask`] the place may have been offered to somebody meanwhile.
    pub(crate) fn may_ask(&self) -> bool {
        matches!(self.place, Place::Vacant { .. } | Place::Held(..))
    }

    /// An acquire goes out; only after [`Next::Ask`], and if it still may.
    pub(crate) fn asking(&mut self, position: Position) {
        debug_assert!(self.may_ask(), "one place at a time");
        self.again = None;
        self.next_hint = Moment::from_nanos(0); // what was said of another place is no reason to wait
        self.hurried = false;
        self.place = Place::Asking(position);
    }

    /// The acquire or a poll says: in the queue. `poll`: when to ask again.
    pub(crate) fn queued(&mut self, token: Token, poll: Moment) -> Fate {
        let (Place::Asking(position) | Place::Queued { position, .. }) = &self.place else {
            return Fate::NotOurs;
        };
        if position.token != token {
            return Fate::NotOurs;
        }
        let position = position.clone();
        let poll = self.again.take().map_or(poll, |again| again.min(poll));
        self.place = Place::Queued { position, poll };
        self.wanted()
    }

    /// The lock is ours: an answer or a push says so. The first word counts.
    pub(crate) fn granted(&mut self, token: Token, offer: Offer) -> Fate {
        match std::mem::replace(&mut self.place, Place::vacant(Moment::from_nanos(0))) {
            Place::Asking(position) | Place::Queued { position, .. } if position.token == token => {
                self.place = Place::Offered(position, offer);
                self.turn = None;
                self.wanted()
            }
            kept => {
                self.place = kept;
                Fate::NotOurs
            }
        }
    }

    /// Nothing of the token is ours any more, or somebody cleans up after it: nothing was created, the
    /// acquire's fate is open, or the queue has lost it. `false` when it is not about our place, so that
    /// whoever says so must leave the token alone.
    pub(crate) fn ended(&mut self, token: Token, not_before: Moment) -> bool {
        let (Place::Asking(position) | Place::Queued { position, .. }) = &self.place else {
            return false;
        };
        let ours = position.token == token;
        if ours {
            self.place = Place::Vacant { not_before };
        }
        ours
    }

    /// Whether this value is at our place, waiting to be granted.
    pub(crate) fn awaits(&self, value: &str) -> Option<Token> {
        let (Place::Asking(position) | Place::Queued { position, .. }) = &self.place else {
            return None;
        };
        (*position.claim.value == *value).then_some(position.token)
    }

    /// The holder in this process has it no longer.
    pub(crate) fn left(&mut self, token: Token, now: Moment) {
        if matches!(&self.place, Place::Held(position, _) if position.token == token) {
            self.place = Place::vacant(now);
        }
    }

    /// No acquire before then, unless somebody hurries; also while one of this process holds the lock, or
    /// a server that is down would be asked without a pause.
    pub(crate) fn pause(&mut self, until: Moment) {
        if let Place::Vacant { .. } | Place::Held(..) = self.place {
            self.place = Place::vacant(until);
        }
    }

    /// Asks what became of the place at once: something may have been missed.
    pub(crate) fn hurry(&mut self, now: Moment) {
        match &mut self.place {
            Place::Queued { poll, .. } => *poll = (*poll).min(now),
            Place::Vacant { not_before } => return *not_before = (*not_before).min(now),
            Place::Asking(_) => self.again = Some(Moment::from_nanos(0)),
            Place::Offered(..) | Place::Held(..) => return,
        }
        self.hurried = true;
    }

    /// Somebody says that the place was granted, which may not be so: the server is asked, ten times a second at most, so that
    /// who may say such things can't make us send a command for each; and but for the first time of a place together with those
    /// of others, for a poll costs the server a hundred times what such a message does. Whether there is anything to do because of it.
    pub(crate) fn hint(&mut self, now: Moment) -> bool {
        let at = now.max(self.next_hint);
        let is_first = self.next_hint == Moment::from_nanos(0);
        match &mut self.place {
            Place::Queued { poll, .. } if *poll > at => *poll = at,
            Place::Queued { poll, .. } if *poll > now => return false, // it is asked before
            // A poll may be on its way, and may have been executed before what is said now.
            Place::Asking(_) | Place::Queued { .. } if self.again.is_none_or(|it| it > at) => {
                self.again = Some(at);
            }
            _ => return false,
        }
        self.next_hint = at.plus(HINTS_APART);
        self.hurried |= is_first;
        true
    }

    /// Whether the poll that goes out now goes by itself, and not with those of others.
    pub(crate) fn polls_by_itself(&mut self) -> bool {
        std::mem::take(&mut self.hurried)
    }

    #[cfg(test)]
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Gives up what nobody waits for.
    fn vacate(&mut self) -> Option<Position> {
        self.turn = None;
        match std::mem::replace(&mut self.place, Place::vacant(Moment::from_nanos(0))) {
            Place::Queued { position, .. } | Place::Offered(position, _) => Some(position),
            kept => {
                self.place = kept;
                None
            }
        }
    }

    fn wanted(&mut self) -> Fate {
        let unwanted = if self.line.is_empty() {
            self.vacate()
        } else {
            self.wanted_by_somebody()
        };
        unwanted.map_or(Fate::Taken, Fate::Unwanted)
    }

    /// An offer without a turn is the first one's who hears; with nobody who does, it is given up.
    fn wanted_by_somebody(&mut self) -> Option<Position> {
        if !matches!(self.place, Place::Offered(..)) {
            return None;
        }
        self.turn = self.first_hearing().map(|seat| (seat, None));
        if self.turn.is_some() {
            return None;
        }
        self.vacate()
    }
}
