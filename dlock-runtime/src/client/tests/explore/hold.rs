//! From the grant to the release, as in `driver/acquire.rs` and `driver/guard`.

use super::guarding::kept;
use super::host::{AlwaysAwake, ModelRequest, queue_key};
use super::mutants::Mutant;
use super::process::{Begun, Body, Fence, Phase, Process, Turn};
use super::run::Wants;
use super::seen::Witness;
use super::world::What;
use crate::client::leading::Answered;
use crate::client::lease::LeaseTerms;
use crate::client::local_queue::{Grant, GrantKind, Remote};
use crate::client::tokens::{Extension, ReleaseBy};
use crate::client::{Looked, ReadAnswer, ReturnedTo};
use crate::rules::commands::{Keep, Renewal, Renewed};
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Taking the lock, and beginning the body.
impl Process {
    /// What `AcquireFuture` does when it is polled. `read`: the answer to the
    /// acquire that it has sent itself.
    pub(super) fn look(
        &mut self,
        turn: &mut Turn<'_>,
        who: usize,
        read: Option<ReadAnswer<'_, ()>>,
    ) -> Answered {
        let Phase::Queue(waiter_id) = self.contenders[who].phase else {
            return Answered::default();
        };
        let is_led = self.is_driven();
        let was_granted = self
            .remote()
            .is_some_and(|it| matches!(it, Remote::Granted(..)));
        if turn.run.is(Mutant::HandedOnAfresh)
            && let Some(queue) = self.client.queues.by_key.get_mut(&queue_key())
            && let Some(grant) = queue.queue.grant_mut()
        {
            grant.since = grant.chain.since.unwrap_or(grant.since);
        }
        let request = self.request(turn, who);
        let reply = self.at(turn, |queue| {
            queue.look(&request, (waiter_id, &AlwaysAwake), read)
        });
        if reply.lead.is_some() && !is_led {
            turn.seen.saw(Witness::LeaderReplaced);
        }
        match reply.looked {
            Looked::Wait => {
                if was_granted && !matches!(self.remote(), Some(Remote::Granted(..))) {
                    turn.seen.saw(Witness::StaleGrant);
                }
            }
            Looked::TooLate => {
                turn.seen.saw(Witness::StaleGrant);
                self.flight_dropped(turn, who);
                self.enter(turn, who); // at the end of the queue again
            }
            Looked::Yours(grant, token) => {
                let body = self.body_under(turn, token, &grant);
                if let Some((sent, _)) = self.contenders[who].over.take() {
                    self.unread(turn, &sent, false, true);
                }
                self.begin(turn, who, body, grant);
                self.flight_dropped(turn, who);
            }
            Looked::Refused(_) => self.contenders[who].phase = Phase::Done,
        }
        reply.answered
    }

    pub(super) fn request(&self, turn: &Turn<'_>, who: usize) -> ModelRequest {
        let mut terms = self.order(turn.run, who).terms;
        if turn.run.is(Mutant::ClaimIsWhole) {
            terms.renew = None;
        }
        ModelRequest { who, terms }
    }

    pub(super) fn body_under(&self, turn: &Turn<'_>, token: Token, grant: &Grant) -> Body {
        let tokens = &self.client.tokens;
        let claim = tokens.claim(token).expect("it is held").clone();
        let deadline = tokens.deadline(token).expect("it is held");
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
        if !self.client.tokens.extending(body.token, lease) {
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
            if !self.client.tokens.keep(body.token, keep) {
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
        let sent = (sent, self.order(turn.run, who).terms.ttl);
        match (self.client.tokens).extended(token, sent, answer, turn.now()) {
            Extension::Until(deadline, _) if !body.lost && turn.now() < body.deadline => {
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
            self.left(turn, body.token);
            return self.send_unsubscribed_release(turn, body.token, body.claim);
        }
        let may_hand_on = may_hand_on(self.order(turn.run, who).terms);
        let given_back = self.tell(turn, |client, told| {
            client.give_back((&queue_key(), body.token), may_hand_on, told, || {})
        });
        match given_back {
            ReturnedTo::HandedOn => saw_handed_on(turn, &body),
            ReturnedTo::ToServer(ReleaseBy::Caller { keep }) => {
                let (token, claim) = (body.token, body.claim);
                let keep = kept(turn, keep);
                let is_alone = turn.run.mutant.is_some() || !self.is_guarded(token);
                assert!(is_alone, "a renewal could arrive behind this release");
                self.send(turn, token, What::Release { claim, keep });
                self.contenders[who].phase = Phase::Releasing { token, sent: now };
            }
            ReturnedTo::ToServer(ReleaseBy::Host | ReleaseBy::Nobody) => {}
        }
    }

    /// A holder that tells the watchdog nothing.
    pub(super) fn left(&mut self, turn: &Turn<'_>, token: Token) {
        let now = turn.now();
        if let Some(queue) = self.client.queues.by_key.get_mut(&queue_key()) {
            queue.queue.left(token, now);
        }
    }

    fn send_unsubscribed_release(
        &mut self,
        turn: &Turn<'_>,
        token: Token,
        claim: crate::rules::commands::Claim,
    ) {
        let keep = Keep::NOT;
        self.send(turn, token, What::Release { claim, keep });
    }

    /// The guard is dropped: the body was stopped, or never began and its contender waits again.
    pub(super) fn drop_guard(&mut self, turn: &mut Turn<'_>, body: &Body, who: usize, waits: bool) {
        self.commands
            .forget(body.token, |what| matches!(what, What::Renew(_)));
        let may_hand_on = may_hand_on(self.order(turn.run, who).terms) && !waits;
        let handed_on = self.tell(turn, |client, told| {
            client.drop_hold((&queue_key(), body.token), may_hand_on, told, || {})
        });
        if handed_on {
            saw_handed_on(turn, body);
            self.contenders[who].phase = Phase::Done;
            return;
        }
        if waits && self.contenders[who].wants == Wants::Once {
            self.contenders[who].phase = Phase::Alone;
            self.go_past(turn, who, None);
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
            self.client.tokens.released(token);
        }
    }

    pub(super) fn release_unclear(&mut self, turn: &Turn<'_>, who: usize, token: Token) {
        self.commands
            .forget(token, |what| matches!(what, What::Release { .. }));
        if turn.run.is(Mutant::NoCleanUp) {
            self.client.tokens.not_granted(token);
        } else {
            self.client.tokens.leave_to_clean_up(token, turn.now());
        }
        self.contenders[who].phase = Phase::Done;
    }
}

/// With `min_hold` nothing is handed on.
fn may_hand_on(terms: LeaseTerms) -> bool {
    terms.bounds.min_hold.is_none()
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
