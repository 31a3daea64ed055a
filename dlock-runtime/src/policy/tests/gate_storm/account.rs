//! A simple account of the line and of every token that was asked for, kept beside the gate.

mod serving;

use std::collections::BTreeMap;

use super::Event;
use crate::policy::gate::{Fate, Gate, Look, Next, Offer, Place, Position, Seat};
use crate::policy::tests::gate::{offer, position, token};
use crate::policy::tests::{at, ms};
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// Where a token stands. Two of the three ends are told to the host, which cleans up; each ends once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    Asked,
    Queued { poll: u64 },
    Offered(Offer),
    Taken,
    Unwanted,
    Ended,
}

#[derive(Default)]
pub(super) struct Account {
    gate: Gate<Seat>,
    now: u64,
    line: Vec<Seat>,
    seats: Seat,
    stands: BTreeMap<u64, Stand>,
    driven: bool,
    /// The driver was told to ask, and is looking for a connection.
    to_ask: bool,
    /// Nobody but who holds this has asked since.
    held: Option<(u64, Offer)>,
    not_before: u64,
    /// Something may have been missed since the acquire went out.
    hurried: bool,
}

impl Account {
    fn now(&self) -> Moment {
        at(self.now)
    }

    /// The token at the place: the last that was asked for, or none.
    fn place(&self) -> Option<(u64, Stand)> {
        let last = self.stands.last_key_value();
        last.map(|(number, stand)| (*number, *stand))
            .filter(|(_, stand)| is_there(*stand))
    }

    fn nth_seat(&self, index: usize) -> Seat {
        1 + u64::try_from(index).unwrap() % self.seats.max(1)
    }

    fn number(&self, ago: u64) -> u64 {
        let asked = u64::try_from(self.stands.len()).unwrap();
        asked.saturating_sub(ago)
    }

    pub(super) fn take(&mut self, event: &Event) {
        let now = self.now();
        match *event {
            Event::Enter => self.enter(),
            Event::Leave(who) => self.leave(self.nth_seat(who)),
            Event::Look(who) => self.look(self.nth_seat(who)),
            Event::Drive => drop(self.drive()),
            Event::TakeWheel => self.take_wheel(),
            Event::DriverGone => {
                self.gate.driver_gone();
                (self.driven, self.to_ask) = (false, false);
            }
            Event::Queued { ago, poll } => self.queued(self.number(ago), self.now + poll),
            Event::Granted {
                ago,
                since,
                lease,
                handoffs,
            } => {
                let since = self.now.saturating_sub(since);
                let lease = ms(lease);
                let mut offer = Offer {
                    lease,
                    ..offer(since)
                };
                let bounds = Handoff {
                    most: handoffs,
                    within: ms(300),
                    part: 2,
                };
                let until = now.plus(ms(300)).min(at(since).plus(lease / 2));
                (offer.row.left, offer.row.until) = (handoffs, until);
                let from_bounds = Offer::in_turn(at(since), lease, since, since);
                assert_eq!(
                    from_bounds.to_be_handed_on(&bounds, Margin::DEFAULT, now),
                    offer
                );
                self.granted(self.number(ago), offer);
            }
            Event::Ended { ago, pause } => self.ended(self.number(ago), self.now + pause),
            Event::Left { ago } => {
                let number = self.number(ago);
                self.gate.left(token(number), now);
                if self.held.is_some_and(|(held, _)| held == number) {
                    (self.held, self.not_before) = (None, self.now);
                }
            }
            Event::HandOn { ago, fits } => self.hand_on(self.number(ago), fits),
            Event::Pause(pause) => {
                self.gate.pause(now.plus(ms(pause)));
                if self.place().is_none() {
                    (self.held, self.not_before) = (None, self.now + pause);
                }
            }
            Event::Hurry => self.hurry(),
            Event::Clear => {
                let (line, unwanted) = self.gate.clear();
                let expected = std::mem::take(&mut self.line);
                assert_eq!(
                    line.into_iter().map(|(seat, _)| seat).collect::<Vec<_>>(),
                    expected
                );
                self.expect_given_up(unwanted.as_ref());
            }
            Event::Wait(pause) => self.now += pause,
        }
    }

