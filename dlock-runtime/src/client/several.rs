//! Several keys in one command: how its call goes on after the answer.
//!
//! Where all are free it has them; otherwise it takes them one after the other, in the order of
//! their names. Invariant: it is busy at once only by a live exclusive holder that is not this pool.

use std::time::Duration;

use super::answers::{AttemptFault, InTheWay, SentAcquire, in_the_way};
use super::host::ClientHost;
use super::local_queue::Grant;
use super::{AcquireRefusal, Client};
use crate::rules::commands::{AcquiredAll, Busy};
use crate::values::entry::{self, Letter};
use crate::values::holder::Holder;
use crate::values::moment::Moment;

/// How the call goes on.
#[derive(Debug)]
pub(crate) enum SeveralTurn<E> {
    /// Each is granted, in order; the call takes them.
    Take(Vec<Grant>),
    /// It sends the command once more: another server has the keys.
    Again,
    OneByOne,
    /// The wait is over, and somebody has the lock at this index.
    Busy {
        at: usize,
        holder: Holder,
        left: Duration,
    },
    Refused(AcquireRefusal<E>),
}

/// What such a call knows when its command is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeveralTry {
    pub(crate) is_over: bool,
    /// It was sent once more already.
    pub(crate) is_second: bool,
}

impl<H: ClientHost> Client<H> {
    /// A grant of several was not taken: what was granted is cleaned up.
    pub(crate) fn several_not_taken(&self, tried: SeveralTry) -> SeveralTurn<H::Error> {
        match self.why_not_taken() {
            AcquireRefusal::LeaseOver if !tried.is_over => SeveralTurn::OneByOne,
            why => SeveralTurn::Refused(why),
        }
    }

    /// The command for several keys was answered or failed. Returns how the call goes on, and whether
    /// the server may have something of it that nobody takes.
    pub(crate) fn several_answered<'a>(
        &self,
        sent: impl Iterator<Item = &'a SentAcquire>,
        answer: Result<AcquiredAll, AttemptFault<H::Error>>,
        tried: SeveralTry,
        now: Moment,
    ) -> (SeveralTurn<H::Error>, bool) {
        let turn = match answer {
            Ok(AcquiredAll::All { time, epochs, left }) => {
                let grant = |(sent, epoch): (&SentAcquire, u64)| match left {
                    None => Grant::at_once(sent.at, sent.command.lease.get(), epoch, time),
                    Some(left) => Grant::in_turn(sent.at, left, epoch, time),
                };
                SeveralTurn::Take(sent.zip(epochs).map(grant).collect())
            }
            Ok(AcquiredAll::Not { at, busy }) => self.not_free(at, &busy, tried, now),
            Ok(AcquiredAll::Late { .. }) => SeveralTurn::OneByOne,
            Err(fault) => {
                let is_open = fault.is_open;
                return (after(fault, tried), is_open);
            }
        };
        (turn, false)
    }

    fn not_free(
        &self,
        at: usize,
        busy: &Busy,
        tried: SeveralTry,
        now: Moment,
    ) -> SeveralTurn<H::Error> {
        // What a set holds, a key without a time to live, and what this pool has there itself take
        // an acquire to tell why.
        let letter = entry::letter_of(&busy.value);
        let is_exclusive = letter.is_none_or(|letter| letter == Letter::Exclusive);
        if tried.is_over
            && is_exclusive
            && self.is_held(busy, now)
            && let InTheWay::Somebody { holder, left } = in_the_way(busy)
        {
            return SeveralTurn::Busy { at, holder, left };
        }
        SeveralTurn::OneByOne
    }
}

fn after<E>(fault: AttemptFault<E>, tried: SeveralTry) -> SeveralTurn<E> {
    if fault.is_elsewhere && !tried.is_second {
        SeveralTurn::Again
    } else if fault.is_moving || (fault.may_pass && !tried.is_over) {
        // One by one they wait in their queues, for a pause and for a pending clean-up.
        SeveralTurn::OneByOne
    } else {
        SeveralTurn::Refused(AcquireRefusal::Server(fault.error))
    }
}
