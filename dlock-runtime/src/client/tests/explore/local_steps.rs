//! The steps and states for exploring the waiters of one process.

use crate::client::lease::{Lease, LeaseTerms};
use crate::client::local_queue::{Attempt, WaiterId};
use crate::client::{ClientHost, ClientWaker, LeaderEpoch, SentAcquire};
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::token::Token;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waiter {
    Out,
    In {
        waiter_id: WaiterId,
        woken: bool,
        own: Option<OwnAcquire>,
    },
    Holds(Token),
    /// It has left, and its acquire is still to be dropped. `inherited`: others waited then.
    Leaving {
        own: OwnAcquire,
        inherited: bool,
    },
    Gone,
}

/// The first acquire, which its waiter sends itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnAcquire {
    pub(super) by: LeaderEpoch,
    pub(super) sent: SentAcquire,
}

/// A leader's task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LeaderTask {
    Ready,
    Acquiring(SentAcquire),
    Polling(Attempt),
    Sleeping { until: Moment, woken: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TokenEnd {
    Taken,
    CleanedUp,
    /// The server has nothing of it.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Enter(usize),
    Look(usize),
    Leave(usize),
    /// The rest of its future is dropped.
    Dropped(usize),
    /// A holder is done, and gives its lock back.
    Release(usize),
    /// The answer to a waiter's own acquire.
    OwnAnswer(usize, Answer),
    Lead(LeaderEpoch),
    /// The answer to a leader's command.
    Answer(LeaderEpoch, Answer),
    Push,
    /// A push says only that something happened.
    Hint,
    Disconnected,
    Tick,
    RuntimeEnds(LeaderEpoch),
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Queued,
    Granted,
    Nothing,
    Unclear,
    /// A permanent refusal.
    Refused,
}

/// A driver that forgets what the machine has told it, or to tell the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgets {
    Nothing,
    ToWakeWaiters,
    ToWakeTheLeader,
    ToMoveTheFirstAcquire,
    ToStartTheLeader,
    ToSayThatTheLeaderIsGone,
    ToSayThatNobodyReadsTheAnswer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LocalHost;

/// Who is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LocalWaker {
    Waiter(usize),
    Leader(LeaderEpoch),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LocalRequest {
    pub(super) who: usize,
    pub(super) terms: LeaseTerms,
}

impl ClientHost for LocalHost {
    type Waker = LocalWaker;
    type Flight = ();
    type Holder = Token;
    type Request = LocalRequest;
    type Error = ();

    fn holder(&self, _: &LocalRequest, attempt: Attempt, _: &Lease) -> Token {
        attempt.token
    }

    fn terms(request: &LocalRequest) -> &LeaseTerms {
        &request.terms
    }

    fn kind(_: &LocalRequest) -> &Kind {
        &Kind::Exclusive
    }
}

impl ClientWaker for LocalWaker {
    type Source = LocalWaker;

    fn of(source: &LocalWaker) -> Self {
        *source
    }

    fn will_wake(&self, source: &LocalWaker) -> bool {
        self == source
    }
}
