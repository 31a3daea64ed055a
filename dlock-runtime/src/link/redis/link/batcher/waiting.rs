//! A caller whose item waits, or is in a batch: how it reads the outcome, how it keeps its own
//! deadline where the flusher does not, and how it goes.
//!
//! Invariant: the slot is given up exactly once, by the outcome or by the caller that goes.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::outcomes::SlotId;
use super::{BatchSort, Batcher, BegunCommand, ItemAnswer, ItemOutcome, STUCK_AFTER, not_sent};
use crate::link::batched::Ticket;
use crate::link::batched::state::ItemId;
use crate::link::command_error::CommandError;

/// A caller whose item waits, or is in a batch.
pub(in crate::link::redis::link) struct WaitingItem<'a> {
    batcher: &'a Arc<Batcher>,
    id: ItemId,
    slot: SlotId,
    /// It has not been polled: its waker is known.
    is_new: bool,
    /// The slot is not its own any more: it has the outcome, or has gone.
    is_over: bool,
}

impl<'a> WaitingItem<'a> {
    /// It is polled at once, with the waker that the slot has.
    pub(super) fn new(batcher: &'a Arc<Batcher>, id: ItemId, slot: SlotId) -> Self {
        Self {
            batcher,
            id,
            slot,
            is_new: true,
            is_over: false,
        }
    }

    /// Leaves the item to a caller that comes back to [`Batcher::resume`] or [`Batcher::dropped`].
    pub(in crate::link::redis::link) fn ticket(mut self, until: Instant) -> Ticket {
        self.is_over = true;
        Ticket {
            item: self.id.0,
            slot: self.slot.0,
            until,
        }
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice, and every command boxes this future"
    )]
    pub(super) fn outcome(
        &mut self,
        within: Duration,
        until: Instant,
    ) -> impl Future<Output = Result<ItemOutcome, CommandError>> + Send {
        async move {
            if self.batcher.keeps_deadlines()
                && let Some(outcome) = self.while_here().await
            {
                return Ok(outcome);
            }
            let soon = Instant::now() + STUCK_AFTER;
            if soon < until && self.batcher.may_be_stuck() {
                match timeout_at(soon, &mut *self).await {
                    Ok(outcome) => return Ok(outcome),
                    // Another flusher sends the item, behind those that came earlier.
                    Err(_) if self.batcher.sort == BatchSort::OfNode => {
                        if self.batcher.waiters().queue.is_waiting(self.id) {
                            self.batcher.flush();
                        }
                    }
                    Err(_) if self.is_stuck() => return Ok(ItemOutcome::Alone),
                    Err(_) => {}
                }
            }
            match timeout_at(until, &mut *self).await {
                Ok(outcome) => Ok(outcome),
                Err(_) => self.too_late(within),
            }
        }
    }

    /// `None`: the caller was moved to another runtime, and has to keep its deadline itself.
    async fn while_here(&mut self) -> Option<ItemOutcome> {
        poll_fn(|cx| match Pin::new(&mut *self).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if self.batcher.keeps_deadlines() => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// If no batch was taken since the item was queued, withdraws it: it was not sent, and will not
    /// be.
    fn is_stuck(&mut self) -> bool {
        let mut waiters = self.batcher.waiters();
        let withdrawn = waiters.queue.withdraw_if_stuck(self.id);
        let goes = withdrawn.is_some() && !std::mem::replace(&mut self.is_over, true);
        let former = goes.then(|| waiters.outcomes.leave(self.slot, true));
        drop(waiters);
        drop(former);
        withdrawn.is_some()
    }

    fn too_late(&mut self, within: Duration) -> Result<ItemOutcome, CommandError> {
        self.is_over = true;
        match self.batcher.leave(self.id, self.slot) {
            (_, Some(outcome)) => Ok(outcome), // at the last moment
            (true, None) => Err(not_sent(within)),
            (false, None) => Err(self.batcher.connection.no_answer(within)),
        }
    }
}

impl Future for WaitingItem<'_> {
    type Output = ItemOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ItemOutcome> {
        let is_new = std::mem::take(&mut self.is_new);
        if is_new || self.is_over {
            return Poll::Pending; // nothing new, or polled after its end
        }
        let former = self.batcher.waiters().outcomes.poll(self.slot, cx.waker());
        let outcome = former.outcome();
        self.is_over = outcome.is_some();
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for WaitingItem<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.batcher.gone(self.id, self.slot);
        }
    }
}

/// How a caller goes on that has waited by a ticket.
pub(in crate::link::redis::link) enum Resumed<'a> {
    Waits(Ticket),
    Ended(ItemAnswer),
    /// In a future of its own, in what is left of its time.
    GoesOn(BegunCommand<'a>),
}

/// For callers that wait by a ticket alone.
impl Batcher {
    /// A later poll. While the caller waits it is woken when there is an outcome.
    pub(in crate::link::redis::link) fn resume(
        self: &Arc<Self>,
        ticket: Ticket,
        waker: &Waker,
    ) -> Resumed<'_> {
        let slot = SlotId(ticket.slot);
        let former = self.waiters().outcomes.poll(slot, waker);
        match former.outcome() {
            Some(ItemOutcome::Ended(answered)) => Resumed::Ended(answered),
            Some(ItemOutcome::Alone) => Resumed::GoesOn(BegunCommand::Alone(None)),
            None if self.keeps_deadlines() => Resumed::Waits(ticket),
            None => {
                // It was moved to another runtime.
                let mut waiting = WaitingItem::new(self, ItemId(ticket.item), slot);
                waiting.is_new = false;
                Resumed::GoesOn(BegunCommand::Waits(waiting))
            }
        }
    }

    /// The caller was dropped.
    pub(in crate::link::redis::link) fn dropped(&self, ticket: &Ticket) {
        self.gone(ItemId(ticket.item), SlotId(ticket.slot));
    }

    /// The caller was dropped: a node's item stays.
    fn gone(&self, id: ItemId, slot: SlotId) {
        if self.sort == BatchSort::OfNode {
            let former = self.waiters().outcomes.leave(slot, false);
            drop(former);
        } else {
            self.leave(id, slot);
        }
    }

    /// Withdraws an item if it still waits; returns whether it was certainly not sent, or else its
    /// outcome if there is one.
    fn leave(&self, id: ItemId, slot: SlotId) -> (bool, Option<ItemOutcome>) {
        let mut waiters = self.waiters();
        let withdrawn = waiters.queue.withdraw(id);
        let former = waiters.outcomes.leave(slot, withdrawn.is_some());
        drop(waiters);
        (withdrawn.is_some(), former.outcome())
    }
}
