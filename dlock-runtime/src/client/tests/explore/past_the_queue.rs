//! Attempts outside the local queue, as in `driver/acquire.rs` (`past_the_queue`), and pushes, as
//! in the pool's `Listener`.

use super::host::queue_key;
use super::mutants::Mutant;
use super::process::{Process, Turn};
use super::seen::Witness;
use super::world::{Push, What, token_in};
use crate::client::answers::Landed;
use crate::client::local_queue::{Grant, Remote};
use crate::client::{AcquireRefusal, PastTry, PastTurn, SentAcquire};
use crate::rules::commands::{Acquired, Claim, Keep};
use crate::rules::queue::CLAIM;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Outside the local queue.
impl Process {
    /// `tries`: those before it.
    pub(super) fn go_past(&mut self, turn: &mut Turn<'_>, who: usize, tries: Option<PastTry>) {
        let Some(sent) = self.prepare(turn, who, false) else {
            return self.leave(turn, who);
        };
        assert!(self.tell(turn, |client, _| client.sending_alone(&sent)));
        self.send_acquire(turn, who, &sent);
        // No call waits for what its own process has at the key, as if its time were over.
        let begun = Moment::from_nanos(0);
        let tries = tries.unwrap_or(PastTry::new(begun, begun));
        self.contenders[who].over = Some((sent, tries));
    }

    pub(super) fn past_the_queue(
        &mut self,
        turn: &mut Turn<'_>,
        who: usize,
        sent: SentAcquire,
        mut tries: PastTry,
        answer: Acquired,
    ) {
        let landed = sent.landed(answer);
        if let Landed::WrongKind { .. } = landed {
            turn.seen.saw(Witness::WrongKind);
        }
        let request = self.request(turn, who);
        let (next, _) = self.tell(turn, |client, told| {
            let (key, answer) = (queue_key(), (Some(&sent), Ok(landed)));
            client.past_answered(&mut tries, (&key, &request), answer, None, told)
        });
        match next {
            PastTurn::Ask => self.go_past(turn, who, Some(tries)),
            PastTurn::Held(grant, token) => {
                let body = self.body_under(turn, token, &grant);
                self.leave(turn, who);
                turn.seen.saw(Witness::PastTheQueue);
                self.begin(turn, who, body, grant);
            }
            PastTurn::Refused(AcquireRefusal::LeaseOver) => {
                turn.seen.saw(Witness::StaleGrant);
                self.leave(turn, who);
            }
            PastTurn::Busy { .. } | PastTurn::Refused(_) => self.leave(turn, who),
            PastTurn::Rest(_) => unreachable!("no call waits for its own process"),
        }
    }
}

/// `Listener::granted`; `since` is what the push receiver knows about the time of the grant.
pub(super) fn pushed(
    process: &mut Process,
    turn: &mut Turn<'_>,
    push: Push,
    since: Option<Moment>,
) {
    let knows = since.is_some();
    let mut since = since.unwrap_or(turn.now());
    let mut lease = push.lease;
    if turn.run.is(Mutant::PushFromReceipt) {
        since = turn.now();
    }
    if turn.run.is(Mutant::PushForTheWholeTtl) {
        lease = turn.run.ttl;
    }
    let grant = Grant::in_turn(since, lease, push.epoch, push.time);
    let of_us = token_in(&push.value).filter(|(at, _)| *at == process.at);
    let Some((_, token)) = of_us else {
        return;
    };
    let key = queue_key();
    let is_awaited = process.tell(turn, |client, told| {
        let push = (key.key(), token, &*push.value);
        client.pushed(push, knows.then_some(grant), told)
    });
    if !is_awaited {
        stray(process, turn, token, push);
    } else if knows && matches!(process.remote(), Some(Remote::Granted(..))) {
        turn.seen.saw(Witness::HeldByPush);
    }
}

fn stray(process: &mut Process, turn: &mut Turn<'_>, token: Token, push: Push) {
    let claim = Claim {
        is_once: false,
        key: push.key,
        value: push.value,
        queues: false,
    };
    if turn.run.is(Mutant::KnownPushIsStray) {
        let cancel = What::Cancel {
            claim,
            keep: Keep::NOT,
            not_after: 0,
            behind: true,
        };
        return process.send(turn, token, cancel);
    }
    if process.client.tokens.next_check_at(token).is_none() {
        turn.seen.saw(Witness::StrayCleaned);
    }
    let now = turn.now();
    let give_up = now.plus(turn.run.tick + CLAIM);
    process.client.tokens.stray(token, claim, give_up, now);
}
