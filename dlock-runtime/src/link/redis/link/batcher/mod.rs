//! Batching, the one group commit: while earlier commands of a connection are in flight, callers'
//! exclusive acquires and releases are collected and sent as one script, releases first
//! (`lua/combined.lua`). A node's commands and the heartbeats of waiters have batchers of their own
//! ([`BatchSort`]); all other commands are sent by themselves. `link::batched::state` decides what waits and what is
//! sent, `command` is one item on the wire, `heartbeats` is what differs for those, `flusher` is the
//! task that sends a batch, `kept` is a node's command that is sent even if its caller goes,
//! `outcomes` keeps what became of an item until its caller reads it, `waiting` is that caller.
//!
//! - **No caller waits for another's answer**: while fewer than two commands are in flight, a caller
//!   sends its own command at once (unless the latest batch was full, at a node: large). Otherwise
//!   it queues an item, and a flusher, a task of the connection's runtime, sends what is queued when
//!   it runs. It waits only for the tasks that were ready before it, so a caller that is dropped or
//!   no longer polled delays nobody. On a runtime that is driven by one thread, the caller whose item
//!   fills a batch sends that at once, and polls the connection's I/O once (`io_task`).
//! - **Withdrawn or sent**: a caller that goes before its item is on the wire withdraws it, and
//!   nothing was sent; one that goes later leaves the item as it is. Both happen under the one
//!   lock, under which a batch is also taken and put into the connection's pipe; so a `cancel` that
//!   is sent after a dropped acquire never overtakes it, and items leave in their order although two
//!   flushers may be at work.
//! - **A node's commands** (`lua/node.lua`) are sent even if their callers have gone: the command
//!   that takes a vote back follows the vote, and would find nothing if that came later.
//! - **Heartbeats** wait until a window is over or a batch is full. One that is alone, or that the
//!   command could not answer, becomes a poll of its own.
//! - **Each item has its own deadline**: if it passes while the item waits, nothing was sent; if
//!   later, the outcome is unclear. On a runtime of one thread the flusher keeps the deadlines,
//!   with one timer for a batch: if the flusher does not run, no timer of that runtime does either.
//!   So a caller keeps only a ticket there (`link::batched`). Elsewhere, even if it is moved there
//!   while it waits, each caller has its own timer, and a box for it; so has the caller of a
//!   heartbeat, whose flusher sleeps.
//! - **A flusher may be stuck**: on a runtime of many threads, behind a task that queued an item
//!   and then blocks its thread; no other thread takes the flusher over. A caller that sees no
//!   batch taken for `STUCK_AFTER` withdraws its item and sends it itself; at a node it starts a
//!   second flusher. The connection's own task
//!   can be stuck in the same way behind a caller that has sent its command itself: nothing helps
//!   against that, and the others wait until that thread goes on.
//!
//! Never in this folder: the lock held across an `await`, or a call under it that takes another
//! lock of ours or drops or wakes a waker (it may be cloned under it).

mod command;
mod flusher;
mod heartbeats;
mod kept;
mod outcomes;
mod waiting;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::unconstrained;
use tokio::time::Instant;

pub(crate) use crate::link::batched::state::MOST;

pub(crate) use self::command::{Command, OwnedCommand};
use self::flusher::Flusher;
pub(crate) use self::heartbeats::HeartbeatPace;
use self::kept::Kept;
use self::outcomes::{Outcomes, SlotId};
pub(super) use self::waiting::Resumed;
use self::waiting::WaitingItem;
use super::connection::Connection;
use crate::link::Answer;
use crate::link::batched::state::{BatcherState, Takes};
use crate::link::command_error::CommandError;
use crate::link::redis::reply;
use crate::link::redis::scripts::Script;
use crate::strangers::CallersWaker;
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::shown::rounded;

/// A flusher normally runs within one turn of the executor, which is much shorter.
const STUCK_AFTER: Duration = Duration::from_millis(10);

/// The batcher of one connection.
#[derive(Debug)]
pub(crate) struct Batcher {
    connection: Arc<Connection>,
    /// Every command is sent by itself.
    is_off: bool,
    sort: BatchSort,
    waiters: Mutex<Waiters>,
}

/// Which commands a batcher sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchSort {
    /// Exclusive acquires and releases.
    Exclusive,
    /// Those of a node.
    OfNode,
    /// The routine polls of waiters.
    Heartbeats,
}

