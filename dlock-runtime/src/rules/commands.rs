//! The commands to a lock server and its answers, for every backend.
//!
//! This file is data only; `server` has the semantics. Times with the name `time`, `not_after` or
//! `until` are the *server's*, in microseconds since 1970. Invariant: no command keeps anything until
//! such a time alone, because the server's clock may have been set back since it was computed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::queue;
use crate::values::entry::{self, Letter};
use crate::values::ttl::Ttl;

/// One attempt at one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) key: Arc<str>,
    /// Its entry ([`entry`]), unique to the attempt because it contains the token. An exclusive
    /// lock is SET at the key with it; of any other kind it is a member of the sorted set there.
    /// While the attempt waits, the same bytes stand in the queue.
    pub(crate) value: Arc<str>,
    /// Whether it may wait in the key's queue.
    pub(crate) queues: bool,
    /// Its job runs once per period, as its value says: who grants it looks at the record first.
    pub(crate) is_once: bool,
}

impl Claim {
    pub(crate) fn kind(&self) -> Letter {
        entry::letter_of(&self.value).unwrap_or(Letter::Exclusive) // as any value SET at a key
    }

    /// Its entry in the key's queue, byte for byte; empty: it never queues.
    pub(crate) fn queue_entry(&self) -> &str {
        if self.queues { &self.value } else { "" }
    }

    /// How long something of it can be left at the server, in the queue or granted, after the last
    /// command that could create or prolong it.
    pub(crate) fn longest_stay(&self) -> Duration {
        let lease = entry::read(&self.value).map(|entry| entry.lease);
        queue::longest_stay(lease.unwrap_or(queue::CLAIM))
    }
}

/// `acquire`: the only command that creates, sent once for each claim. A claim that may queue
/// enters the queue if the lock is taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Acquire {
    pub(crate) claim: Claim,
    /// How long the server keeps the lock: the ttl, or `min_hold` where that is longer.
    pub(crate) lease: Ttl,
    /// The command creates nothing if it is executed later than this.
    pub(crate) not_after: u64,
    /// The time to live for a key that has none; `None` leaves it alone.
    pub(crate) repair_missing_ttl: Option<Duration>,
}

impl Acquire {
    /// The server time until which the command may be executed, if its answer is awaited for
    /// `within` from `time` on. Rounded down by at most a thirty-second of `within`, so that
    /// commands sent at about the same time share the value and a batch states it once.
    pub(crate) fn not_after(time: u64, within: Duration) -> u64 {
        let within = u64::try_from(within.as_micros()).unwrap_or(u64::MAX);
        let last = time.saturating_add(within);
        let step = (within / 32)
            .checked_ilog2()
            .map_or(1, |digits| 1 << digits);
        last - last % step
    }
}

/// The answer to an [`Acquire`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Acquired {
    /// The lock is ours, for the whole lease.
    Granted { time: u64, epoch: u64 },
    /// Another holder has the lock, and we are not in the queue: the claim may not queue, the key
    /// has no time to live, or its value is of another layout.
    Busy(Busy),
    /// Another holder has the lock, and we are in the queue.
    Queued(Busy),
    /// It was ours already: the command was duplicated on its way.
    Yours {
        time: u64,
        epoch: u64,
        left: Duration,
    },
    /// Executed after its `not_after`: nothing was created.
    Late { time: u64 },
    /// No quorum of nodes granted it.
    NoQuorum(Box<NoQuorum>),
    /// The key is held as another kind of lock, and the claim may not queue.
    WrongKind {
        time: u64,
        /// The set's meta member, or the beginning of a value (see [`entry`]).
        there: String,
        /// Of several servers, another one granted it, or may yet: it has to be cancelled.
        is_open: bool,
    },
    /// The claim runs once per period, and was run within it; nothing was created.
    NotDue(NotDue),
}

/// What stays of a hold that is over: how long its key stays, as a value that matches no token, although
/// its holder is done (`min_hold`); and what becomes of the record of the last run (`once_per`). Small,
/// because each release has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Keep {
    /// The server's time of the grant.
    since: u64,
    /// The key stays so many ms from then on, and no more from the release on, whatever the server's
    /// clock says; 0: it goes.
    at_most: u32,
    run: RunPart,
}

