//! The tries of one call past the queue: when its wait is over, or if it does not wait. They come
//! behind all waiters.
//!
//! Invariant: no call is busy because of what its own pool has at the key: an attempt whose end is
//! not known, or a hold that has ended.

use std::mem::replace;
use std::time::Duration;

use super::answers::{
    AcquireAnswer, AcquireRefusal, InTheWay, Landed, SentAcquire, end, in_the_way, leaves_open,
};
use super::host::ClientHost;
use super::local_queue::Grant;
use super::queue_key::QueueKey;
use super::tokens::Standing;
use super::{Client, Told};
use crate::rules::commands::Busy;
use crate::values::holder::Holder;
use crate::values::moment::Moment;

/// The longest pause before the call looks, or asks, once more.
const REST_AT_MOST: Duration = Duration::from_millis(25);

/// What one call has tried.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PastTry {
    /// When the call began: failures before that are others' ends.
    begun: Moment,
    /// When all tries together must be answered.
    pub(crate) until: Moment,
    was_late: bool,
    was_elsewhere: bool,
    /// What was in the way when it was last asked; `None`: it asks next.
    in_the_way: Option<Busy>,
    /// How long the call rests next; zero: it has not rested yet.
    pause: Duration,
}

/// How the call goes on.
#[derive(Debug)]
pub(crate) enum PastTurn<H: ClientHost> {
    /// It sends an acquire.
    Ask,
    /// It rests for so long; then it [goes on](Client::past_rested).
    Rest(Duration),
    Held(Grant, H::Holder),
    Busy {
        holder: Holder,
        left: Duration,
    },
    Refused(AcquireRefusal<H::Error>),
}

impl PastTry {
    pub(crate) fn new(begun: Moment, until: Moment) -> Self {
        Self {
            begun,
            until,
            was_late: false,
            was_elsewhere: false,
            in_the_way: None,
            pause: Duration::ZERO,
        }
    }
}

impl<H: ClientHost> Client<H> {
    /// An acquire past the queue was answered, failed, or could not be sent (`sent`: `None`).
    /// Returns how its call goes on, and whether a `cancel` must follow the acquire.
    pub(crate) fn past_answered(
        &mut self,
        tries: &mut PastTry,
        (queue_key, request): (&QueueKey, &H::Request),
        (sent, answer): (Option<&SentAcquire>, AcquireAnswer<H::Error>),
        follows: Option<Moment>,
        (now, out): Told<'_, H>,
    ) -> (PastTurn<H>, bool) {
        let open = sent.zip(leaves_open(&answer));
        let cancels_behind = open
            .is_some_and(|(sent, is_open)| end(&mut self.tokens, sent, (is_open, follows), now));
        let turn = match answer {
            Ok(Landed::Granted(grant)) => {
                let held =
                    sent.and_then(|it| self.take_alone(request, it.token, &grant, (now, out)));
                match held {
                    Some(holder) => PastTurn::Held(grant, holder),
                    None => PastTurn::Refused(self.why_not_taken()),
                }
            }
            Ok(Landed::Queued(busy) | Landed::Taken(busy)) => {
                tries.in_the_way = Some(busy);
                self.past_rested(tries, queue_key, now)
            }
            Ok(Landed::NoQuorum(answer)) => {
                tries.in_the_way = Some(answer.busy);
                self.past_rested(tries, queue_key, now)
            }
            // Nothing was created, and the server's clock is known better now.
            Ok(Landed::Late) if !replace(&mut tries.was_late, true) => PastTurn::Ask,
            Ok(Landed::Late) => {
                let own = self.failed_since(queue_key, tries.begun);
                PastTurn::Refused(own.unwrap_or(AcquireRefusal::TooLate))
            }
            Ok(Landed::WrongKind { there, .. }) => {
                PastTurn::Refused(AcquireRefusal::WrongKind(there))
            }
            Ok(Landed::NotDue(it)) => PastTurn::Refused(AcquireRefusal::NotDue(it)),
            Err(fault) if fault.is_elsewhere && !replace(&mut tries.was_elsewhere, true) => {
                PastTurn::Ask
            }
            Err(fault) => {
                // It had little time left: how the queue's commands failed before it says more.
                let had_rested = !fault.is_answered && !tries.pause.is_zero();
                let own = had_rested.then(|| self.failed_since(queue_key, tries.begun));
                let own = own.flatten();
                PastTurn::Refused(own.unwrap_or(AcquireRefusal::Server(fault.error)))
            }
        };
        (turn, cancels_behind)
    }

    /// The call has rested, and looks whose value is in the way.
    pub(crate) fn past_rested(
        &self,
        tries: &mut PastTry,
        queue_key: &QueueKey,
        now: Moment,
    ) -> PastTurn<H> {
        let Some(busy) = &tries.in_the_way else {
            return PastTurn::Ask;
        };
        match self.standing(busy, now) {
            None | Some(Standing::Holds) => match in_the_way(busy) {
                InTheWay::Somebody { holder, left } => PastTurn::Busy { holder, left },
                InTheWay::Endless => PastTurn::Refused(AcquireRefusal::Endless),
                InTheWay::Layout => PastTurn::Refused(AcquireRefusal::Layout),
            },
            Some(_) if now >= tries.until => {
                let own = self.failed_since(queue_key, tries.begun);
                PastTurn::Refused(own.unwrap_or(AcquireRefusal::Unsettled))
            }
            Some(standing) => {
                let pause = tries.pause.min(now.until(tries.until));
                tries.pause = (tries.pause * 2).clamp(Duration::from_millis(1), REST_AT_MOST);
                if standing == Standing::Over {
                    tries.in_the_way = None; // nothing is there a moment later
                }
                PastTurn::Rest(pause)
            }
        }
    }
}
