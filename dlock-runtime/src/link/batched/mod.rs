//! The pending answer to a command that may be sent in a batch with those of other callers. While it
//! waits, its caller keeps a ticket and nothing on the heap: with a thousand callers, memory is what
//! waiting costs.
//!
//! It knows nothing of how a batch is sent; `state` decides what waits for one and what it takes.
//! Invariant: a ticket is given back exactly once, by the poll that reads the outcome or by the drop.

pub(crate) mod state;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::Answer;
use super::command_error::CommandError;
use crate::rules::commands::{Claim, Keep};

/// A command that gives a lock back, as [`Link::release`](super::Link::release) gets it.
#[derive(Clone, Copy)]
pub(crate) struct ReleaseCommand<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) keep: Keep,
}

/// A link that sends the commands `C` of several callers as one; each is answered with a `T`.
pub(crate) trait Batching<'a, C, T>: Send + Sync {
    /// The command's first poll: it is sent by itself, or joins those that wait for a batch. The
    /// waker is woken when it has to be polled again.
    fn join(&'a self, command: C, within: Duration, waker: &Waker) -> CommandStep<'a, T>;

    /// A later poll, of a command that has joined.
    fn resume(&'a self, command: C, ticket: Ticket, waker: &Waker) -> CommandStep<'a, T>;

    /// The caller goes. What is not on the wire will not be sent.
    fn leave(&self, command: C, ticket: Ticket);
}

/// What a poll found.
pub(crate) enum CommandStep<'a, T> {
    /// The command waits for its batch, or for the answer to that.
    Waits(Ticket),
    Ended(Result<T, CommandError>),
    /// Poll this future from now on, at once for the first time: the command is sent by itself, or
    /// again, or has a timer of its own.
    GoesOn(Answer<'a, T>),
}

/// Where a waiting command stands. Not `Copy`: whoever has it has to give it back.
pub(crate) struct Ticket {
    /// Which item it is.
    pub(crate) item: u64,
    /// Where its outcome will be.
    pub(crate) slot: usize,
    /// When its time is over.
    pub(crate) until: Instant,
}

/// The pending answer of a server to a command that may be batched.
pub(crate) enum BatchedAnswer<'a, C: Copy, T> {
    /// It is not, or not any more.
    Boxed(Answer<'a, T>),
    Queued(Queued<'a, C, T>),
}

pub(crate) struct Queued<'a, C: Copy, T> {
    link: &'a dyn Batching<'a, C, T>,
    command: C,
    stage: CommandStage,
}

enum CommandStage {
    /// Not polled yet. From its first poll on it may take so long.
    New(Duration),
    Waits(Ticket),
    /// It has ended, or is being polled: a panic must not give a ticket back twice.
    Done,
}

impl<'a, C: Copy, T> BatchedAnswer<'a, C, T> {
    pub(crate) fn new(link: &'a dyn Batching<'a, C, T>, command: C, within: Duration) -> Self {
        Self::Queued(Queued {
            link,
            command,
            stage: CommandStage::New(within),
        })
    }
}

impl<C: Copy + Unpin, T> Future for BatchedAnswer<'_, C, T> {
    type Output = Result<T, CommandError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let queued = match &mut *self {
            Self::Boxed(answer) => return answer.as_mut().poll(cx),
            Self::Queued(queued) => queued,
        };
        let (link, command) = (queued.link, queued.command);
        let step = match std::mem::replace(&mut queued.stage, CommandStage::Done) {
            CommandStage::New(within) => link.join(command, within, cx.waker()),
            CommandStage::Waits(ticket) => link.resume(command, ticket, cx.waker()),
            CommandStage::Done => return Poll::Pending, // polled after its end
        };
        match step {
            CommandStep::Waits(ticket) => {
                queued.stage = CommandStage::Waits(ticket);
                Poll::Pending
            }
            CommandStep::Ended(result) => Poll::Ready(result),
            CommandStep::GoesOn(mut answer) => {
                let polled = answer.as_mut().poll(cx);
                *self = Self::Boxed(answer);
                polled
            }
        }
    }
}

impl<C: Copy, T> Drop for Queued<'_, C, T> {
    fn drop(&mut self) {
        if let CommandStage::Waits(ticket) = std::mem::replace(&mut self.stage, CommandStage::Done)
        {
            self.link.leave(self.command, ticket);
        }
    }
}
