//! One acquire on its way: what is sent, what happens if its answer is never read, and how a refusal
//! is worded.
//!
//! Invariant: from before it is sent until it is settled, the watchdog knows an acquire's token.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::core::Core;
use crate::client::spec::AcquireSpec;
use crate::client::{AcquireAnswer, AcquireRefusal, AttemptFault, Heard, SentAcquire, leaves_open};
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::rules::commands::{Acquire, Acquired, Busy, Claim};
use crate::rules::queue;
use crate::values::about::About;
use crate::values::bounds::OncePer;
use crate::values::entry::{self, There};
use crate::values::error::{LockError, Reason, Refusal};
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::record::LastRun;

/// What a queue's sender or a try past the queue was answered.
pub(super) type AttemptAnswer = AcquireAnswer<CommandError>;

/// Prepares an acquire that is sent at once. `queues`: it waits in the server's queue if the lock is
/// not free.
pub(super) fn prepare(
    core: &Arc<Core>,
    spec: &AcquireSpec,
    link: &Arc<dyn Link>,
    queues: bool,
    (now, within): (Moment, Duration),
) -> SentAcquire {
    let token = core.tokens().draw();
    let lease = spec.terms.lease();
    let once_per = spec.terms.bounds.once_per.map(OncePer::period);
    let about = About {
        host: core.holder_name(),
        pid: token.pid(),
        function: &spec.site.name(),
        since: SystemTime::now(),
    };
    let address = link.address().map_or("", |address| address);
    let claim = Claim {
        key: spec.name().clone(),
        value: entry::write(&spec.kind, token, address, (lease, once_per), &about),
        queues,
        is_once: once_per.is_some(),
    };
    let command = Acquire {
        claim,
        lease,
        not_after: link.not_after(now, within, lease),
        repair_missing_ttl: core.settings().repair_missing_ttl,
    };
    let give_up = now.plus(within + queue::longest_stay(lease.get()));
    SentAcquire {
        token,
        command,
        at: now,
        give_up,
    }
}

/// A connection for an attempt; when it begins, and how long it may take: connecting and sending end
/// by `until`.
pub(super) async fn link_until(
    core: &Core,
    spec: &AcquireSpec,
    until: Moment,
) -> Result<(Arc<dyn Link>, (Moment, Duration)), CommandError> {
    let now = core.now();
    let connect = core.settings().connect_timeout.min(now.until(until));
    let (link, now) = core.backend().link_at(now, spec.name(), connect).await?;
    let left = now.until(until).max(Duration::from_millis(1));
    Ok((link, (now, left.min(spec.terms.validity()))))
}

/// What an error means for the machine.
pub(super) fn fault(error: CommandError) -> AttemptFault<CommandError> {
    AttemptFault {
        is_open: error.leaves_open(),
        may_pass: error.may_pass(),
        is_elsewhere: matches!(error, CommandError::Elsewhere(_)),
        is_moving: matches!(error, CommandError::Moving(_)),
        is_answered: !matches!(
            error,
            CommandError::Unsent(_) | CommandError::NoLogin(_) | CommandError::Unclear(_)
        ),
        error,
    }
}

/// An acquire on its way, until its answer is told. Dropped before that, it tells that nobody will
/// read the answer, and what it may have left at the server is cleaned up.
pub(super) struct OpenAttempt {
    core: Arc<Core>,
    /// For a local queue: the request that leads it.
    queue: Option<Arc<AcquireSpec>>,
    pub(super) sent: SentAcquire,
    pub(super) link: Arc<dyn Link>,
    is_settled: bool,
}

impl OpenAttempt {
    /// It is about to be sent, for no queue.
    ///
    /// # Errors
    /// If the pool was shut down while its call connected.
    pub(super) fn alone(
        core: &Arc<Core>,
        sent: SentAcquire,
        link: Arc<dyn Link>,
    ) -> Result<Self, LockError> {
        let is_open = core.tell(sent.at, |client, _| client.sending_alone(&sent));
        let it = || Self::new(core, None, sent, link);
        is_open.then(it).ok_or(LockError::ShutDown)
    }

    /// It is about to be sent for this queue, which has been told.
    pub(super) fn of_queue(
        core: &Arc<Core>,
        queue: &Arc<AcquireSpec>,
        sent: SentAcquire,
        link: Arc<dyn Link>,
    ) -> Self {
        Self::new(core, Some(queue.clone()), sent, link)
    }

    fn new(
        core: &Arc<Core>,
        queue: Option<Arc<AcquireSpec>>,
        sent: SentAcquire,
        link: Arc<dyn Link>,
    ) -> Self {
        Self {
            core: core.clone(),
            queue,
            sent,
            link,
            is_settled: false,
        }
    }

