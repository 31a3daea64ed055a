//! Batching: while earlier commands of a connection are in flight, callers' exclusive acquires and
//! releases are collected and sent as one script, releases first (`lua/combined.lua`). All other
//! commands are sent by themselves. `state` decides what waits and what is sent, `command` is one
//! item on the wire, `flusher` is the task that sends a batch.
//!
//! - **No caller waits for another's answer**: the first two callers send their commands
//!   themselves, at once. Any other caller queues an item, and one flusher at a time, a task of the
//!   connection's runtime, sends what is queued when it runs. It waits only for the tasks that were
//!   ready before it, so a caller that is dropped or no longer polled delays nobody.
//! - **Withdrawn or sent**: a caller that goes before its item is on the wire withdraws it, and
//!   nothing was sent; one that goes later leaves the item as it is. Both happen under the one
//!   lock, under which a batch is also put into the connection's pipe; so a `cancel` that is sent
//!   after a dropped acquire never overtakes it.
//! - **Each item has its own deadline**: if it passes while the item waits, nothing was sent; if
//!   later, the outcome is unclear. On a runtime of one thread the flusher keeps the deadlines,
//!   with one timer for a batch: if the flusher does not run, no timer of that runtime does either.
//!   Elsewhere each caller has its own timer.
//! - **A flusher may be stuck**: on a runtime of many threads, behind a task that queued an item
//!   and then blocks its thread; no other thread takes the flusher over. A caller that sees no
//!   batch taken for `STUCK_AFTER` withdraws its item and sends it itself.
//!
//! Never in this folder: the lock held across an `await`, or a call under it that takes another
//! lock.

mod command;
mod flusher;
mod state;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot::{self, error::RecvError};
use tokio::time::{Instant, timeout_at};

pub(in crate::backend::redis) use self::command::Command;
use self::flusher::Flusher;
use self::state::{ItemId, State};
use super::connection::Connection;
use crate::backend::Answer;
use crate::backend::command_error::CommandError;
use crate::backend::redis::reply;
use crate::values::error::Reason;
use crate::values::moment::Moment;

/// The maximum number of items in one script. A larger batch gains nothing and occupies the server
/// longer; this one takes it about 0.12 ms.
pub(in crate::backend::redis) const MOST: usize = 64;

/// A flusher normally runs within one turn of the executor, which is much shorter.
const STUCK_AFTER: Duration = Duration::from_millis(10);

/// The batcher of one connection.
#[derive(Debug)]
pub(in crate::backend::redis) struct Batcher {
    connection: Arc<Connection>,
    /// Every command is sent by itself.
    is_off: bool,
    state: Mutex<State<Item>>,
}

/// The command of one waiting caller.
struct Item {
    command: Command<'static>,
    within: Duration,
    /// The end of `within`.
    until: Instant,
    /// Closed, under the lock, when its caller goes; `None`: its caller has the answer.
    answer: Option<oneshot::Sender<Outcome>>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

/// The answer to an item, and when it was sent.
pub(in crate::backend::redis) type Answered = Result<(reply::Item, Moment), CommandError>;

enum Outcome {
    Ended(Answered),
    /// Nothing was executed, perhaps because of another item: the caller sends its command itself.
    Alone,
}

impl Batcher {
    /// `most`: the maximum number of items in one script; 0 turns batching off.
    pub(super) fn new(connection: &Arc<Connection>, most: usize) -> Arc<Self> {
        Arc::new(Self {
            connection: connection.clone(),
            is_off: most == 0,
            state: Mutex::new(State::new(most)),
        })
    }

