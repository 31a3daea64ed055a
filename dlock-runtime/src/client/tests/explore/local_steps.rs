//! The steps and states for exploring the waiters of one process; what is sent and answered there.

use std::time::Duration;

use super::host::{ModelRequest, queue_key, unclear};
use crate::client::answers::Landed;
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::local_queue::{Grant, WaiterId};
use crate::client::tokens::Attempt;
use crate::client::{
    AcquireAnswer, AttemptFault, ClientHost, ClientWaker, LeaderEpoch, SentAcquire,
};
use crate::rules::commands::{Acquire, Acquired, Busy, Claim, Left, Polled};
use crate::values::bounds::Bounds;
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::{Margin, Ttl};

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
    /// `None`: it connects.
    pub(super) sent: Option<SentAcquire>,
}

/// A leader's task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LeaderTask {
    Ready,
    Connecting,
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
    /// A waiter's own acquire has connected, or could not (`false`).
    OwnConnected(usize, bool),
    /// The answer to it.
    OwnAnswer(usize, Answer),
    Lead(LeaderEpoch),
    /// The same of a leader's acquire.
    Connected(LeaderEpoch, bool),
    /// The answer to a leader's command.
    Answer(LeaderEpoch, Answer),
    Push,
    /// A push says only that something happened.
    Hint,
    Disconnected,
    Tick,
    /// From here on nothing goes wrong, and whatever is needed for that is there.
    Calm,
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
    /// It sends although it was told not to.
    ThatItMayNotSend,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LocalHost;

/// Who is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LocalWaker {
    Waiter(usize),
    Leader(LeaderEpoch),
}

impl ClientHost for LocalHost {
    type Waker = LocalWaker;
    type Flight = ();
    type Holder = Token;
    type Request = ModelRequest;
    type Error = ();

    fn holder(&self, _: &ModelRequest, attempt: Attempt, _: &Lease) -> Token {
        attempt.token
    }

    fn token_in(&self, _: &str) -> Option<Token> {
        None // another process has it, if it isn't free
    }

    fn terms(request: &ModelRequest) -> &LeaseTerms {
        &request.terms
    }

    fn kind(_: &ModelRequest) -> &Kind {
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

/// Longer than a turn, shorter than three ticks.
pub(super) const LEASE: Duration = Duration::from_millis(2500);

pub(super) fn request(who: usize) -> ModelRequest {
    let terms = LeaseTerms {
        ttl: Ttl::new(LEASE).expect("in range"),
        renew: None,
        bounds: Bounds::default(),
        margin: Margin::DEFAULT,
    };
    ModelRequest { who, terms }
}

pub(super) fn sent(number: u64, at: Moment) -> SentAcquire {
    SentAcquire {
        token: Token::of_test(number),
        command: Acquire {
            claim: Claim {
                is_once: false,
                key: queue_key().key().clone(),
                value: number.to_string().into(),
                queues: true,
            },
            lease: Ttl::new(LEASE).expect("in range"),
            not_after: 0,
            repair_missing_ttl: None,
        },
        at,
        give_up: Moment::NEVER,
    }
}

pub(super) fn landed(sent: &SentAcquire, answer: Answer) -> AcquireAnswer<()> {
    let (time, epoch) = (1, 1);
    match answer {
        Answer::Granted => Ok(Landed::Granted(Grant::in_turn(sent.at, LEASE, epoch, time))),
        Answer::Queued => Ok(sent.landed(Acquired::Queued(others()))),
        Answer::Nothing => Ok(sent.landed(Acquired::Late { time })),
        Answer::Unclear => Err(unclear(true)),
        Answer::Refused => Err(AttemptFault {
            may_pass: false,
            ..unclear(false)
        }),
    }
}

pub(super) fn polled(answer: Answer) -> Result<Polled, AttemptFault<()>> {
    let (time, epoch) = (1, 1);
    match answer {
        Answer::Granted => Ok(Polled::Yours {
            time,
            epoch,
            left: LEASE,
        }),
        Answer::Queued => Ok(Polled::Queued(others())),
        Answer::Nothing => Ok(Polled::Gone { time }),
        Answer::Unclear => Err(unclear(true)),
        Answer::Refused => Err(AttemptFault {
            may_pass: false,
            ..unclear(false)
        }),
    }
}

/// Another process has it.
fn others() -> Busy {
    Busy {
        time: 1,
        left: Left::For(LEASE),
        value: "another".to_owned(),
    }
}

pub(super) fn number(token: Token) -> u64 {
    (1..=20)
        .find(|number| Token::of_test(*number) == token)
        .expect("a token of this model")
}