/// How a run that is once per period ended (two bits; 0: there is none), and by how many µs its epoch is
/// above the time of its grant; all bits: by more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RunPart(u32);

/// What the record beside a lock is to say of a run, by the holder of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunNote {
    /// The server's time of the grant.
    pub(crate) start: u64,
    pub(crate) epoch: u64,
    pub(crate) outcome: RunOutcome,
}

/// How a run that is once per period ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RunOutcome {
    /// Not by its own end: the record stays as it is.
    Unknown,
    /// It is recorded.
    Succeeded,
    /// Its record is taken back, if it was noted before the body.
    Failed,
}

impl RunNote {
    /// A run under this grant, of which the holder was told at `start`: a grant out of the queue, with an
    /// epoch of its time, may be older. An epoch that a release could not tell, because the clock was set
    /// back far, is 0 from the start, so that the release finds what was recorded before the body.
    pub(crate) fn begun(start: u64, epoch: u64) -> Self {
        let is_near = epoch.abs_diff(start) < u64::from(RunPart::MOST_AHEAD);
        Self {
            start: if is_near { start.min(epoch) } else { start },
            epoch: if is_near { epoch } else { 0 },
            outcome: RunOutcome::Unknown,
        }
    }
}

impl RunPart {
    const NONE: Self = Self(0);
    const MOST_AHEAD: u32 = u32::MAX >> 2;

    fn of(run: RunNote) -> Self {
        let ahead = run.epoch.checked_sub(run.start);
        let ahead = ahead.and_then(|it| u32::try_from(it).ok());
        let outcome = match run.outcome {
            RunOutcome::Unknown => 1,
            RunOutcome::Succeeded => 2,
            RunOutcome::Failed => 3,
        };
        let ahead = ahead.map_or(Self::MOST_AHEAD, |it| it.min(Self::MOST_AHEAD));
        Self(ahead << 2 | outcome)
    }

    fn read(self, start: u64) -> Option<RunNote> {
        let outcome = match self.0 & 3 {
            0 => return None,
            1 => RunOutcome::Unknown,
            2 => RunOutcome::Succeeded,
            _ => RunOutcome::Failed,
        };
        let ahead = self.0 >> 2;
        let is_known = ahead < Self::MOST_AHEAD;
        Some(RunNote {
            start,
            epoch: if is_known {
                start + u64::from(ahead)
            } else {
                0
            },
            outcome,
        })
    }
}

impl Keep {
    /// It goes at once.
    pub(crate) const NOT: Keep = Keep {
        since: 0,
        at_most: 0,
        run: RunPart::NONE,
    };

    /// For `length`, at most a day, from the server's time `since` on.
    pub(crate) fn from(since: u64, length: Duration) -> Self {
        let millis = length.as_micros().div_ceil(1000);
        Self {
            since,
            at_most: u32::try_from(millis).unwrap_or(u32::MAX),
            run: RunPart::NONE,
        }
    }

    /// The same, with what is said of the run that was granted then.
    pub(crate) fn with(self, run: RunNote) -> Self {
        let later = self.since.saturating_sub(run.start) / 1000;
        let at_most = match self.at_most {
            0 => 0,
            at_most => at_most.saturating_add(u32::try_from(later).unwrap_or(u32::MAX)),
        };
        Self {
            since: run.start,
            at_most,
            run: RunPart::of(run),
        }
    }

    /// What is said of a run that is once per period.
    pub(crate) fn run(self) -> Option<RunNote> {
        self.run.read(self.since)
    }

    /// The run has ended so.
    pub(crate) fn ended(self, outcome: RunOutcome) -> Self {
        let run = self
            .run()
            .map(|run| RunPart::of(RunNote { outcome, ..run }));
        Self {
            run: run.unwrap_or(RunPart::NONE),
            ..self
        }
    }

    /// For how many ms at most its key stays.
    pub(crate) fn at_most(self) -> u64 {
        u64::from(self.at_most)
    }

    /// The same by another clock, which shows `there` when this one shows `here`.
    pub(crate) fn by_another(self, here: u64, there: u64) -> Self {
        match self.until().saturating_sub(here) {
            0 => Self::NOT,
            left => Self {
                since: (there.saturating_add(left)).saturating_sub(self.at_most() * 1000),
                ..self
            },
        }
    }

