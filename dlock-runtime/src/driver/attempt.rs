//! One acquire on its way: what is sent, what happens if its answer is never read, and how a refusal
//! is worded.
//!
//! Invariant: from before it is sent until it is settled, the watchdog knows an acquire's token.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::core::Core;
use crate::backend::Link;
use crate::backend::command_error::CommandError;
use crate::client::queue_key::QueueKey;
use crate::client::spec::AcquireSpec;
use crate::client::tokens::Standing;
use crate::client::{AcquireAnswer, AcquireRefusal, AttemptFault, Heard, SentAcquire};
use crate::policy::commands::{Acquire, Acquired, Busy, Claim};
use crate::policy::queue;
use crate::values::about::About;
use crate::values::entry::{self, There};
use crate::values::error::{LockError, Reason, Refusal};
use crate::values::kind::Kind;
use crate::values::moment::Moment;

/// What a queue's sender or a try past the queue was answered.
pub(super) type Answer = AcquireAnswer<CommandError>;

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
    let about = About {
        host: core.holder_name(),
        pid: token.pid(),
        function: &spec.site.name(),
        since: SystemTime::now(),
    };
    let address = link.address().map_or("", |address| address);
    let claim = Claim {
        key: spec.name().clone(),
        value: entry::write(&spec.kind, token, address, lease, &about),
        queues,
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

/// The answer to an acquire, as the machine reads it.
pub(super) fn landed(sent: &SentAcquire, answer: Result<Acquired, CommandError>) -> Answer {
    answer.map(|it| sent.landed(it)).map_err(fault)
}

/// What an error means for the machine.
pub(super) fn fault(error: CommandError) -> AttemptFault<CommandError> {
    AttemptFault {
        is_open: error.leaves_open(),
        may_pass: error.may_pass(),
        is_elsewhere: matches!(error, CommandError::Elsewhere(_)),
        is_answered: !matches!(error, CommandError::Unsent(_) | CommandError::Unclear(_)),
        error,
    }
}

/// What the reader of an answer knows about its connection.
pub(super) fn heard(core: &Core, link: &Arc<dyn Link>, answer: &Answer, now: Moment) -> Heard {
    let is_open = match answer {
        Ok(landed) => landed.leaves_open() == Some(true),
        Err(fault) => fault.is_open,
    };
    let follows = is_open.then(|| core.watchdog().cancelled_by(link, now));
    Heard {
        is_told: link.address().is_some(),
        follows: follows.flatten(),
    }
}

/// Nobody will read the answer to an acquire: it is cleaned up after. `queue_key`: the local queue
/// that it was sent for.
pub(super) fn unread(
    core: &Arc<Core>,
    queue_key: Option<&QueueKey>,
    sent: &SentAcquire,
    link: &Arc<dyn Link>,
) {
    let now = core.now();
    let open = (true, core.watchdog().cancelled_by(link, now));
    if core.tell(now, |client, at| client.ended(queue_key, sent, open, at)) {
        cancel_behind(core, sent, link);
    }
}

/// Sends a `cancel` behind an acquire, on its own connection.
pub(super) fn cancel_behind(core: &Arc<Core>, sent: &SentAcquire, link: &Arc<dyn Link>) {
    let Acquire {
        claim, not_after, ..
    } = &sent.command;
    (core.watchdog()).cancel_behind(sent.token, claim.clone(), *not_after, link.clone());
}

/// An acquire outside any queue, until its answer is read. If it is dropped before, the watchdog
/// cleans up after its token.
pub(super) struct OpenAttempt<'a> {
    core: &'a Arc<Core>,
    sent: &'a SentAcquire,
    link: &'a Arc<dyn Link>,
    is_settled: bool,
}

impl<'a> OpenAttempt<'a> {
    /// It is about to be sent.
    pub(super) fn new(core: &'a Arc<Core>, sent: &'a SentAcquire, link: &'a Arc<dyn Link>) -> Self {
        core.tell(sent.at, |client, _| client.sending_alone(sent));
        Self {
            core,
            sent,
            link,
            is_settled: false,
        }
    }

    /// Reads the answer, and settles what the acquire may have left at the server. The caller takes
    /// over the token of what was granted.
    pub(super) fn read(self, answer: Result<Acquired, CommandError>) -> Answer {
        let answer = landed(self.sent, answer);
        let is_open = match &answer {
            Ok(landed) => landed.leaves_open(),
            Err(fault) => Some(fault.is_open),
        };
        match is_open {
            None => self.answered(),
            Some(false) => self.created_nothing(),
            Some(true) => {} // its drop cleans up
        }
        answer
    }

    /// It created something at the server; the code that reads the answer takes over the token.
    pub(super) fn answered(mut self) {
        self.is_settled = true;
    }

    pub(super) fn created_nothing(mut self) {
        self.is_settled = true;
        let (core, sent) = (self.core, self.sent);
        core.tell(core.now(), |client, at| {
            client.ended(None, sent, (false, None), at)
        });
    }
}

impl Drop for OpenAttempt<'_> {
    fn drop(&mut self) {
        if !self.is_settled && !self.core.is_inherited() {
            unread(self.core, None, self.sent, self.link);
        }
    }
}

/// What the value in the way means in this pool; `None`: it is not this pool's.
pub(super) fn standing(core: &Core, busy: &Busy) -> Option<Standing> {
    let ours = core.token_in(&busy.value)?;
    let now = core.now();
    Some(core.tell(now, |client, _| client.standing(ours, now)))
}

/// Whether somebody has the lock by the value in the way. Otherwise it is this pool's own: an
/// attempt, or a hold that has ended, of which nothing may be left a moment later.
pub(super) fn is_held(core: &Core, busy: &Busy) -> bool {
    standing(core, busy).is_none_or(|it| it == Standing::Holds)
}

/// How the local queue's attempts failed last since the call began, if they did.
pub(super) fn own_end(
    core: &Core,
    spec: &AcquireSpec,
    begun: Moment,
) -> Option<AcquireRefusal<CommandError>> {
    core.tell(begun, |client, _| {
        client.failed_since(&spec.queue_key, begun)
    })
}

/// Why a call for this lock does not get it.
pub(super) fn refusal(
    core: &Core,
    spec: &AcquireSpec,
    why: AcquireRefusal<CommandError>,
) -> LockError {
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
        AcquireRefusal::ShutDown => return None,
        AcquireRefusal::Server(error) => return Some(error),
        AcquireRefusal::LeaseOver => {
            let why = "the lease was over before its grant arrived";
            return Some(CommandError::Unclear(Reason::new(why)));
        }
        AcquireRefusal::ClockAhead => {
            let why = "the server's clock runs ahead by leaps";
            return Some(CommandError::Unsent(Reason::new(why)));
        }
        AcquireRefusal::Unsettled => {
            return Some(CommandError::Unsettled(Reason::new(
                "what this process asked for before, or held, stands at the key, and the server has not said what became of it",
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
