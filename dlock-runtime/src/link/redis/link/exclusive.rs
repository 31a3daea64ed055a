//! Exclusive acquires and releases, which go through the batcher: when a command waits without a
//! future of its own, and how it goes on after an answer that is not the end.
//!
//! Invariant: a caller that waits by a ticket alone was last polled on a runtime whose flusher keeps
//! deadlines.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::RedisLink;
use super::batcher::{Batcher, BegunCommand, Command, ItemAnswer, Resumed};
use super::operations::{Repetitions, left};
use crate::link::Answer;
use crate::link::batched::{Batching, CommandStep, ReleaseCommand, Ticket};
use crate::link::command_error::CommandError;
use crate::link::redis::errors;
use crate::link::redis::reply::ItemReply;
use crate::rules::commands::{Acquire, Acquired, GivenBack};

/// A command that the batcher takes.
pub(crate) trait Batchable<'a>: Copy + Send + 'a {
    type Answer: Send + 'a;

    fn command(self) -> Command<'a>;

    /// Reads a reply that ends the command.
    fn read(self, link: &RedisLink, answered: ItemAnswer) -> Result<Self::Answer, CommandError>;

    /// The same by the lock's key alone, while its slot moves.
    fn by_key(self, link: &'a RedisLink, until: Instant) -> Answer<'a, Self::Answer>;
}

impl<'a> Batchable<'a> for &'a Acquire {
    type Answer = Acquired;

    fn command(self) -> Command<'a> {
        Command::Acquire(self)
    }

    fn read(self, link: &RedisLink, answered: ItemAnswer) -> Result<Acquired, CommandError> {
        let (reply, sent) = answered?;
        let answer = reply.acquired()?;
        link.believe(&self.claim.key, answer.epoch(), answer.time())?;
        if let ItemReply::Other(_) = reply {
            // A batch updates the clock once.
            link.connection.heard_time(answer.time(), sent);
        }
        Ok(answer)
    }

    fn by_key(self, link: &'a RedisLink, until: Instant) -> Answer<'a, Acquired> {
        Box::pin(link.acquire_by_key(self, until))
    }
}

impl<'a> Batchable<'a> for ReleaseCommand<'a> {
    type Answer = GivenBack;

    fn command(self) -> Command<'a> {
        let Self { claim, keep } = self;
        Command::Release { claim, keep }
    }

    fn read(self, link: &RedisLink, answered: ItemAnswer) -> Result<GivenBack, CommandError> {
        let (reply, _) = answered?;
        Ok(link.clear_queue(self.claim, reply.given_back()?))
    }

    fn by_key(self, link: &'a RedisLink, until: Instant) -> Answer<'a, GivenBack> {
        Box::pin(link.release_by_key(self.claim, self.keep, until))
    }
}

impl<'a, C: Batchable<'a>> Batching<'a, C, C::Answer> for RedisLink {
    fn join(&'a self, command: C, within: Duration, waker: &Waker) -> CommandStep<'a, C::Answer> {
        let batcher = self.batcher_of(command);
        let until = Instant::now() + within;
        match batcher.begin(command.command(), within, until, waker) {
            BegunCommand::Waits(waiting) if batcher.keeps_deadlines() => {
                CommandStep::Waits(waiting.ticket(until))
            }
            begun => self.go_on(command, Some(begun), within, until),
        }
    }

    fn resume(&'a self, command: C, ticket: Ticket, waker: &Waker) -> CommandStep<'a, C::Answer> {
        let until = ticket.until;
        let answered = match self.batcher_of(command).resume(ticket, waker) {
            Resumed::Waits(ticket) => return CommandStep::Waits(ticket),
            Resumed::GoesOn(begun) => return self.go_on(command, Some(begun), left(until), until),
            Resumed::Ended(answered) => answered,
        };
        match Ends::with(answered) {
            Ends::Here(answered) => CommandStep::Ended(command.read(self, answered)),
            Ends::Blamed(error) => {
                let lock = command.command().lock();
                let blamed = self.blamed(lock, error, until);
                CommandStep::GoesOn(Box::pin(async move { Err(blamed.await) }))
            }
            Ends::ByKey => CommandStep::GoesOn(command.by_key(self, until)),
            Ends::Again => self.go_on(command, None, Duration::ZERO, until),
        }
    }

    fn leave(&self, command: C, ticket: Ticket) {
        self.batcher_of(command).dropped(&ticket);
    }
}

/// How a command ends that was answered.
enum Ends {
    /// With this answer.
    Here(ItemAnswer),
    /// With this error, about a key that is still to be named.
    Blamed(CommandError),
    /// By its lock's key alone: the slot is moving.
    ByKey,
    /// By its script once more: there are more entries to remove.
    Again,
}

impl Ends {
    fn with(answered: ItemAnswer) -> Self {
        match answered {
            Err(CommandError::Moving(_)) => Ends::ByKey,
            Err(error) if errors::is_wrong_type(&error) => Ends::Blamed(error),
            Ok((reply, _)) if reply.says_again() => Ends::Again,
            answered => Ends::Here(answered),
        }
    }
}

impl RedisLink {
    fn batcher_of<'a>(&self, command: impl Batchable<'a>) -> &Arc<Batcher> {
        &self.groups.of(command.command().lock()).batcher
    }

    /// Brings a command to its end in a future of its own. `begun`: its first sending; `None`: that
    /// is over.
    fn go_on<'a, C: Batchable<'a>>(
        &'a self,
        command: C,
        mut begun: Option<BegunCommand<'a>>,
        mut within: Duration,
        until: Instant,
    ) -> CommandStep<'a, C::Answer> {
        CommandStep::GoesOn(Box::pin(async move {
            let batcher = self.batcher_of(command);
            let mut rounds = Repetitions::repeats(until);
            loop {
                let begun = if let Some(begun) = begun.take() {
                    begun
                } else {
                    within = rounds.next()?;
                    batcher.begun(command.command(), within, until).await
                };
                let answered = batcher.finish(command.command(), begun, within, until);
                match Ends::with(answered.await) {
                    Ends::Here(answered) => return command.read(self, answered),
                    Ends::Blamed(error) => {
                        let lock = command.command().lock();
                        return Err(Box::pin(self.blamed(lock, error, until)).await);
                    }
                    Ends::ByKey => break,
                    Ends::Again => {}
                }
            }
            command.by_key(self, until).await
        }))
    }
}