    /// Whether a release must record a run that succeeded.
    pub(crate) fn records_a_run(self) -> bool {
        self.run()
            .is_some_and(|run| run.outcome == RunOutcome::Succeeded)
    }

    /// Whether a release must change the record of the last run.
    pub(crate) fn records(self) -> bool {
        self.run()
            .is_some_and(|run| run.outcome != RunOutcome::Unknown)
    }

    /// How many µs the key stays if it is released at `time`; `None`: it goes.
    pub(crate) fn left(self, time: u64) -> Option<u64> {
        let left = self.until().saturating_sub(time);
        Some(left.min(self.at_most() * 1000)).filter(|left| *left > 0)
    }

    fn until(self) -> u64 {
        self.since.saturating_add(self.at_most() * 1000)
    }
}

/// As the scripts read it (`kept_for` in `lua/release.lua`).
impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at_most {
            0 => f.write_str("0")?,
            at_most => write!(f, "{}:{at_most}", self.until())?,
        }
        let Some(RunNote {
            start,
            epoch,
            outcome,
        }) = self.run()
        else {
            return Ok(());
        };
        match outcome {
            RunOutcome::Unknown => Ok(()),
            RunOutcome::Succeeded => write!(f, ";{start}:{epoch}:done"),
            RunOutcome::Failed => write!(f, ";{start}:{epoch}:undone"),
        }
    }
}

/// Why a call that runs once per period does not run now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NotDue {
    pub(crate) time: u64,
    /// Until it may run.
    pub(crate) left: Duration,
    /// What stands beside the lock ([`record`](crate::values::record)).
    pub(crate) record: String,
}

/// The answer to several [`Acquire`]s of exclusive locks in one step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AcquiredAll {
    /// All are ours, for the whole lease, or for what is `left` of it: the command was duplicated.
    All {
        time: u64,
        /// One for each, in order.
        epochs: Vec<u64>,
        left: Option<Duration>,
    },
    /// None is ours: the lock at this index is held, has waiters, or can't be taken.
    Not { at: usize, busy: Busy },
    /// Executed after its `not_after`: nothing was created.
    Late { time: u64 },
}

impl AcquiredAll {
    /// The epochs of the grants.
    pub(crate) fn epochs(&self) -> &[u64] {
        match self {
            AcquiredAll::All { epochs, .. } => epochs,
            AcquiredAll::Not { .. } | AcquiredAll::Late { .. } => &[],
        }
    }

    /// The server's time when it answered.
    pub(crate) fn time(&self) -> u64 {
        match self {
            AcquiredAll::All { time, .. }
            | AcquiredAll::Not {
                busy: Busy { time, .. },
                ..
            }
            | AcquiredAll::Late { time } => *time,
        }
    }
}

/// Why a lock of several nodes is not ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NoQuorum {
    /// The holder at most of the nodes that gave no vote.
    pub(crate) busy: Busy,
    /// That holder may have a quorum; if not, the votes were split.
    pub(crate) is_held: bool,
    /// Some node granted it, or may yet: it has to be cancelled.
    pub(crate) is_open: bool,
    /// How many others the nodes will tell before us that the lock is free.
    pub(crate) rank: u32,
    /// Whether the nodes will tell us.
    pub(crate) is_told: bool,
    /// How long a node takes to answer.
    pub(crate) round_trip: Duration,
}

/// The holder that is in the way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Busy {
    pub(crate) time: u64,
    pub(crate) left: Left,
    pub(crate) value: String,
}

/// The answer to `poll`, which a waiter in the queue sends. It never creates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Polled {
    /// The lock is ours: another client's command granted it, and the push was lost or is on its
    /// way.
    Yours {
        time: u64,
        epoch: u64,
        left: Duration,
    },
    /// Still in the queue, and counted as alive for another [`super::queue::HEARTBEAT`].
    Queued(Busy),
    /// Neither in the queue nor the holder: the claim is dead.
    Gone { time: u64 },
    /// The same, because it runs once per period, and was run within it.
    NotDue(NotDue),
}

