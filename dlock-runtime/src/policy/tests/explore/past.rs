//! What comes beside the driver: attempts past the line, and what the server says unasked. As
//! `engine/acquire.rs` and the pool's `Listener` do it.

use super::ask::offer;
use super::mutants::Mutant;
use super::process::{Attempt, Process, Turn};
use super::seen::Witness;
use super::world::{Push, What, token_in};
use crate::policy::client::Settled;
use crate::policy::commands::{Acquired, Claim};
use crate::policy::gate::{Granted, Position};
use crate::policy::queue::CLAIM;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// Past the line.
impl Process {
    pub(super) fn go_past(&mut self, turn: &mut Turn<'_>, who: usize, again: bool) {
        let Some((mut attempt, command)) = self.prepare(turn, who, false) else {
            return self.leave(turn, who);
        };
        attempt.again = again;
        self.tokens.acquiring(attempt.token, attempt.claim.clone());
        self.send(turn, attempt.token, What::Acquire(command));
        self.contenders[who].over = Some(attempt);
    }

    pub(super) fn past_the_line(
        &mut self,
        turn: &mut Turn<'_>,
        who: usize,
        attempt: Attempt,
        answer: Acquired,
    ) {
        let token = attempt.token;
        let offer = match answer {
            Acquired::Granted { time, epoch } => {
                let lease = attempt.lease.get();
                offer(attempt.sent, lease, epoch, time, Granted::AtOnce)
            }
            Acquired::Yours { time, epoch, left } => {
                offer(attempt.sent, left, epoch, time, Granted::InTurn)
            }
            Acquired::WrongKind { .. } => {
                turn.seen.saw(Witness::WrongKind);
                self.tokens.not_granted(token);
                return self.leave(turn, who);
            }
            Acquired::Busy(_) | Acquired::Queued(_) => {
                self.tokens.not_granted(token);
                return self.leave(turn, who);
            }
            Acquired::Late { .. } => {
                self.tokens.not_granted(token);
                if attempt.again {
                    return self.leave(turn, who);
                }
                return self.go_past(turn, who, true);
            }
        };
        let position = Position {
            token,
            claim: attempt.claim,
        };
        let body = self.take(turn, who, position, offer);
        self.leave(turn, who);
        if let Some(body) = body {
            turn.seen.saw(Witness::PastTheLine);
            self.begin(turn, who, body, offer);
        }
    }
}

/// `Listener::granted`, with the ear's word for since when.
pub(super) fn pushed(
    process: &mut Process,
    turn: &mut Turn<'_>,
    grant: Push,
    since: Option<Moment>,
) {
    let knows = since.is_some();
    let mut since = since.unwrap_or(turn.now());
    let mut lease = grant.lease;
    if turn.run.is(Mutant::PushFromReceipt) {
        since = turn.now();
    }
    if turn.run.is(Mutant::PushForTheWholeTtl) {
        lease = turn.run.ttl;
    }
    let how = Granted::InTurn;
    let offer = offer(since, lease, grant.epoch, grant.time, how);
    let awaited = process.gate.awaits(&grant.value);
    let settled = match awaited {
        None => Settled::NotOurs,
        Some(_) if !knows => {
            process.gate.hint(turn.now());
            return;
        }
        Some(token) => {
            let offer = offer.to_be_handed_on(&turn.run.handoff(), Margin::DEFAULT, turn.now());
            process.client(turn).granted(token, offer, turn.now())
        }
    };
    match settled {
        Settled::Taken => turn.seen.saw(Witness::HeldByPush),
        Settled::Unowned(token) => process.see_to(turn, Some(token)),
        Settled::NotOurs => stray(process, turn, grant),
    }
}

fn stray(process: &mut Process, turn: &mut Turn<'_>, grant: Push) {
    let Some((_, token)) = token_in(&grant.value).filter(|(at, _)| *at == process.at) else {
        return;
    };
    let claim = Claim {
        key: grant.key,
        value: grant.value,
        queues: false,
    };
    if turn.run.is(Mutant::KnownPushIsStray) {
        let cancel = What::Cancel {
            claim,
            keep_until: 0,
            not_after: 0,
            behind: true,
        };
        return process.send(turn, token, cancel);
    }
    if process.tokens.next_look_at(token).is_none() {
        turn.seen.saw(Witness::StrayCleaned);
    }
    let now = turn.now();
    let give_up = now.plus(turn.run.tick + CLAIM);
    process.tokens.stray(token, claim, give_up, now);
}
