//! Attempts outside the local queue, as in `driver/acquire.rs` (`past_the_queue`), and pushes, as
//! in the pool's `Listener`.

use super::leading::grant_of;
use super::mutants::Mutant;
use super::process::{Process, SentAcquire, Turn};
use super::seen::Witness;
use super::world::{Push, What, token_in};
use crate::client::Settled;
use crate::client::local_queue::{Attempt, GrantKind};
use crate::policy::commands::{Acquired, Claim, Keep};
use crate::policy::queue::CLAIM;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// Outside the local queue.
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

    pub(super) fn past_the_queue(
        &mut self,
        turn: &mut Turn<'_>,
        who: usize,
        attempt: SentAcquire,
        answer: Acquired,
    ) {
        let token = attempt.token;
        let grant = match answer {
            Acquired::Granted { time, epoch } => {
                let lease = attempt.lease.get();
                grant_of(attempt.sent, lease, epoch, time, GrantKind::AtOnce)
            }
            Acquired::Yours { time, epoch, left } => {
                grant_of(attempt.sent, left, epoch, time, GrantKind::InTurn)
            }
            Acquired::NoQuorum(_) => unreachable!("one server"),
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
        let attempt = Attempt {
            token,
            claim: attempt.claim,
        };
        let body = self.take(turn, who, attempt, grant);
        self.leave(turn, who);
        if let Some(body) = body {
            turn.seen.saw(Witness::PastTheQueue);
            self.begin(turn, who, body, grant);
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
    let how = GrantKind::InTurn;
    let grant = grant_of(since, lease, push.epoch, push.time, how);
    let awaited = process.queue.awaits(&push.value);
    let settled = match awaited {
        None => Settled::NotOurs,
        Some(_) if !knows => {
            process.queue.hint(turn.now());
            return;
        }
        Some(token) => {
            let grant = grant.with_handoff_limit(&turn.run.handoff(), Margin::DEFAULT, turn.now());
            process.client(turn).granted(token, grant, turn.now())
        }
    };
    match settled {
        Settled::Taken => turn.seen.saw(Witness::HeldByPush),
        Settled::Unowned(token) => process.hand_to_watchdog(turn, Some(token)),
        Settled::NotOurs => stray(process, turn, push),
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
    if process.tokens.next_check_at(token).is_none() {
        turn.seen.saw(Witness::StrayCleaned);
    }
    let now = turn.now();
    let give_up = now.plus(turn.run.tick + CLAIM);
    process.tokens.stray(token, claim, give_up, now);
}