/// A lock granted to a waiter by another client's script (a release, a poll, …).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PushedGrant {
    pub(crate) key: Arc<str>,
    pub(crate) value: Arc<str>,
    pub(crate) epoch: u64,
    /// When it was granted …
    pub(crate) time: u64,
    /// … and for how long: at most [`super::queue::CLAIM`].
    pub(crate) lease: Duration,
}

impl Acquired {
    /// The epoch of the grant.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match self {
            Acquired::Granted { epoch, .. } | Acquired::Yours { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }

    /// The server's time when it answered.
    pub(crate) fn time(&self) -> u64 {
        match self {
            Acquired::Granted { time, .. }
            | Acquired::Busy(Busy { time, .. })
            | Acquired::Queued(Busy { time, .. })
            | Acquired::Yours { time, .. }
            | Acquired::Late { time }
            | Acquired::WrongKind { time, .. }
            | Acquired::NotDue(NotDue { time, .. }) => *time,
            Acquired::NoQuorum(it) => it.busy.time,
        }
    }
}

impl Polled {
    /// The value in the way, while the claim stands in the queue.
    pub(crate) fn busy(&self) -> Option<&Busy> {
        match self {
            Polled::Queued(busy) => Some(busy),
            Polled::Yours { .. } | Polled::Gone { .. } | Polled::NotDue(_) => None,
        }
    }

    /// The epoch of the grant.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match self {
            Polled::Yours { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }

    /// The server's time when it answered.
    pub(crate) fn time(&self) -> u64 {
        match self {
            Polled::Yours { time, .. }
            | Polled::Queued(Busy { time, .. })
            | Polled::Gone { time }
            | Polled::NotDue(NotDue { time, .. }) => *time,
        }
    }
}

/// The time left of another holder's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Left {
    For(Duration),
    /// The key has no time to live.
    Endless,
}

/// The answer to `release`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct GivenBack {
    /// The claim held the lock.
    pub(crate) found: bool,
    /// How many entries of the same owner still hold it; 0 for every other kind.
    pub(crate) rest: u32,
    /// Some node of a quorum did not answer, so something may be left there: it has to be cancelled.
    pub(crate) is_open: bool,
    /// The record beside the lock tells of this run, which succeeded.
    pub(crate) is_recorded: bool,
}

/// The answer to `cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cancelled {
    pub(crate) time: u64,
    /// The claim held the lock or stood in the queue, and no longer does.
    pub(crate) found: bool,
    /// Nothing of this claim is left, nor can appear later.
    pub(crate) conclusive: bool,
    /// As in [`GivenBack`].
    pub(crate) rest: u32,
    pub(crate) is_recorded: bool,
}

/// One item of `renew`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Renewal {
    pub(crate) claim: Claim,
    pub(crate) ttl: Ttl,
}

/// The answer to one [`Renewal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Renewed {
    /// The lease now lasts at least the ttl.
    Yes,
    /// The lock is not ours: never again for this claim.
    NotOurs,
    /// This one could not be processed, or was not answered; the others of its batch were.
    #[default]
    Failed,
    /// Of several nodes, too few have it for the lease to be renewed, and too few said that they do
    /// not for it to be lost.
    TooFew,
}

/// How many items of one `renew` were answered how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RenewalCount {
    pub(crate) renewed: usize,
    pub(crate) gone: usize,
    pub(crate) failed: usize,
}

impl RenewalCount {
    /// `asked`: how many items there were, answered or not.
    pub(crate) fn of(answers: &[Renewed], asked: usize) -> Self {
        let count = |answer| answers.iter().filter(|it| **it == answer).count();
        let (renewed, gone) = (count(Renewed::Yes), count(Renewed::NotOurs));
        Self {
            renewed,
            gone,
            failed: asked.saturating_sub(renewed + gone),
        }
    }
}

impl Renewed {
    /// The place of the first that could not be processed.
    pub(crate) fn first_failed(answers: &[Self]) -> Option<usize> {
        answers.iter().position(|it| *it == Self::Failed)
    }

    /// The answer to a command that a holder sends.
    pub(crate) fn by_holder(is_ours: bool) -> Self {
        if is_ours { Self::Yes } else { Self::NotOurs }
    }
}
