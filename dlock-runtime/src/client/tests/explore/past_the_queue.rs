//! Attempts outside the local queue, as in `driver/acquire.rs` (`past_the_queue`), and pushes, as
//! in the pool's `Listener`.

use super::host::queue_key;
use super::mutants::Mutant;
use super::process::{Process, Turn};
use super::seen::Witness;
use super::world::{Push, What, token_in};
use crate::client::answers::Landed;
use crate::client::local_queue::{Grant, Remote};
use crate::client::{PastStep, PastTry, SentAcquire};
use crate::policy::commands::{Acquired, Claim, Keep};
use crate::policy::queue::CLAIM;
use crate::values::moment::Moment;

/// Outside the local queue.
impl Process {
    /// `tries`: those before it.
    pub(super) fn go_past(&mut self, turn: &mut Turn<'_>, who: usize, tries: Option<PastTry>) {
        let Some(sent) = self.prepare(turn, who, false) else {
            return self.leave(turn, who);
        };
        self.tell(turn, |client, _| client.sending_alone(&sent));
        self.send_acquire(turn, who, &sent);
        // No call waits for what its own process has at the key, as if its time were over.
        let tries = tries.unwrap_or(PastTry::new(Moment::from_nanos(0)));
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
        if let Some(is_open) = landed.leaves_open() {
            self.tell(turn, |client, at| {
                client.ended(None, &sent, (is_open, None), at)
            });
        }
        match tries.answered::<()>(Ok(landed)) {
            PastStep::Again => self.go_past(turn, who, Some(tries)),
            PastStep::Take(grant) => {
                let body = self.take(turn, who, sent.attempt(), grant);
                self.leave(turn, who);
                if let Some(body) = body {
                    turn.seen.saw(Witness::PastTheQueue);
                    self.begin(turn, who, body, grant);
                }
            }
            PastStep::Look(_) | PastStep::Refused(_) | PastStep::OwnEnd(()) => {
                self.leave(turn, who);
            }
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
    let key = queue_key();
    let is_awaited = process.tell(turn, |client, at| {
        client.pushed(key.key(), &push.value, knows.then_some(grant), at)
    });
    if !is_awaited {
        stray(process, turn, push);
    } else if knows && matches!(process.remote(), Some(Remote::Granted(..))) {
        turn.seen.saw(Witness::HeldByPush);
    }
}

fn stray(process: &mut Process, turn: &mut Turn<'_>, push: Push) {
    let Some((_, token)) = token_in(&push.value).filter(|(at, _)| *at == process.at) else {
        return;
    };
    let claim = Claim {
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