#[derive(Debug)]
struct Waiters {
    queue: BatcherState<BatchItem>,
    outcomes: Outcomes<ItemOutcome>,
}

/// The command of one waiting caller.
struct BatchItem {
    command: OwnedCommand,
    within: Duration,
    /// The end of `within`.
    until: Instant,
    /// Where its caller finds the outcome; `None`: the outcome is there.
    slot: Option<SlotId>,
}

impl fmt::Debug for BatchItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

/// The answer to an item, and when it was sent.
pub(crate) type ItemAnswer = Result<(reply::ItemReply, Moment), CommandError>;

/// What became of an item.
#[derive(Debug)]
pub(super) enum ItemOutcome {
    Ended(ItemAnswer),
    /// Nothing was executed, perhaps because of another item: the caller sends its command itself.
    Alone,
}

/// How far a command has got.
pub(super) enum BegunCommand<'a> {
    /// Its caller sends it by itself, at once.
    Alone(Option<InFlight<'a>>),
    Waits(WaitingItem<'a>),
}

impl Batcher {
    /// `most`: the maximum number of items in one script; 0 turns batching off.
    pub(super) fn new(connection: &Arc<Connection>, most: usize) -> Arc<Self> {
        Self::of(connection, BatchSort::Exclusive, most, Takes::Half)
    }

    /// The batcher of a node's commands: all are sent, in order of arrival.
    pub(super) fn of_node(connection: &Arc<Connection>) -> Arc<Self> {
        Self::of(connection, BatchSort::OfNode, MOST, Takes::All)
    }

    fn of(connection: &Arc<Connection>, sort: BatchSort, most: usize, takes: Takes) -> Arc<Self> {
        Arc::new(Self {
            connection: connection.clone(),
            is_off: most == 0,
            sort,
            waiters: Mutex::new(Waiters {
                queue: BatcherState::new(most, takes),
                outcomes: Outcomes::new(),
            }),
        })
    }

    /// The answer of the item's own script, and when it was sent. `until` is the end of `within`.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice, and every command boxes this future"
    )]
    pub(crate) fn run<'a>(
        self: &'a Arc<Self>,
        command: Command<'a>,
        within: Duration,
        until: Instant,
    ) -> impl Future<Output = ItemAnswer> + Send + use<'a> {
        async move {
            let begun = self.begun(command, within, until).await;
            self.finish(command, begun, within, until).await
        }
    }

    /// Begins a command at once. What follows has to be polled in the same poll.
    pub(super) fn begun<'a>(
        self: &'a Arc<Self>,
        command: Command<'a>,
        within: Duration,
        until: Instant,
    ) -> impl Future<Output = BegunCommand<'a>> + Send + use<'a> {
        poll_fn(move |cx| Poll::Ready(self.begin(command, within, until, cx.waker())))
    }

    /// Begins a command. The waker is that of the first poll of what follows, which comes at once.
    pub(super) fn begin(
        self: &Arc<Self>,
        command: Command<'_>,
        within: Duration,
        until: Instant,
        waker: &Waker,
    ) -> BegunCommand<'_> {
        if self.is_off {
            return BegunCommand::Alone(None);
        }
        let mut waiters = self.waiters();
        let now = || until - within; // as the caller has read it
        if waiters.queue.claim_lone_flight(now) {
            drop(waiters);
            return BegunCommand::Alone(Some(InFlight(self)));
        }
        let slot = waiters.outcomes.open(waker);
        let item = BatchItem {
            command: command.to_owned(),
            within,
            until,
            slot: Some(slot),
        };
        let (id, needs_flusher) = waiters.queue.wait(command.is_release(), item);
        let is_full = waiters.queue.has_full_batch();
        drop(waiters);
        let waiting = WaitingItem::new(self, id, slot);
        if needs_flusher {
            self.flush();
        } else if is_full && self.sort == BatchSort::Heartbeats {
            let flusher = Flusher::for_full_batch(self).send_batch();
            self.connection.runtime.spawn(flusher);
        } else if is_full && self.keeps_deadlines() {
            self.flush_full_batch();
        }
        BegunCommand::Waits(waiting)
    }

    /// The answer to a command that has begun.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice, and every command boxes this future"
    )]
    pub(super) fn finish<'a>(
        &'a self,
        command: Command<'a>,
        begun: BegunCommand<'a>,
        within: Duration,
        until: Instant,
    ) -> impl Future<Output = ItemAnswer> + Send + use<'a> {
        async move {
            let mut waiting = match begun {
                BegunCommand::Alone(_in_flight) => return self.alone(command, within).await,
                BegunCommand::Waits(waiting) => waiting,
            };
            if let ItemOutcome::Ended(answered) = waiting.outcome(within, until).await? {
                return answered;
            }
            let left = until.saturating_duration_since(Instant::now());
            self.alone(command, left).await
        }
    }

    /// Boxed, so that the future of a caller that waits for a batch stays small.
    fn alone<'a>(
        &'a self,
        command: Command<'a>,
        within: Duration,
    ) -> Answer<'a, (reply::ItemReply, Moment)> {
        Box::pin(async move {
            let connection = &self.connection;
            let (reply, sent) = if self.sort == BatchSort::OfNode {
                let kept = pin!(self.kept(command));
                connection.call(within, kept).await?
            } else {
                // Unconstrained: tokio's cooperative budget must not keep the first poll from
                // sending it, or what its caller sends next overtakes it.
                let answered = connection.run(within, |by| command.alone(connection, by));
                unconstrained(answered).await?
            };
            Ok((command.read(reply, connection)?, sent))
        })
    }

    fn kept(&self, command: Command<'_>) -> Kept {
        let (connection, command) = (self.connection.clone(), command.to_owned());
        let (runtime, within) = (connection.runtime.clone(), connection.command_timeout);
        let query = async move {
            let mut multiplexed = connection.multiplexed.clone();
            let call = |by| command.command().alone(&connection, by);
            Script::run(&mut multiplexed, connection.reading.now(), call).await
        };
        Kept::new(query, &runtime, within)
    }

    /// Whether the flusher keeps the deadlines of the items that are queued here. One that waits for
    /// a window does not.
    pub(super) fn keeps_deadlines(&self) -> bool {
        let flavor = self.connection.runtime.runtime_flavor(); // costs less than `is_here`
        let is_awake = self.sort != BatchSort::Heartbeats;
        is_awake && flavor == RuntimeFlavor::CurrentThread && self.is_here()
    }

    /// Whether a flusher that has not run for a while is behind a task that blocks its thread.
    fn may_be_stuck(&self) -> bool {
        self.sort != BatchSort::Heartbeats && self.is_here()
    }

    /// Whether the caller's thread has entered the connection's runtime.
    fn is_here(&self) -> bool {
        let runtime = &self.connection.runtime;
        Handle::try_current().is_ok_and(|here| here.id() == runtime.id())
    }

    fn flush(self: &Arc<Self>) {
        self.connection.runtime.spawn(Flusher::new(self).run());
    }

    /// Sends a batch at once, a full one unless another thread has just taken some of it. The
    /// flusher that is pending sends the rest.
    fn flush_full_batch(self: &Arc<Self>) {
        let mut flusher = Box::pin(Flusher::for_full_batch(self).send_batch());
        let mut cx = Context::from_waker(Waker::noop()); // its own task polls it again
        if flusher.as_mut().poll(&mut cx).is_pending() {
            self.connection.runtime.spawn(flusher);
        }
        // Otherwise the batch would leave the pipe only after all tasks that are ready have run.
        self.connection.io_task.run_now();
    }

    /// Ends items, and wakes their callers after unlocking.
    fn end(&self, items: impl IntoIterator<Item = (Option<SlotId>, ItemOutcome)>) {
        let mut waiters = self.waiters();
        let items = items.into_iter();
        let mut callers = Vec::with_capacity(items.size_hint().1.unwrap_or_default());
        callers.extend(items.filter_map(|(slot, outcome)| waiters.outcomes.end(slot?, outcome)));
        drop(waiters);
        callers.into_iter().for_each(CallersWaker::wake);
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_sent(within: Duration) -> CommandError {
    CommandError::Unsent(Reason::new(format_args!(
        "not sent within {:?}",
        rounded(within)
    )))
}

/// A command that its caller sends itself; counts as in flight until it is answered or dropped.
pub(super) struct InFlight<'a>(&'a Batcher);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.waiters().queue.ended(1);
    }
}
