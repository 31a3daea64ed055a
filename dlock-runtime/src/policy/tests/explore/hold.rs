//! From the grant to the release: as `engine/acquire.rs` and `engine/guard.rs` do it.

use super::guarding::kept;
use super::mutants::Mutant;
use super::process::{Begun, Body, Fence, Phase, Process, Turn};
use super::run::Wants;
use super::seen::Witness;
use super::world::What;
use crate::policy::commands::{Renewal, Renewed};
use crate::policy::gate::{Granted, Look, Offer, Position};
use crate::policy::lease::Lease;
use crate::policy::tokens::ReleaseBy;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Taking, and beginning.
impl Process {
    /// `Ticket::look`, and what `in_line` makes of it.
    pub(super) fn look(&mut self, turn: &mut Turn<'_>, who: usize) {
        let Phase::Line(seat) = self.contenders[who].phase else {
            return;
        };
        self.gate.hears(seat);
        match self.gate.look(seat, turn.now()) {
            Look::Wait => {
                if self.gate.take_wheel() {
                    turn.seen.saw(Witness::DriverReplaced);
                }
            }
            Look::Stale(position) => {
                turn.seen.saw(Witness::StaleOffer);
                self.give_up(turn, &position);
                self.gate.take_wheel();
            }
            Look::Yours(position, offer) => {
                let Some(body) = self.take(turn, position, offer) else {
                    return self.enter(turn, who); // too late: at the end of the line again
                };
                if let Some(attempt) = self.contenders[who].over.take() {
                    self.abandon(turn, &attempt, false, true);
                }
                self.begin(turn, who, body, offer);
            }
        }
    }

    pub(super) fn take(
        &mut self,
        turn: &mut Turn<'_>,
        position: Position,
        offer: Offer,
    ) -> Option<Body> {
        let now = turn.now();
        let mut terms = turn.run.terms(self.at);
        if turn.run.is(Mutant::ClaimIsWhole) {
            terms.renew = None;
        }
        let since = match offer.row.since {
            Some(began) if turn.run.is(Mutant::HandedOnAfresh) => began,
            _ => offer.since,
        };
        let lease = Lease::granted(since, offer.lease, &terms);
        if now >= lease.deadline() {
            turn.seen.saw(Witness::StaleOffer);
            self.gate.left(position.token, now);
            self.give_up(turn, &position);
            return None;
        }
        let Position { token, claim } = position;
        self.tokens.granted(token, lease, token);
        Some(Body {
            token,
            claim,
            deadline: lease.deadline(),
            lost: false,
            fence: fence(turn, &offer),
            time: offer.time,
            reads: false,
            asked: None,
        })
    }

    pub(super) fn begin(&mut self, turn: &mut Turn<'_>, who: usize, body: Body, offer: Offer) {
        let confirms = turn.run.min_hold.is_some()
            && offer.how == Granted::InTurn
            && !turn.run.is(Mutant::NotConfirmed);
        if !confirms {
            return self.body(turn, who, body);
        }
        let lease = turn.run.terms(self.at).lease();
        if !self.tokens.extending(body.token, lease) {
            return self.drop_guard(turn, &body, who, true);
        }
        let renewal = Renewal {
            claim: body.claim.clone(),
            ttl: lease,
        };
        self.send(turn, body.token, What::Renew(renewal));
        let sent = turn.now();
        self.contenders[who].phase = Phase::Confirming { body, sent };
    }

    fn body(&mut self, turn: &mut Turn<'_>, who: usize, body: Body) {
        if let Some(min_hold) = turn.run.min_hold {
            let until = body.time + u64::try_from(min_hold.as_micros()).expect("short");
            if !self.tokens.keep(body.token, until) {
                return self.drop_guard(turn, &body, who, true);
            }
        }
        let bit = 1 << (u64_of(body.token) % 16);
        // A lock that is handed on has the same token: its fence has to rise then.
        let twice = self.begun & bit != 0 && body.fence.1 == 0;
        self.begun |= bit;
        turn.begun = Some(Begun {
            body: body.clone(),
            twice,
        });
        self.contenders[who].phase = Phase::Body(body);
    }

    pub(super) fn confirmed(
        &mut self,
        turn: &mut Turn<'_>,
        token: Token,
        sent: Moment,
        answer: Renewed,
    ) {
        let of = |it: &Phase| matches!(it, Phase::Confirming { body, .. } if body.token == token);
        let Some(who) = self.contenders.iter().position(|it| of(&it.phase)) else {
            return;
        };
        let Phase::Confirming { mut body, .. } = self.contenders[who].phase.clone() else {
            return;
        };
        if answer != Renewed::Yes {
            return self.confirm_failed(turn, who, &body);
        }
        let ttl = turn.run.terms(self.at).ttl;
        match self.tokens.extended(token, sent, ttl, turn.now()) {
            Some((deadline, _)) if !body.lost && turn.now() < body.deadline => {
                body.deadline = body.deadline.max(deadline);
                turn.seen.saw(Witness::Confirmed);
                self.body(turn, who, body);
            }
            _ => self.confirm_failed(turn, who, &body),
        }
    }