    /// Reads its answer.
    pub(super) fn landed(&self, answer: Result<Acquired, CommandError>) -> AttemptAnswer {
        answer.map(|it| self.sent.landed(it)).map_err(fault)
    }

    /// What the reader of its answer knows about its connection.
    pub(super) fn heard(&self, answer: &AttemptAnswer, now: Moment) -> Heard {
        let follows = (leaves_open(answer) == Some(true)).then(|| self.cancelled_by(now));
        Heard {
            is_told: self.link.address().is_some(),
            follows: follows.flatten(),
        }
    }

    /// The answer has been told; a `cancel` follows the acquire if the machine wants that.
    pub(super) fn settle(&mut self, cancels_behind: bool) {
        self.is_settled = true;
        if cancels_behind {
            self.cancel_behind();
        }
    }

    /// It created nothing at the server.
    pub(super) fn created_nothing(mut self) {
        self.is_settled = true;
        let nothing = (false, None);
        (self.core).tell(self.core.now(), |client, told| {
            client.ended(None, &self.sent, nothing, told)
        });
    }

    fn cancelled_by(&self, now: Moment) -> Option<Moment> {
        self.core.watchdog().cancelled_by(&self.link, now)
    }

    /// Sends a `cancel` behind it, on its own connection.
    fn cancel_behind(&self) {
        let Acquire {
            claim, not_after, ..
        } = &self.sent.command;
        let (token, link) = (self.sent.token, self.link.clone());
        (self.core.watchdog()).cancel_behind(token, claim.clone(), *not_after, link);
    }
}

impl Drop for OpenAttempt {
    fn drop(&mut self) {
        if self.is_settled || self.core.is_inherited() {
            return;
        }
        let queue_key = self.queue.as_ref().map(|it| &it.queue_key);
        let now = self.core.now();
        let open = (true, self.cancelled_by(now));
        if (self.core).tell(now, |client, told| {
            client.ended(queue_key, &self.sent, open, told)
        }) {
            self.cancel_behind();
        }
    }
}

/// Whether somebody has the lock by the value in the way, and not this pool by something that ends.
pub(super) fn is_held(core: &Core, busy: &Busy) -> bool {
    let now = core.now();
    core.ask(|client| client.is_held(busy, now))
}

/// Why a call for this lock does not get it.
pub(super) fn refusal(
    core: &Core,
    spec: &AcquireSpec,
    why: AcquireRefusal<CommandError>,
) -> LockError {
    if let AcquireRefusal::NotDue(it) = why {
        return LockError::NotDue {
            key: spec.key.clone(),
            last_run: Box::new(LastRun::of(&it.record, it.time, it.left)),
        };
    }
    match in_words(spec, why) {
        Some(error) => core.error(error, Some(&spec.key)),
        None => LockError::ShutDown,
    }
}

/// `None`: the pool is shut down.
pub(super) fn in_words(
    spec: &AcquireSpec,
    why: AcquireRefusal<CommandError>,
) -> Option<CommandError> {
    let (refusal, why) = match why {
        // A job that is not due has words of its own, and one key.
        AcquireRefusal::ShutDown | AcquireRefusal::NotDue(_) => return None,
        AcquireRefusal::Server(error) => return Some(error),
        AcquireRefusal::LeaseOver => {
            let why = "the lease was over before its grant arrived";
            return Some(CommandError::Unclear(Reason::new(why)));
        }
        AcquireRefusal::TooLate => return Some(CommandError::too_late()),
        AcquireRefusal::Unsettled => {
            return Some(CommandError::Unsettled(Reason::new(
                "an earlier attempt or hold of this process is stored at the key, and the server has not reported its outcome",
            )));
        }
        AcquireRefusal::Endless => (Refusal::NoTtl, Reason::new("PTTL of the key is -1")),
        AcquireRefusal::Layout => (
            Refusal::Layout,
            Reason::new("the value's layout version is not 1"),
        ),
        AcquireRefusal::WrongKind(there) => (Refusal::WrongKind, wrong_kind(spec, &there)),
    };
    Some(CommandError::Refused(refusal, why))
}

/// Two kinds were asked for at one key; waiting does not resolve that.
fn wrong_kind(spec: &AcquireSpec, there: &str) -> Reason {
    let (ours, theirs) = (&spec.kind, There::read(there));
    let one_owner = match (ours, &theirs.kind) {
        (Kind::Owned(_), Some(Kind::Exclusive)) => true,
        (Kind::Exclusive, Some(Kind::Owned(_))) => spec.reentrant,
        _ => false,
    };
    let hint = if one_owner {
        "; `reentrant` with an `owner` and without are two kinds, so where one is inside the other say the same `owner` at both"
    } else {
        ""
    };
    Reason::new(format_args!(
        "asked for {ours}, and there is {theirs}{hint}"
    ))
}
