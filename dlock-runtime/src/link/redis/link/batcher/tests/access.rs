//! Access for the tests of a batch's answers, in other folders.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::link::batched::{BatchedAnswer, Batching, CommandStep, Ticket};
use crate::link::command_error::CommandError;
use crate::link::redis::link::batcher::flusher::Flusher;
use crate::link::redis::link::batcher::{
    BatchItem, BatchSort, Batcher, BegunCommand, Command, ItemOutcome, OwnedCommand, Resumed,
};
use crate::link::redis::reply;
use crate::rules::commands::{Claim, Polled};
use crate::values::moment::Moment;

impl Batcher {
    /// The result of one item.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        command: OwnedCommand,
        within: Duration,
    ) -> Result<reply::ItemReply, CommandError> {
        let answered = if self.sort == BatchSort::OfNode {
            self.run(command.command(), within, Instant::now() + within)
                .await
        } else {
            BatchedAnswer::new(self, command.command(), within).await
        };
        Ok(answered?.0)
    }

    /// Sends one command of heartbeats at once.
    pub(crate) async fn beat_together(
        self: &Arc<Self>,
        claims: Vec<Claim>,
        within: Duration,
    ) -> Vec<Result<Option<Polled>, CommandError>> {
        let beats = claims.into_iter().map(OwnedCommand::Beat).collect();
        let answers = self.ask_together(beats, within).await.into_iter();
        let told = |it: Option<Result<reply::ItemReply, _>>| it.map_or(Ok(None), |it| it?.polled());
        answers.map(told).collect()
    }

    /// Nobody waits, and no item has a slot.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiters().outcomes.in_use() == 0
    }

    /// Sends one batch at once.
    pub(crate) async fn ask_together(
        self: &Arc<Self>,
        commands: Vec<OwnedCommand>,
        within: Duration,
    ) -> Vec<Option<Result<reply::ItemReply, CommandError>>> {
        let until = Instant::now() + within;
        let item = |command| {
            let slot = self.waiters().outcomes.open(Waker::noop());
            let item = BatchItem {
                command,
                within,
                until,
                slot: Some(slot),
            };
            (item, slot)
        };
        let (batch, slots): (Vec<_>, Vec<_>) = commands.into_iter().map(item).unzip();
        Flusher::of(self, batch).await;
        let mut waiters = self.waiters();
        let outcome = |slot| {
            let former = waiters.outcomes.poll(slot, Waker::noop());
            match former.outcome().expect("everybody is answered") {
                ItemOutcome::Ended(answered) => Some(answered.map(|(reply, _)| reply)),
                ItemOutcome::Alone => None,
            }
        };
        let outcomes = slots.into_iter().map(outcome).collect();
        assert_eq!(waiters.outcomes.in_use(), 0);
        outcomes
    }
}

/// As a link does it, but nothing is repeated.
impl<'a> Batching<'a, Command<'a>, (reply::ItemReply, Moment)> for Arc<Batcher> {
    fn join(
        &'a self,
        command: Command<'a>,
        within: Duration,
        waker: &Waker,
    ) -> CommandStep<'a, (reply::ItemReply, Moment)> {
        let until = Instant::now() + within;
        match self.begin(command, within, until, waker) {
            BegunCommand::Waits(waiting) if self.keeps_deadlines() => {
                CommandStep::Waits(waiting.ticket(until))
            }
            begun => CommandStep::GoesOn(Box::pin(self.finish(command, begun, within, until))),
        }
    }

    fn resume(
        &'a self,
        command: Command<'a>,
        ticket: Ticket,
        waker: &Waker,
    ) -> CommandStep<'a, (reply::ItemReply, Moment)> {
        let until = ticket.until;
        match Batcher::resume(self, ticket, waker) {
            Resumed::Waits(ticket) => CommandStep::Waits(ticket),
            Resumed::Ended(answered) => CommandStep::Ended(answered),
            Resumed::GoesOn(begun) => {
                let left = until.saturating_duration_since(Instant::now());
                CommandStep::GoesOn(Box::pin(self.finish(command, begun, left, until)))
            }
        }
    }

    fn leave(&self, _: Command<'a>, ticket: Ticket) {
        self.dropped(&ticket);
    }
}
