//! The tries of one call past the queue: when its wait is over, or if it does not wait. They come
//! behind all waiters.
//!
//! It says how the call goes on after each answer; it sends nothing. Invariant: no call is busy
//! because of what its own pool has at the key: an attempt whose end is not known, or a hold that
//! has ended.

use std::time::Duration;

use super::answers::{AcquireAnswer, AcquireRefusal, InTheWay, Landed, in_the_way};
use super::local_queue::Grant;
use super::tokens::Standing;
use crate::policy::commands::Busy;
use crate::values::holder::Holder;
use crate::values::moment::Moment;

/// The longest pause before the call looks, or asks, once more.
const REST_AT_MOST: Duration = Duration::from_millis(25);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PastTry {
    /// When all tries together have to be answered.
    pub(crate) until: Moment,
    was_late: bool,
    was_elsewhere: bool,
    /// How long the call rests next; zero: it has not rested yet.
    pause: Duration,
}

/// How the call goes on after an answer.
#[derive(Debug)]
pub(crate) enum PastStep<E> {
    /// The lock is granted: the call takes it.
    Take(Grant),
    Again,
    /// This value is in the way: the call has to [`look`](PastTry::look) whose it is.
    Look(Busy),
    Refused(AcquireRefusal<E>),
    /// It had little time left: how the queue's commands failed before it says more.
    OwnEnd(E),
}

/// How the call goes on after it has looked whose value is in the way.
#[derive(Debug)]
pub(crate) enum PastLook<E> {
    Busy {
        holder: Holder,
        left: Duration,
    },
    /// Rest for so long; then ask again, or only look again.
    Rest {
        pause: Duration,
        asks: bool,
    },
    Refused(AcquireRefusal<E>),
    /// What this pool has there is still open, and the call's time is over.
    OwnEnd,
}

impl PastTry {
    pub(crate) fn new(until: Moment) -> Self {
        Self {
            until,
            was_late: false,
            was_elsewhere: false,
            pause: Duration::ZERO,
        }
    }

    pub(crate) fn answered<E>(&mut self, answer: AcquireAnswer<E>) -> PastStep<E> {
        match answer {
            Ok(Landed::Granted(grant)) => PastStep::Take(grant),
            Ok(Landed::Queued(busy) | Landed::Taken(busy)) => PastStep::Look(busy),
            Ok(Landed::NoQuorum(answer)) => PastStep::Look(answer.busy),
            // Nothing was created, and the server's clock is known better now.
            Ok(Landed::Late) if !std::mem::replace(&mut self.was_late, true) => PastStep::Again,
            Ok(Landed::Late) => PastStep::Refused(AcquireRefusal::ClockAhead),
            Ok(Landed::WrongKind { there, .. }) => {
                PastStep::Refused(AcquireRefusal::WrongKind(there))
            }
            Err(fault)
                if fault.is_elsewhere && !std::mem::replace(&mut self.was_elsewhere, true) =>
            {
                PastStep::Again
            }
            Err(fault) if !fault.is_answered && !self.pause.is_zero() => {
                PastStep::OwnEnd(fault.error)
            }
            Err(fault) => PastStep::Refused(AcquireRefusal::Server(fault.error)),
        }
    }

    /// `standing`: what the value in the way means in this pool; `None`: it is not this pool's.
    pub(crate) fn look<E>(
        &mut self,
        busy: &Busy,
        standing: Option<Standing>,
        now: Moment,
    ) -> PastLook<E> {
        match standing {
            None | Some(Standing::Holds) => match in_the_way(busy) {
                InTheWay::Somebody { holder, left } => PastLook::Busy { holder, left },
                InTheWay::Endless => PastLook::Refused(AcquireRefusal::Endless),
                InTheWay::Layout => PastLook::Refused(AcquireRefusal::Layout),
            },
            Some(_) if now >= self.until => PastLook::OwnEnd,
            Some(standing) => {
                let pause = self.pause.min(now.until(self.until));
                self.pause = (self.pause * 2).clamp(Duration::from_millis(1), REST_AT_MOST);
                // Of one that is over nothing is there a moment later.
                let asks = standing == Standing::Over;
                PastLook::Rest { pause, asks }
            }
        }
    }
}
