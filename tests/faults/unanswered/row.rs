//! A row: which call is made, which fault meets its request, what happens then, and what comes of
//! it.

use std::ops::RangeInclusive;
use std::time::Duration;

use dlock_harness::Action;

use crate::lab::{CAP, COMMAND};

/// What a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// A lock, in a single try.
    Try,
    /// A lock, with a wait.
    Wait,
    /// The release of a guard.
    Release,
    /// A question of a guard, whether its lock is held.
    Verify,
    /// A longer lease.
    Extend,
    /// A guarded write.
    Write,
    /// A body that ends at once, and then its release.
    Run,
    /// The same, with a release in the background.
    RunInBackground,
    /// A body without end.
    Body,
    /// A guard that is kept for ever.
    Keep,
    /// Two locks, in a single try.
    Several,
    /// The same, fairly.
    SeveralInTurn,
}

/// Who calls, and what dropping its calls means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A task, which is aborted.
    Task,
    /// A runtime, which drops its tasks where it is dropped.
    CurrentThread,
    /// A runtime, which drops them on its threads.
    MultiThread,
    /// The same, in the background.
    Background,
    CurrentThreadInBackground,
    /// A current-thread runtime, which is not run any more once it has dropped them.
    Undriven,
}

/// A request on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    Acquire,
    AcquireAll,
    Release,
    Renew,
    /// A key is read.
    Read,
    Write,
    /// Of a clean-up.
    Cancel,
    /// One for several callers.
    Batch,
}

/// What happens once the fault was seen, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The calls have ended; without this step, only after all others.
    Ended,
    /// The callers drop their calls.
    Goes,
    /// Every second caller does.
    HalfGo,
    /// The key is there.
    There,
    NotThere,
    /// The call waits in the queue.
    Queued,
    /// Another process takes the lock.
    Next,
    /// Who has the lock has it still, and releases it.
    Undisturbed,
    /// All connections are reset.
    CutAll,
    /// The last moment of a request passes, and each first clean-up with it.
    LastMoment,
    /// A clean-up reaches the server, or a release that is repeated.
    CleanUp,
    /// Clean-ups are repeated, again and again.
    CleanUps,
    /// What is held back arrives.
    Deliver,
    /// The stopped server goes on.
    Continue,
    /// The request is executed.
    Executed,
    /// It creates the key.
    Created,
    /// The calls used a new connection.
    Replaced,
    /// Other leases are renewed for several periods.
    Periods,
    /// The guarded write is applied, once.
    Written,
    /// Not at all.
    Unwritten,
}

/// What the call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// Another caller has the lock, or the last of several.
    Held,
    /// The server is stopped.
    Stopped,
}

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// `Unavailable`, within its timeout; or as usual, if the whole answer was let through.
    Unclear,
    /// With a lock, soon, that stays.
    Had,
    /// As freed, or `Unavailable`, within its timeout; of many, also as not held.
    Told,
    /// As freed, within its timeout.
    Freed,
    /// As usual, if it can be, or `Unavailable`, within its timeout; the lock is held as before.
    Kept,
    /// With the body's value, within its timeout.
    Value,
    /// With an error, within its timeout.
    Failed,
    /// Not at all: its caller has gone.
    Never,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) call: Call,
    /// Each in turn.
    pub(super) kinds: &'static [&'static str],
    pub(super) callers: usize,
    /// Each in turn.
    pub(super) from: &'static [Caller],
    pub(super) before: Before,
    /// The lease is renewed, and the fault meets the first renewal, or the release.
    pub(super) is_renewed: bool,
    pub(super) at_release: bool,
    pub(super) lease: Option<Duration>,
    pub(super) command_timeout: Duration,
    /// Each in turn, at the first request of the call.
    pub(super) faults: &'static [Action],
    /// And this one, at each clean-up.
    pub(super) at_clean_ups: Option<Action>,
    pub(super) then: &'static [Step],
    pub(super) ends: Ends,
    /// Nothing was created at any time; otherwise, nothing stays.
    pub(super) creates_nothing: bool,
}

impl Row {
    pub(super) const fn of(call: Call, faults: &'static [Action], ends: Ends) -> Self {
        Self {
            call,
            kinds: &["x"],
            callers: 1,
            from: &[Caller::Task],
            before: Before::Nothing,
            is_renewed: false,
            at_release: false,
            lease: None,
            command_timeout: COMMAND,
            faults,
            at_clean_ups: None,
            then: &[],
            ends,
            creates_nothing: false,
        }
    }

    pub(super) const fn each(self, kinds: &'static [&'static str]) -> Self {
        Self { kinds, ..self }
    }

    pub(super) const fn from(self, from: &'static [Caller]) -> Self {
        Self { from, ..self }
    }

    pub(super) const fn behind_a_holder(self) -> Self {
        let before = Before::Held;
        Self { before, ..self }
    }

    pub(super) const fn renewed(self) -> Self {
        let is_renewed = true;
        Self { is_renewed, ..self }
    }

    pub(super) const fn at_its_release(self) -> Self {
        let at_release = true;
        Self { at_release, ..self }
    }

    /// So many callers, whose requests are sent together. A cut is noticed at once, so nothing has
    /// to time out.
    pub(super) const fn together(self) -> Self {
        let command_timeout = Duration::from_secs(5);
        Self {
            callers: 24, // two are sent by themselves, the others in two commands
            command_timeout,
            ..self
        }
    }

    /// A timeout that leaves time for the steps.
    pub(super) const fn leisurely(self, command_timeout: Duration) -> Self {
        Self {
            command_timeout,
            ..self
        }
    }

    /// A timeout that does not end.
    pub(super) const fn in_time(self) -> Self {
        self.leisurely(CAP)
    }

    pub(super) const fn lease(self, lease: Duration) -> Self {
        let lease = Some(lease);
        Self { lease, ..self }
    }

    pub(super) const fn at_clean_ups(self, action: Action) -> Self {
        let at_clean_ups = Some(action);
        Self {
            at_clean_ups,
            ..self
        }
    }

    pub(super) const fn at_a_stopped_server(self) -> Self {
        let before = Before::Stopped;
        Self { before, ..self }
    }

    pub(super) const fn then(self, then: &'static [Step]) -> Self {
        Self { then, ..self }
    }

    pub(super) const fn creates_nothing(self) -> Self {
        let creates_nothing = true;
        Self {
            creates_nothing,
            ..self
        }
    }

    /// The request that the fault meets.
    pub(super) fn frame(&self) -> Frame {
        match self.call {
            _ if self.callers > 1 => Frame::Batch,
            _ if self.is_renewed && !self.at_release => Frame::Renew,
            Call::Several => Frame::AcquireAll,
            Call::Verify => Frame::Read,
            Call::Extend => Frame::Renew,
            Call::Write => Frame::Write,
            Call::Release | Call::Run | Call::RunInBackground => Frame::Release,
            _ => Frame::Acquire,
        }
    }

    /// How often the item is created.
    pub(super) fn lives(&self) -> RangeInclusive<usize> {
        match self.before {
            Before::Held => 1..=2, // a waiter that goes may just be granted it
            _ if self.then.contains(&Step::Next) => 2..=2,
            _ if self.then.contains(&Step::Executed) => 0..=1, // in time or not
            _ => 1..=1,
        }
    }
}
