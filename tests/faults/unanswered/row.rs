//! A row: which call is made, which fault meets its request, what happens then, and what comes of
//! it.

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
}

/// A request on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    Acquire,
    Release,
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
    /// All connections are reset.
    CutAll,
    /// The last moment of a request passes, and each first clean-up with it.
    LastMoment,
    /// A clean-up reaches the server.
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
}

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// `Unavailable`, within its timeout; or as usual, if the whole answer was let through.
    Unclear,
    /// With a lock, soon, that stays.
    Had,
    /// As freed, as not held, or `Unavailable`.
    Told,
    /// Not at all: its caller has gone.
    Never,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) call: Call,
    /// Each in turn.
    pub(super) kinds: &'static [&'static str],
    pub(super) callers: usize,
    pub(super) lease: Option<Duration>,
    pub(super) command_timeout: Duration,
    /// Each in turn, at the first request of the call.
    pub(super) faults: &'static [Action],
    /// And this one, at each clean-up.
    pub(super) at_clean_ups: Option<Action>,
    /// The server is stopped before the call.
    pub(super) is_stopped: bool,
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
            lease: None,
            command_timeout: COMMAND,
            faults,
            at_clean_ups: None,
            is_stopped: false,
            then: &[],
            ends,
            creates_nothing: false,
        }
    }

    pub(super) const fn each(self, kinds: &'static [&'static str]) -> Self {
        Self { kinds, ..self }
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
        let is_stopped = true;
        Self { is_stopped, ..self }
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
            Call::Try | Call::Wait => Frame::Acquire,
            Call::Release => Frame::Release,
        }
    }
}
