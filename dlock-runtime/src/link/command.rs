//! One live connection to a server, and the commands that it carries.
//!
//! A server implements [`Link`]: the two commands that are sent in batches, and [`Link::call`] for
//! every other [`LinkCommand`]. Callers use the typed functions of `dyn Link`. What may be done with a
//! command, whatever the server, is its [`CommandRules`], in one table. Invariant: a reply is read as
//! the answer to the command that was sent, or is an error.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::runtime::Handle;

use super::Answer;
use super::batched::{BatchedAnswer, ReleaseCommand};
use super::command_error::CommandError;
use crate::extras::server_check::Answers;
use crate::extras::writes::{Writes, Wrote};
use crate::rules::ballots::{Adopted, Ballot, Vote};
use crate::rules::commands::{
    Acquire, Acquired, AcquiredAll, Cancelled, Claim, GivenBack, Keep, NotDue, Polled, Renewal,
    Renewed, RunNote,
};
use crate::values::error::{Reason, Refusal};
use crate::values::moment::Moment;
use crate::values::report::{Notice, Part, Scanned, Sought, Stored};
use crate::values::ttl::Ttl;

/// One live connection. Commands are executed in the order in which they were first polled, with
/// two exceptions. An `acquire` or a `release` may run later, but if its future is dropped, it
/// either runs before anything first polled after the drop, or is never sent. A `Heartbeat` may
/// always run later, because it creates nothing.
///
/// Each command ends `within` the time given, with [`CommandError::Unclear`] if it may have been or
/// may yet be executed. Dropping a command's future does not undo what was sent.
pub(crate) trait Link: Debug + Send + Sync {
    /// The server's estimated time at a moment, in µs; an error makes it too early rather than too
    /// late.
    fn server_time_at(&self, now: Moment) -> u64;

    /// The runtime that reads and writes this connection's socket; `None` if there is no socket.
    fn runtime(&self) -> Option<&Handle>;

    /// The address at which grants to this connection's waiters are published; `None` if this
    /// connection receives no pushes, so that its waiters must poll.
    fn address(&self) -> Option<&Arc<str>>;

    /// The server's time after which an acquire prepared at `now` creates nothing, if its answer is
    /// awaited for `within`.
    fn not_after(&self, now: Moment, within: Duration, _lease: Ttl) -> u64 {
        Acquire::not_after(self.server_time_at(now), within)
    }

    fn acquire<'a>(
        &'a self,
        command: &'a Acquire,
        within: Duration,
    ) -> BatchedAnswer<'a, &'a Acquire, Acquired>;

    /// Releases the lock; answers whether the claim held it. A key that is to be
    /// kept stays as a retired value, which matches no token.
    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        within: Duration,
    ) -> BatchedAnswer<'a, ReleaseCommand<'a>, GivenBack>;

    /// Sends any other command. Answers with the reply that belongs to it.
    fn call<'a>(&'a self, command: LinkCommand<'a>, within: Duration) -> Answer<'a, LinkReply>;
}