    /// The answer of the item's own script, and when it was sent. `until` is the end of `within`.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice, and every command boxes this future"
    )]
    pub(in crate::backend::redis) fn run<'a>(
        self: &'a Arc<Self>,
        command: Command<'a>,
        within: Duration,
        until: Instant,
    ) -> impl Future<Output = Answered> + Send + use<'a> {
        async move {
            if self.is_off {
                return self.alone(&command, within).await;
            }
            let Some(mut waiting) = self.wait(&command, within, until) else {
                let _in_flight = InFlight(self);
                return self.alone(&command, within).await;
            };
            match waiting.outcome(within, until).await? {
                Outcome::Ended(answered) => answered,
                Outcome::Alone => {
                    let left = until.saturating_duration_since(Instant::now());
                    self.alone(&command, left).await
                }
            }
        }
    }

    /// `None`: the caller sends its command itself, at once.
    fn wait(
        self: &Arc<Self>,
        command: &Command<'_>,
        within: Duration,
        until: Instant,
    ) -> Option<Waiting<'_>> {
        let mut state = self.state();
        if state.goes_alone() {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let item = Item {
            command: command.to_owned(),
            within,
            until,
            answer: Some(sender),
        };
        let (id, needs_flusher) = state.wait(command.is_release(), item);
        drop(state);
        let waiting = Waiting {
            batcher: self,
            id,
            answer,
        };
        if needs_flusher {
            self.flush();
        }
        Some(waiting)
    }

    /// Boxed, so that the future of a caller that waits for a batch stays small.
    fn alone<'a>(
        &'a self,
        command: &'a Command<'_>,
        within: Duration,
    ) -> Answer<'a, (reply::Item, Moment)> {
        Box::pin(async move {
            let call = command.call(self.connection.deletes.native());
            let (reply, sent) = self
                .connection
                .script_on(command.lock(), call, within)
                .await?;
            self.answered(command, &reply);
            Ok((reply::Item::Other(reply), sent))
        })
    }

    /// Notes the answer to an item that was sent by itself.
    fn answered(&self, command: &Command<'_>, reply: &redis::Value) {
        if command.is_release() {
            self.connection.deletes.answered(reply);
        }
    }

    /// The flavor of the connection's runtime, if the caller runs on it.
    fn flavor_here(&self) -> Option<RuntimeFlavor> {
        let runtime = &self.connection.runtime;
        let is_here = Handle::try_current().is_ok_and(|here| here.id() == runtime.id());
        is_here.then(|| runtime.runtime_flavor())
    }

    fn flush(self: &Arc<Self>) {
        self.connection.runtime.spawn(Flusher::new(self).run());
    }

    fn state(&self) -> MutexGuard<'_, State<Item>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn received(answer: Result<Outcome, RecvError>) -> Result<Outcome, CommandError> {
    answer
        .map_err(|_| CommandError::Unclear(Reason::new("the runtime of the connection has ended")))
}

fn not_sent(within: Duration) -> CommandError {
    CommandError::Unsent(Reason::new(format_args!("not sent within {within:?}")))
}

/// A command that its caller sends itself; counts as in flight until it is answered or dropped.
struct InFlight<'a>(&'a Batcher);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.state().ended(1);
    }
}

/// A caller whose item waits, or is in a batch.
struct Waiting<'a> {
    batcher: &'a Batcher,
    id: ItemId,
    answer: oneshot::Receiver<Outcome>,
}

impl Waiting<'_> {
    async fn outcome(&mut self, within: Duration, until: Instant) -> Result<Outcome, CommandError> {
        let here = self.batcher.flavor_here();
        if here == Some(RuntimeFlavor::CurrentThread) {
            return received((&mut self.answer).await);
        }
        let soon = Instant::now() + STUCK_AFTER;
        if here.is_some() && soon < until {
            match timeout_at(soon, &mut self.answer).await {
                Ok(answer) => return received(answer),
                Err(_) if self.is_stuck() => return Ok(Outcome::Alone),
                Err(_) => {}
            }
        }
        match timeout_at(until, &mut self.answer).await {
            Ok(answer) => received(answer),
            Err(_) => self.too_late(within),
        }
    }

    /// If no batch was taken since the item was queued, withdraws it: it was not sent, and will not
    /// be.
    fn is_stuck(&mut self) -> bool {
        let mut state = self.batcher.state();
        let withdrawn = state.withdraw_if_stuck(self.id);
        if withdrawn.is_some() {
            self.answer.close();
        }
        drop(state);
        withdrawn.is_some()
    }

    fn too_late(&mut self, within: Duration) -> Result<Outcome, CommandError> {
        if self.withdraw() {
            return Err(not_sent(within));
        }
        match self.answer.try_recv() {
            Ok(answer) => Ok(answer), // answered at the last moment
            Err(_) => Err(self.batcher.connection.no_answer(within)),
        }
    }

    /// Withdraws the item if it still waits; returns whether it was certainly not sent.
    fn withdraw(&mut self) -> bool {
        let mut state = self.batcher.state();
        self.answer.close();
        let withdrawn = state.withdraw(self.id);
        drop(state);
        withdrawn.is_some()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answer.is_terminated() {
            self.withdraw();
        }
    }
}
