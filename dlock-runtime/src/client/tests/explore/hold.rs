//! From the grant to the release, as in `driver/acquire.rs` and `driver/guard`.

use super::guarding::kept;
use super::mutants::Mutant;
use super::process::{Begun, Body, Fence, Phase, Process, Turn};
use super::run::Wants;
use super::seen::Witness;
use super::world::What;
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::local_queue::{Attempt, Check, Grant, GrantKind, WaiterId};
use crate::client::tokens::ReleaseBy;
use crate::client::{Checked, ReturnedTo};
use crate::policy::commands::{Keep, Renewal, Renewed};
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Taking the lock, and beginning the body.
impl Process {
    /// `Waiter::look`, and what `acquire::in_queue` does with the result.
    pub(super) fn check(&mut self, turn: &mut Turn<'_>, who: usize) {
        let Phase::Queue(waiter_id) = self.contenders[who].phase else {
            return;
        };
        self.queue.mark_responsive(waiter_id);
        let (now, terms) = (turn.now(), self.terms(turn, who));
        if turn.run.is(Mutant::HandedOnAfresh) {
            return self.look_in_two_steps(turn, who, waiter_id);
        }
        let mut own = None;
        let token = |attempt: Attempt, _: &Lease| own.insert(attempt).token;
        match self.client(turn).check(waiter_id, now, &terms, token) {
            Checked::Wait => {
                if self.queue.become_leader() {
                    turn.seen.saw(Witness::LeaderReplaced);
                }
            }
            Checked::TooLate { unowned, left } => {
                turn.seen.saw(Witness::StaleGrant);
                self.hand_to_watchdog(turn, Some(unowned));
                if left {
                    return self.enter(turn, who); // at the end of the queue again
                }
                self.queue.become_leader();
            }
            Checked::Yours(grant, _) => {
                let attempt = own.expect("it made the handle");
                let body = self.body_under(turn, attempt, &grant);
                self.begins(turn, who, body, grant);
            }
        }
    }

    /// As the mutant `HandedOnAfresh` does it.
    fn look_in_two_steps(&mut self, turn: &mut Turn<'_>, who: usize, waiter_id: WaiterId) {
        match self.queue.check(waiter_id, turn.now()) {
            Check::Wait => drop(self.queue.become_leader()),
            Check::Stale(attempt) => {
                self.client(turn).clean_up(&attempt, turn.now());
                self.queue.become_leader();
            }
            Check::Yours(attempt, mut grant) => {
                grant.since = grant.chain.since.unwrap_or(grant.since);
                match self.take(turn, who, attempt, grant) {
                    Some(body) => self.begins(turn, who, body, grant),
                    None => self.enter(turn, who),
                }
            }
        }
    }

    fn begins(&mut self, turn: &mut Turn<'_>, who: usize, body: Body, grant: Grant) {
        if let Some(attempt) = self.contenders[who].over.take() {
            self.abandon(turn, &attempt, false, true);
        }
        self.begin(turn, who, body, grant);
    }

    fn terms(&self, turn: &Turn<'_>, who: usize) -> LeaseTerms {
        let mut terms = self.order(turn.run, who).terms;
        if turn.run.is(Mutant::ClaimIsWhole) {
            terms.renew = None;
        }
        terms
    }

    pub(super) fn take(
        &mut self,
        turn: &mut Turn<'_>,
        who: usize,
        attempt: Attempt,
        grant: Grant,
    ) -> Option<Body> {
        let (now, terms, token) = (turn.now(), self.terms(turn, who), attempt.token);
        let mut client = self.client(turn);
        if client
            .take(attempt.clone(), &grant, &terms, now, |_, _| token)
            .is_none()
        {
            turn.seen.saw(Witness::StaleGrant);
            self.hand_to_watchdog(turn, Some(token));
            return None;
        }
        Some(self.body_under(turn, attempt, &grant))
    }

    fn body_under(&self, turn: &Turn<'_>, attempt: Attempt, grant: &Grant) -> Body {
        let Attempt { token, claim } = attempt;
        let deadline = self.tokens.deadline(token).expect("it is held");
        Body {
            token,
            claim,
            deadline,
            lost: false,
            fence: fence(turn, grant),
            time: grant.time,
            reads: false,
            asked: None,
            extends: None,
        }
    }