    /// Lost before it began: the wait goes on.
    pub(super) fn confirm_failed(&mut self, turn: &mut Turn<'_>, who: usize, body: &Body) {
        self.drop_guard(turn, body, who, true);
    }
}

/// The end of a hold.
impl Process {
    /// The body is done: the lock is given back.
    pub(super) fn give_back(&mut self, turn: &mut Turn<'_>, who: usize) {
        let Phase::Body(body) = self.contenders[who].phase.clone() else {
            return;
        };
        let now = turn.now();
        self.contenders[who].phase = Phase::Done;
        if self.hand_on(turn, &body) {
            return;
        }
        self.gate.left(body.token, now);
        if turn.run.is(Mutant::WatchdogNotStopped) {
            let claim = body.claim;
            return self.send_unheard_release(turn, body.token, claim);
        }
        if let ReleaseBy::Caller { keep_until } = self.tokens.release(body.token, now) {
            let (token, claim) = (body.token, body.claim);
            let keep_until = kept(turn, keep_until);
            self.send(turn, token, What::Release { claim, keep_until });
            self.contenders[who].phase = Phase::Releasing { token, sent: now };
        }
    }

    /// `LockGuard::leave`: to the next in line of this process.
    fn hand_on(&mut self, turn: &mut Turn<'_>, body: &Body) -> bool {
        let (token, now) = (body.token, turn.now());
        if turn.run.min_hold.is_some() || !self.gate.can_hand_on(token, now, |_, _| true) {
            return false;
        }
        if self.tokens.hand_on(token, now).is_none() {
            return false;
        }
        turn.seen.saw(Witness::HandedOn);
        if body.fence.1 > 0 {
            turn.seen.saw(Witness::HandedOnToTheThird);
        }
        self.gate.hand_on(token, now, |_, _| true)
    }

    fn send_unheard_release(
        &mut self,
        turn: &Turn<'_>,
        token: Token,
        claim: crate::policy::commands::Claim,
    ) {
        let keep_until = 0;
        self.send(turn, token, What::Release { claim, keep_until });
    }

    /// The guard is dropped: the body was stopped, or never began and its contender waits again.
    pub(super) fn drop_guard(&mut self, turn: &mut Turn<'_>, body: &Body, who: usize, waits: bool) {
        self.commands
            .forget(body.token, |what| matches!(what, What::Renew(_)));
        if !waits && self.hand_on(turn, body) {
            self.contenders[who].phase = Phase::Done;
            return;
        }
        self.gate.left(body.token, turn.now());
        if turn.run.is(Mutant::NoCleanUp) {
            self.tokens.not_granted(body.token);
        } else {
            self.tokens.hand_over(body.token, turn.now());
        }
        if waits && self.contenders[who].wants == Wants::Once {
            self.contenders[who].phase = Phase::Alone;
            self.go_past(turn, who, false);
        } else if waits {
            self.enter(turn, who);
        } else {
            self.contenders[who].phase = Phase::Done;
        }
    }

    pub(super) fn released(&mut self, token: Token) {
        let of =
            |it: &Phase| matches!(it, Phase::Releasing { token: theirs, .. } if *theirs == token);
        if let Some(it) = self.contenders.iter_mut().find(|it| of(&it.phase)) {
            it.phase = Phase::Done;
            self.tokens.released(token);
        }
    }

    pub(super) fn release_unclear(&mut self, turn: &Turn<'_>, who: usize, token: Token) {
        self.commands
            .forget(token, |what| matches!(what, What::Release { .. }));
        if turn.run.is(Mutant::NoCleanUp) {
            self.tokens.not_granted(token);
        } else {
            self.tokens.hand_over(token, turn.now());
        }
        self.contenders[who].phase = Phase::Done;
    }
}

fn fence(turn: &Turn<'_>, offer: &Offer) -> Fence {
    let index = if turn.run.is(Mutant::FenceOfTheGrant) {
        0
    } else {
        offer.row.index
    };
    (offer.epoch, index)
}

fn u64_of(token: Token) -> u64 {
    let wire = token.to_wire();
    let (_, number) = wire.rsplit_once('-').expect("a token's form");
    u64::from_str_radix(number, 16).expect("a number")
}