/// A command that is sent by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkCommand<'a> {
    /// Takes all of these exclusive locks in one step, or none; never queues. All have the same
    /// lease and the same `not_after`.
    AcquireAll(&'a [Acquire]),
    /// Asks what became of a queued claim, and refreshes its heartbeat.
    Poll(&'a Claim),
    /// Refreshes the heartbeat of a queued claim whose waiter knows of no change. The backend may
    /// delay it by a small part of the poll interval, to batch it with others. Answers what a poll
    /// would answer, or `None` if only a poll can tell. If a poll at this moment would grant the
    /// lock to a waiting claim, the answer may still be that it waits; the claim learns of the
    /// grant by its next heartbeat at the latest.
    Heartbeat(&'a Claim),
    /// As `release`, for a claim that may also be queued, or whose acquire may still arrive.
    Cancel {
        claim: &'a Claim,
        keep: Keep,
        not_after: u64,
    },
    /// One answer per item, in order; at most [`RENEWALS_AT_ONCE`](super::RENEWALS_AT_ONCE) items.
    Renew(&'a [Renewal]),
    /// Turns a writer's entry into a reader's, with the same claim and without releasing the lock
    /// in between; it never shortens the lease. `false`: the claim does not hold the lock.
    /// Idempotent.
    Downgrade {
        claim: &'a Claim,
        ttl: Ttl,
    },
    /// Asks one node of a quorum for its vote: an acquire that never queues.
    Vote(&'a Ballot),
    /// Makes such a node draw only epochs above this one from now on, if the claim holds the lock there.
    Adopt {
        claim: &'a Claim,
        epoch: u64,
    },
    /// Whether the claim holds the lock now, by the server's clock.
    Holds(&'a Claim),
    /// Notes before its body, beside the lock, that a claim runs once per period, if it holds the lock;
    /// whether it does.
    NoteRun {
        claim: &'a Claim,
        run: RunNote,
    },
    /// The record of the last run at this key.
    LastRun(&'a str),
    /// Removes it; whether there was one.
    ClearRecord(&'a str),
    /// Applies a batch of the user's own writes if the claim holds the lock, but not after its time
    /// has passed.
    Write(&'a Claim, &'a Writes<'a>),
    /// What is stored at the key: its value, or the entry of the first holder.
    Read(&'a str),
    /// One step through the names of all locks that begin with this text, from a cursor that an
    /// earlier step on this link gave, or none. A step may find none; its work is bounded.
    Scan {
        sought: Sought,
        prefix: &'a str,
        cursor: &'a str,
    },
    /// What is stored at these locks, for an administrator. Of several keys only if no proxy shards.
    Inspect {
        keys: &'a [&'a str],
        part: Part,
    },
    /// Tells a claim's holder that it was evicted, if it can be told.
    TellEvicted(&'a Claim),
    Ping,
    /// What each server says about its settings and the rights of this pool's user; changes
    /// nothing. Empty: there is nothing to check.
    Check,
}

/// What may be done with a command, whatever the server. None is ever sent again that may have been
/// executed. Only `acquire`, `AcquireAll`, `Vote`, `NoteRun` and `Write` create anything; only `acquire`, `release`,
/// `Heartbeat`, a node's commands and the items of a `Renew` share a command of the server with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandRules {
    /// Another server that has its key may get it instead, if the first one said that it did not
    /// execute it. An acquire is asked for anew, with another token.
    pub(crate) is_redirected: bool,
    /// A witness reads its answer: it may give a holder a right, which counts only once the witness
    /// has confirmed it, or tell of the rights that the witness needs too.
    pub(crate) is_witnessed: bool,
}

impl<'a> LinkCommand<'a> {
    /// The table.
    #[expect(clippy::match_same_arms, reason = "each command has a row")]
    pub(crate) fn rules(self) -> CommandRules {
        let rules = |is_redirected, is_witnessed| CommandRules {
            is_redirected,
            is_witnessed,
        };
        match self {
            //                                redirected, witnessed
            LinkCommand::AcquireAll(_) => rules(false, true),
            LinkCommand::Poll(_) => rules(true, true),
            LinkCommand::Heartbeat(_) => rules(false, true),
            LinkCommand::Cancel { .. } => rules(true, false),
            LinkCommand::Renew(_) => rules(true, true),
            LinkCommand::Downgrade { .. } => rules(true, true),
            LinkCommand::Vote(_) => rules(false, false),
            LinkCommand::Adopt { .. } => rules(false, false),
            LinkCommand::Holds(_) => rules(true, true),
            LinkCommand::NoteRun { .. } => rules(true, true),
            LinkCommand::LastRun(_) => rules(true, false),
            LinkCommand::ClearRecord(_) => rules(true, false),
            LinkCommand::Write(..) => rules(true, false),
            LinkCommand::Read(_) => rules(true, false),
            LinkCommand::Scan { .. } => rules(false, false),
            LinkCommand::Inspect { .. } => rules(true, false),
            LinkCommand::TellEvicted(_) => rules(false, false),
            LinkCommand::Ping => rules(false, false),
            LinkCommand::Check => rules(false, true),
        }
    }

    /// The key that says which server gets it; of several, the first.
    pub(crate) fn key(self) -> &'a str {
        match self {
            LinkCommand::AcquireAll(commands) => {
                commands.first().map_or("", |first| &first.claim.key)
            }
            LinkCommand::Renew(items) => items.first().map_or("", |first| &first.claim.key),
            LinkCommand::Poll(claim)
            | LinkCommand::Heartbeat(claim)
            | LinkCommand::Cancel { claim, .. }
            | LinkCommand::Downgrade { claim, .. }
            | LinkCommand::Adopt { claim, .. }
            | LinkCommand::Holds(claim)
            | LinkCommand::TellEvicted(claim)
            | LinkCommand::NoteRun { claim, .. }
            | LinkCommand::Write(claim, _) => &claim.key,
            LinkCommand::Vote(ballot) => &ballot.claim.key,
            LinkCommand::Read(key) | LinkCommand::LastRun(key) | LinkCommand::ClearRecord(key) => {
                key
            }
            LinkCommand::Inspect { keys, .. } => keys.first().copied().unwrap_or_default(),
            LinkCommand::Scan { .. } | LinkCommand::Ping | LinkCommand::Check => "",
        }
    }
}

/// Each answer, and the reply that carries it.
macro_rules! replies {
    ($($reply:ident($answer:ty)),* $(,)?) => {
        /// The reply to a [`LinkCommand`].
        pub(crate) enum LinkReply {
            $($reply($answer)),*
        }

        $(
            impl From<$answer> for LinkReply {
                fn from(answer: $answer) -> Self {
                    Self::$reply(answer)
                }
            }

            impl ReadReply for $answer {
                fn read(reply: LinkReply) -> Option<Self> {
                    match reply {
                        LinkReply::$reply(answer) => Some(answer),
                        _ => None,
                    }
                }
            }
        )*
    };
}

/// An answer that a reply may carry.
pub(crate) trait ReadReply: Sized {
    fn read(reply: LinkReply) -> Option<Self>;
}

replies! {
    AcquiredAll(AcquiredAll),
    Polled(Polled),
    Heartbeat(Option<Polled>),
    Cancelled(Cancelled),
    Renewed(Vec<Renewed>),
    Voted(Vote),
    Adopted(Adopted),
    // Of a downgrade, a look, a note of a run, or that a record was removed.
    Holds(bool),
    LastRun(Option<NotDue>),
    Wrote(Wrote),
    Read(Option<String>),
    Scanned(Scanned),
    Inspected(Vec<Stored>),
    Told(Notice),
    Pong(()),
    Checked(Vec<Answers>),
}

/// The reply that carries an answer.
pub(crate) fn replied<'a, T: Into<LinkReply>>(
    answer: impl Future<Output = Result<T, CommandError>> + Send + 'a,
) -> Answer<'a, LinkReply> {
    Box::pin(async move { answer.await.map(Into::into) })
}

/// For commands that no request leads to: `Offers` refuses it before.
pub(crate) fn not_offered(why: &'static str) -> Answer<'static, LinkReply> {
    let refused = CommandError::Setup(Reason::new(why));
    Box::pin(std::future::ready(Err(refused)))
}

/// The pending answer to one command.
pub(crate) struct TypedAnswer<'a, T> {
    reply: Answer<'a, LinkReply>,
    answer: PhantomData<fn() -> T>,
}

impl<T: ReadReply> Future for TypedAnswer<'_, T> {
    type Output = Result<T, CommandError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(self.reply.as_mut().poll(cx))?;
        let strange = || CommandError::Unclear(Reason::new("the reply to another command"));
        Poll::Ready(T::read(reply).ok_or_else(strange))
    }
}

impl dyn Link + '_ {
    pub(crate) fn ask<'a, T: ReadReply>(
        &'a self,
        command: LinkCommand<'a>,
        within: Duration,
    ) -> TypedAnswer<'a, T> {
        TypedAnswer {
            reply: self.call(command, within),
            answer: PhantomData,
        }
    }

    /// As [`holds`](Self::holds); where data of another type stands, nobody's claim does.
    pub(crate) async fn still_holds(
        &self,
        claim: &Claim,
        within: Duration,
    ) -> Result<bool, CommandError> {
        match self.holds(claim, within).await {
            Err(CommandError::Refused(Refusal::WrongType, _)) => Ok(false),
            answer => answer,
        }
    }

    pub(crate) fn ping(&self, within: Duration) -> TypedAnswer<'_, ()> {
        self.ask(LinkCommand::Ping, within)
    }

    pub(crate) fn check(&self, within: Duration) -> TypedAnswer<'_, Vec<Answers>> {
        self.ask(LinkCommand::Check, within)
    }
}

