//! One acquire on its way: what is sent, what happens if its answer never comes, and why a lock is
//! not ours.
//!
//! Invariant: from before it is sent until it is settled, the watchdog knows an acquire's token.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::core::Core;
use crate::backend::Link;
use crate::backend::command_error::CommandError;
use crate::client::local_queue::{Attempt, Grant};
use crate::client::queue_key::QueueKey;
use crate::client::spec::AcquireSpec;
use crate::client::tokens::Standing;
use crate::policy::commands::{Acquire, Acquired, Busy, Claim, Left, NoQuorum};
use crate::policy::queue;
use crate::values::about::About;
use crate::values::entry::{self, There};
use crate::values::error::{Reason, Refusal};
use crate::values::holder::{self, Holder, Reading};
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// An acquire that is about to be sent.
pub(super) struct SentAcquire {
    pub(super) token: Token,
    pub(super) command: Acquire,
    pub(super) at: Moment,
    /// After this time nothing of it can be left on the server.
    give_up: Moment,
}

impl SentAcquire {
    /// Prepares an acquire that is sent at once. `queues`: it waits in the server's queue if the
    /// lock is not free.
    pub(super) fn prepare(
        core: &Arc<Core>,
        spec: &AcquireSpec,
        link: &Arc<dyn Link>,
        queues: bool,
        (now, within): (Moment, Duration),
    ) -> Self {
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
        Self {
            token,
            command,
            at: now,
            give_up,
        }
    }

    pub(super) fn attempt(&self) -> Attempt {
        Attempt {
            token: self.token,
            claim: self.command.claim.clone(),
        }
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

/// An acquire without an answer yet. If it is dropped unsettled, the watchdog cleans up after its
/// token.
pub(super) struct OpenAttempt<'a> {
    core: &'a Arc<Core>,
    sent: &'a SentAcquire,
    link: &'a Arc<dyn Link>,
    /// The local queue that it was sent for.
    queue_key: Option<&'a QueueKey>,
    settled: bool,
}

impl<'a> OpenAttempt<'a> {
    pub(super) fn new(
        core: &'a Arc<Core>,
        sent: &'a SentAcquire,
        link: &'a Arc<dyn Link>,
        queue_key: Option<&'a QueueKey>,
    ) -> Self {
        Self {
            core,
            sent,
            link,
            queue_key,
            settled: false,
        }
    }

    /// Reads the answer, and settles what the acquire may have left at the server. The caller takes
    /// over the token of what was granted or queued.
    pub(super) fn read(
        self,
        spec: &AcquireSpec,
        answer: Result<Acquired, CommandError>,
    ) -> Result<Landed, CommandError> {
        let sent = self.sent;
        match answer {
            Ok(Acquired::Granted { time, epoch }) => {
                self.answered();
                let lease = sent.command.lease.get();
                let grant = Grant::at_once(sent.at, lease, epoch, time);
                Ok(Landed::Granted(grant))
            }
            Ok(Acquired::Yours { time, epoch, left }) => {
                self.answered();
                Ok(Landed::Granted(Grant::in_turn(sent.at, left, epoch, time)))
            }
            Ok(Acquired::Queued(busy)) if sent.command.claim.queues => {
                self.answered();
                Ok(Landed::Taken(Occupied::Queued(busy)))
            }
            Ok(Acquired::Busy(busy) | Acquired::Queued(busy)) => {
                self.created_nothing();
                Ok(Landed::Taken(Occupied::Nothing(busy)))
            }
            Ok(Acquired::NoQuorum(answer)) => {
                self.refused(answer.is_open);
                Ok(Landed::Taken(Occupied::NoQuorum(answer)))
            }
            Ok(Acquired::Late { .. }) => {
                self.created_nothing();
                Ok(Landed::Late)
            }
            Ok(Acquired::WrongKind { there, is_open, .. }) => {
                self.refused(is_open);
                Ok(Landed::WrongKind(wrong_kind(spec, &there)))
            }
            Err(unclear) if unclear.leaves_open() => Err(unclear), // its drop cleans up
            Err(answered) => {
                self.created_nothing();
                Err(answered)
            }
        }
    }

    /// It created something at the server; the code that reads the answer takes over the token.
    pub(super) fn answered(mut self) {
        self.settled = true;
    }

    pub(super) fn created_nothing(mut self) {
        self.settled = true;
        let Self {
            core,
            sent,
            queue_key,
            ..
        } = self;
        core.local_queues()
            .nothing_there(queue_key, sent.token, core.now());
    }

    /// The lock was not granted. `is_open`: one of several servers may have something all the same.
    fn refused(self, is_open: bool) {
        if is_open {
            drop(self); // cancels it
        } else {
            self.created_nothing();
        }
    }
}

impl Drop for OpenAttempt<'_> {
    fn drop(&mut self) {
        let Self {
            core,
            sent,
            link,
            queue_key,
            ..
        } = self;
        if self.settled || core.is_inherited() {
            return;
        }
        let now = core.now();
        let not_after = sent.command.not_after;
        let by = core.watchdog().cancelled_by(link, now);
        let abandoned = core.local_queues().abandoned(
            *queue_key,
            sent.token,
            (not_after, sent.give_up),
            by,
            now,
        );
        if abandoned {
            let claim = sent.command.claim.clone();
            core.watchdog()
                .cancel_behind(sent.token, claim, not_after, (*link).clone());
        }
    }
}