    pub(super) fn begin(&mut self, turn: &mut Turn<'_>, who: usize, body: Body, grant: Grant) {
        let terms = self.order(turn.run, who).terms;
        let is_short = grant.how == GrantKind::InTurn || grant.lease < terms.lease().get();
        let confirms =
            terms.bounds.min_hold.is_some() && is_short && !turn.run.is(Mutant::NotConfirmed);
        if !confirms {
            return self.body(turn, who, body);
        }
        let lease = terms.lease();
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
        let min_hold = self.order(turn.run, who).terms.bounds.min_hold;
        if let Some(min_hold) = min_hold {
            let keep = Keep::from(body.time, min_hold);
            if !self.tokens.keep(body.token, keep) {
                return self.drop_guard(turn, &body, who, true);
            }
        }
        // A lock that was handed on has the same token: then its fence has to rise.
        let twice = !self.begun.insert(body.token) && body.fence.1 == 0;
        turn.begun = Some(Begun {
            body: body.clone(),
            twice,
            min_hold,
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
            return self.extended(turn, token, sent, answer);
        };
        let Phase::Confirming { mut body, .. } = self.contenders[who].phase.clone() else {
            return;
        };
        if answer != Renewed::Yes {
            return self.confirm_failed(turn, who, &body);
        }
        let ttl = self.order(turn.run, who).terms.ttl;
        match self.tokens.extended(token, sent, ttl, turn.now()) {
            Some((deadline, _)) if !body.lost && turn.now() < body.deadline => {
                body.deadline = body.deadline.max(deadline);
                turn.seen.saw(Witness::Confirmed);
                self.body(turn, who, body);
            }
            _ => self.confirm_failed(turn, who, &body),
        }
    }

    /// Lost before its body began: the wait goes on.
    pub(super) fn confirm_failed(&mut self, turn: &mut Turn<'_>, who: usize, body: &Body) {
        self.drop_guard(turn, body, who, true);
    }
}

/// The end of a hold.
impl Process {
    /// The body ends: the lock is released or handed on.
    pub(super) fn give_back(&mut self, turn: &mut Turn<'_>, who: usize) {
        let Phase::Body(body) = self.contenders[who].phase.clone() else {
            return;
        };
        let now = turn.now();
        self.contenders[who].phase = Phase::Done;
        if turn.run.is(Mutant::WatchdogNotStopped) {
            self.queue.left(body.token, now);
            return self.send_unsubscribed_release(turn, body.token, body.claim);
        }
        let may_hand_on = may_hand_on(self.order(turn.run, who).terms);
        match (self.client(turn)).give_back(body.token, now, may_hand_on, || {}) {
            ReturnedTo::HandedOn => saw_handed_on(turn, &body),
            ReturnedTo::ToServer(ReleaseBy::Caller { keep }) => {
                let (token, claim) = (body.token, body.claim);
                let keep = kept(turn, keep);
                self.send(turn, token, What::Release { claim, keep });
                self.contenders[who].phase = Phase::Releasing { token, sent: now };
            }
            ReturnedTo::ToServer(ReleaseBy::Host | ReleaseBy::Nobody) => {}
        }
    }

    fn send_unsubscribed_release(
        &mut self,
        turn: &Turn<'_>,
        token: Token,
        claim: crate::policy::commands::Claim,
    ) {
        let keep = Keep::NOT;
        self.send(turn, token, What::Release { claim, keep });
    }

    /// The guard is dropped: the body was stopped, or never began and its contender waits again.
    pub(super) fn drop_guard(&mut self, turn: &mut Turn<'_>, body: &Body, who: usize, waits: bool) {
        self.commands
            .forget(body.token, |what| matches!(what, What::Renew(_)));
        let may_hand_on = may_hand_on(self.order(turn.run, who).terms).filter(|_| !waits);
        let handed_on = (self.client(turn)).drop_hold(body.token, turn.now(), may_hand_on, || {});
        if handed_on {
            saw_handed_on(turn, body);
            self.contenders[who].phase = Phase::Done;
            return;
        }
        self.hand_to_watchdog(turn, Some(body.token));
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

/// With `min_hold` nothing is handed on; otherwise every waiter of the model can use the grant.
fn may_hand_on(terms: LeaseTerms) -> Option<fn(&usize, &Grant) -> bool> {
    let fits: fn(&usize, &Grant) -> bool = |_, _| true;
    terms.bounds.min_hold.is_none().then_some(fits)
}

fn saw_handed_on(turn: &mut Turn<'_>, body: &Body) {
    turn.seen.saw(Witness::HandedOn);
    if body.fence.1 > 0 {
        turn.seen.saw(Witness::HandedOnToTheThird);
    }
}

fn fence(turn: &Turn<'_>, grant: &Grant) -> Fence {
    let index = if turn.run.is(Mutant::FenceOfTheGrant) {
        0
    } else {
        grant.chain.index
    };
    (grant.epoch, index)
}