macro_rules! typed {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty = $command:expr;)*) => {
        /// The commands with arguments.
        impl dyn Link + '_ {
            $(
                pub(crate) fn $name<'a>(
                    &'a self,
                    $($argument: $type,)*
                    within: Duration,
                ) -> TypedAnswer<'a, $answer> {
                    self.ask($command, within)
                }
            )*
        }
    };
}

typed! {
    acquire_all(commands: &'a [Acquire]) -> AcquiredAll = LinkCommand::AcquireAll(commands);
    poll(claim: &'a Claim) -> Polled = LinkCommand::Poll(claim);
    heartbeat(claim: &'a Claim) -> Option<Polled> = LinkCommand::Heartbeat(claim);
    cancel(claim: &'a Claim, keep: Keep, not_after: u64) -> Cancelled =
        LinkCommand::Cancel { claim, keep, not_after };
    renew(items: &'a [Renewal]) -> Vec<Renewed> = LinkCommand::Renew(items);
    downgrade(claim: &'a Claim, ttl: Ttl) -> bool = LinkCommand::Downgrade { claim, ttl };
    vote(ballot: &'a Ballot) -> Vote = LinkCommand::Vote(ballot);
    adopt(claim: &'a Claim, epoch: u64) -> Adopted = LinkCommand::Adopt { claim, epoch };
    holds(claim: &'a Claim) -> bool = LinkCommand::Holds(claim);
    write(claim: &'a Claim, writes: &'a Writes<'a>) -> Wrote = LinkCommand::Write(claim, writes);
    note_run(claim: &'a Claim, run: RunNote) -> bool = LinkCommand::NoteRun { claim, run };
    last_run(key: &'a str) -> Option<NotDue> = LinkCommand::LastRun(key);
    read(key: &'a str) -> Option<String> = LinkCommand::Read(key);
    scan(sought: Sought, prefix: &'a str, cursor: &'a str) -> Scanned =
        LinkCommand::Scan { sought, prefix, cursor };
    tell_evicted(claim: &'a Claim) -> Notice = LinkCommand::TellEvicted(claim);
    inspect(keys: &'a [&'a str], part: Part) -> Vec<Stored> = LinkCommand::Inspect { keys, part };
}