/// What an acquire led to that the server answered.
pub(super) enum Landed {
    Granted(Grant),
    Taken(Occupied),
    /// Nothing was created: the server's clock is ahead of our estimate, which the answer has
    /// corrected.
    Late,
    /// Two kinds were asked for at one key.
    WrongKind(CommandError),
}

/// What is left of an acquire that met another's lock.
pub(super) enum Occupied {
    /// It stands in the server's queue.
    Queued(Busy),
    Nothing(Busy),
    /// Some nodes may have granted it; it is being cancelled there.
    NoQuorum(Box<NoQuorum>),
}

impl Occupied {
    pub(super) fn busy(&self) -> &Busy {
        match self {
            Occupied::Queued(busy) | Occupied::Nothing(busy) => busy,
            Occupied::NoQuorum(answer) => &answer.busy,
        }
    }
}

/// Why the lock is not ours.
pub(super) enum InTheWay {
    Somebody {
        holder: Holder,
        left: Duration,
    },
    /// The key has no time to live; the program that wrote it may be about to set one.
    Endless(CommandError),
}

/// Reads a busy answer: who holds the key, or why its value can't be waited for.
pub(super) fn in_the_way(busy: &Busy) -> Result<InTheWay, CommandError> {
    if let (entry::LEFT_TO_A_WRITER, Left::For(left)) = (&*busy.value, busy.left) {
        let holder = Holder::WaitingWriter;
        return Ok(InTheWay::Somebody { holder, left });
    }
    match (holder::read(&busy.value), busy.left) {
        (Reading::UnknownLayout, _) => Err(CommandError::Refused(
            Refusal::Layout,
            Reason::new("the value's layout version is not 1"),
        )),
        (_, Left::Endless) => {
            let why = Reason::new("PTTL of the key is -1");
            Ok(InTheWay::Endless(CommandError::Refused(
                Refusal::NoTtl,
                why,
            )))
        }
        (Reading::Holder(holder), Left::For(left)) => Ok(InTheWay::Somebody { holder, left }),
    }
}

/// Whether somebody has the lock by the value in the way. Otherwise it is this pool's own: an
/// attempt, or a hold that has ended, of which nothing may be left a moment later.
pub(super) fn is_held(core: &Core, busy: &Busy) -> bool {
    let ours = core.token_in(&busy.value);
    let standing = |token| core.local_queues().standing(token, core.now());
    ours.is_none_or(|token| standing(token) == Standing::Holds)
}

/// How a call that found the lock taken goes on.
pub(super) enum BusyFinding {
    /// Another has it.
    Busy,
    /// What was in the way is gone by now.
    AskAgain,
    /// What this pool has there itself is still open when the call's time is over.
    Own(CommandError),
}

/// Finds out whether the value in the way is anybody's but this pool's own, so that no call is busy
/// because of itself. `pause`: how long the call rests before it looks, or asks, once more.
pub(super) async fn finding(
    core: &Arc<Core>,
    spec: &AcquireSpec,
    (busy, begun, until): (&Busy, Moment, Moment),
    pause: &mut Duration,
) -> BusyFinding {
    let Some(token) = core.token_in(&busy.value) else {
        return BusyFinding::Busy;
    };
    loop {
        let now = core.now();
        let standing = core.local_queues().standing(token, now);
        match standing {
            Standing::Holds => return BusyFinding::Busy,
            _ if now >= until => {
                return BusyFinding::Own(own_end(core, spec, begun).unwrap_or_else(still_there));
            }
            Standing::Open | Standing::Over => {}
        }
        if pause.is_zero() {
            tokio::task::yield_now().await; // its owner may have its answer, and not have read it
        } else {
            tokio::time::sleep((*pause).min(now.until(until))).await;
        }
        *pause = (*pause * 2).clamp(Duration::from_millis(1), Duration::from_millis(25));
        if standing == Standing::Over {
            return BusyFinding::AskAgain;
        }
    }
}

/// How the local queue's attempts failed last since the call began, if they did.
pub(super) fn own_end(core: &Core, spec: &AcquireSpec, begun: Moment) -> Option<CommandError> {
    let failed = core.local_queues().at(&spec.queue_key, |it| {
        let failed = it.queue_state.failed.as_deref();
        failed
            .filter(|(at, _)| *at >= begun)
            .map(|(_, error)| error.clone())
    });
    failed.flatten()
}

fn still_there() -> CommandError {
    CommandError::Unsettled(Reason::new(
        "what this process asked for before, or held, stands at the key, and the server has not said what became of it",
    ))
}

/// Two kinds were asked for at one key; waiting does not resolve that.
fn wrong_kind(spec: &AcquireSpec, there: &str) -> CommandError {
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
    let why = Reason::new(format_args!(
        "asked for {ours}, and there is {theirs}{hint}"
    ));
    CommandError::Refused(Refusal::WrongKind, why)
}

pub(super) fn clock_runs_ahead() -> CommandError {
    CommandError::Unsent(Reason::new("the server's clock runs ahead by leaps"))
}