    fn enter(&mut self) {
        self.seats += 1;
        let seat = self.gate.enter(self.seats);
        assert_eq!(seat, self.seats);
        self.line.push(seat);
    }

    fn leave(&mut self, seat: Seat) {
        self.line.retain(|it| *it != seat);
        let unwanted = self.gate.leave(seat);
        self.expect_given_up(unwanted.as_ref());
    }

    /// What was queued or offered is named as soon as nobody waits, and only then.
    fn expect_given_up(&mut self, unwanted: Option<&Position>) {
        let expected = self
            .place()
            .filter(|(_, stand)| self.line.is_empty() && *stand != Stand::Asked);
        let expected = expected.map(|(number, _)| position(number));
        assert_eq!(unwanted, expected.as_ref());
        if unwanted.is_some() {
            self.end(Stand::Unwanted, 0);
        }
    }

    fn look(&mut self, seat: Seat) {
        let found = self.gate.look(seat, self.now());
        let expected = match self.place() {
            Some((number, Stand::Offered(offer))) if self.line.first() == Some(&seat) => {
                if self.now() < deadline(offer) {
                    self.line.remove(0);
                    self.end(Stand::Taken, self.now);
                    let stays = self.line.is_empty() || self.may_go_on(&offer);
                    self.held = stays.then_some((number, offer));
                    Look::Yours(position(number), offer)
                } else {
                    self.end(Stand::Unwanted, self.now);
                    Look::Stale(position(number))
                }
            }
            _ => Look::Wait,
        };
        assert_eq!(found, expected);
    }

    /// The same token is offered again, with the next index.
    fn hand_on(&mut self, number: u64, fits: bool) {
        let now = self.now();
        let held = self.held.filter(|(held, _)| *held == number);
        let next = held.filter(|(_, offer)| fits && !self.line.is_empty() && self.may_go_on(offer));
        assert_eq!(
            self.gate.can_hand_on(token(number), now, |_, _| fits),
            next.is_some()
        );
        assert_eq!(
            self.gate.hand_on(token(number), now, |_, _| fits),
            next.is_some()
        );
        if let Some((_, mut offer)) = next {
            offer.row.index += 1;
            offer.row.left -= 1;
            offer.row.since = Some(now);
            self.held = None;
            self.stands.insert(number, Stand::Offered(offer));
        }
    }

    fn may_go_on(&self, offer: &Offer) -> bool {
        offer.row.left > 0 && self.now() < offer.row.until && self.now() < deadline(*offer)
    }

    fn take_wheel(&mut self) {
        let taken = self.gate.take_wheel();
        assert_eq!(taken, !self.driven && !self.line.is_empty());
        self.driven |= taken;
    }

    /// A step of the driver, if there is one.
    fn drive(&mut self) -> Option<Next> {
        if !self.driven {
            return None;
        }
        if std::mem::take(&mut self.to_ask) {
            let number = self.number(0) + 1;
            self.gate.asking(position(number));
            self.stands.insert(number, Stand::Asked);
            (self.held, self.hurried) = (None, false);
            return Some(Next::Ask);
        }
        let next = self.gate.next(self.now());
        let (now, waited_at) = (self.now, !self.line.is_empty());
        assert_eq!(next == Next::Rest, !waited_at, "while somebody waits");
        let expected = match self.place() {
            _ if !waited_at => Next::Rest,
            None if let Some((_, offer)) = self.held
                && self.may_go_on(&offer) =>
            {
                Next::Sleep(offer.row.until)
            }
            None if self.held.is_some() || self.not_before <= now => Next::Ask,
            None => Next::Sleep(at(self.not_before)),
            Some((_, Stand::Asked)) => Next::Sleep(Moment::NEVER),
            Some((number, Stand::Queued { poll })) if poll <= now => Next::Poll(position(number)),
            Some((_, Stand::Queued { poll })) => Next::Sleep(at(poll)),
            Some((number, Stand::Offered(offer))) if deadline(offer) <= at(now) => {
                self.end(Stand::Unwanted, now);
                Next::GiveUp(position(number))
            }
            Some((_, Stand::Offered(offer))) if self.may_go_on(&offer) => {
                Next::Sleep(offer.row.until)
            }
            Some((_, Stand::Offered(offer))) => Next::Sleep(deadline(offer)),
            Some(ended) => panic!("at no place: {ended:?}"),
        };
        assert_eq!(next, expected);
        match next {
            Next::Ask => self.to_ask = true,
            Next::Rest => self.driven = false,
            _ => {}
        }
        Some(next)
    }

