//! The steps and states for exploring the local queue alone.

use crate::client::local_queue::WaiterId;
use crate::values::moment::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waiter {
    Out,
    In { waiter_id: WaiterId, woken: bool },
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Leader {
    None,
    Running,
    Acquiring(u64),
    Polling(u64),
    Sleeping(Moment),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    Taken,
    CleanedUp,
    /// The server has nothing of it.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Enter(usize),
    Check(usize),
    Leave(usize),
    Lead,
    Answer(Answer),
    Push,
    /// A push that says only that something happened: the leader polls now.
    FlushEarly,
    Tick,
    RuntimeEnds,
    /// The holder gives its lock back.
    Left(u64),
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

/// An engine that forgets a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgets {
    Nothing,
    ToNotifyWhenTaken,
    ToWakeTheNextWhenOneLeaves,
    ToWakeAllWhenTheRuntimeEnds,
    ToWakeTheFirstWhenGranted,
    ToSayThatTheLeaderIsGone,
}