    fn queued(&mut self, number: u64, poll: u64) {
        let fate = self.gate.queued(token(number), at(poll));
        let missed = self.awaits(number) && std::mem::take(&mut self.hurried);
        let poll = poll * u64::from(!missed);
        self.expect_fate(number, &fate, Stand::Queued { poll });
    }

    fn granted(&mut self, number: u64, offer: Offer) {
        let fate = self.gate.granted(token(number), offer);
        self.expect_fate(number, &fate, Stand::Offered(offer));
    }

    /// News count for the place, before it is offered; with nobody in line, the token is named.
    fn expect_fate(&mut self, number: u64, fate: &Fate, becomes: Stand) {
        let expected = if !self.awaits(number) {
            Fate::NotOurs
        } else if self.line.is_empty() {
            self.end(Stand::Unwanted, 0);
            Fate::Unwanted(position(number))
        } else {
            self.stands.insert(number, becomes);
            Fate::Taken
        };
        assert_eq!(*fate, expected);
    }

    fn ended(&mut self, number: u64, not_before: u64) {
        let ours = self.gate.ended(token(number), at(not_before));
        assert_eq!(ours, self.awaits(number));
        if ours {
            self.end(Stand::Ended, not_before);
        }
    }

    fn hurry(&mut self) {
        self.gate.hurry(self.now());
        match self.place() {
            Some((number, Stand::Queued { poll })) => {
                let poll = poll.min(self.now);
                self.stands.insert(number, Stand::Queued { poll });
            }
            Some((_, Stand::Asked)) => self.hurried = true,
            None if self.held.is_none() => self.not_before = self.not_before.min(self.now),
            _ => {}
        }
    }

    fn awaits(&self, number: u64) -> bool {
        let stand = self.stands.get(&number);
        matches!(stand, Some(Stand::Asked | Stand::Queued { .. }))
    }

    /// The token at the place comes to its end.
    fn end(&mut self, how: Stand, not_before: u64) {
        let (number, _) = self.place().expect("an end of something");
        self.stands.insert(number, how);
        self.not_before = not_before;
    }

    pub(super) fn check(&self) {
        let there = self.stands.values().filter(|stand| is_there(**stand));
        assert!(there.count() <= 1, "one place");
        let place = match (self.place(), self.held) {
            (None, None) => Place::Vacant {
                not_before: at(self.not_before),
            },
            (None, Some((number, offer))) => Place::Held(position(number), offer),
            (Some((number, Stand::Asked)), _) => Place::Asking(position(number)),
            (Some((number, Stand::Queued { poll })), _) => Place::Queued {
                position: position(number),
                poll: at(poll),
            },
            (Some((number, Stand::Offered(offer))), _) => Place::Offered(position(number), offer),
            (Some(ended), _) => panic!("at no place: {ended:?}"),
        };
        assert_eq!(self.gate.place(), &place);
        let waiters: Vec<Seat> = self.gate.waiters().copied().collect();
        assert_eq!(waiters, self.line, "in order of arrival");
        assert_eq!(self.gate.first(), self.line.first());
        for number in self.number(2)..=self.number(0) {
            let awaited = self.awaits(number).then(|| token(number));
            assert_eq!(self.gate.awaits(&position(number).claim.value), awaited);
        }
        let vacant = self.place().is_none() && self.held.is_none();
        let idle = self.line.is_empty() && !self.driven && vacant;
        assert_eq!(self.gate.is_idle(), idle);
    }
}

fn is_there(stand: Stand) -> bool {
    matches!(
        stand,
        Stand::Asked | Stand::Queued { .. } | Stand::Offered(_)
    )
}

fn deadline(offer: Offer) -> Moment {
    offer.since.plus(Margin::DEFAULT.validity(offer.lease))
}
