//! Combining: what callers want while [`Limits::at_once`] commands of a connection are under way goes out as one script over all
//! of it, releases first (`lua/combined.lua`). Exclusive acquires and releases only; everything else goes by itself.
//! `state` decides who waits for what, `ask` is one item on the wire, `carrier` the task that sends a batch.
//!
//! - **Nobody waits for company**: up to [`Limits::at_once`] go out from the caller's own task, at once. Whose command ends, in
//!   whatever way, leaves its slot to a carrier, a task of the connection's runtime; so a caller that is dropped or no longer
//!   polled stops nobody. One that is never polled again keeps its slot; so nobody waits longer than [`Limits::patience`] for one.
//! - **Withdrawn or sent**: a caller that goes before its item is on the wire takes it back, and nothing was sent; one that
//!   goes later leaves it as it is. Both are decided under the one lock, under which a batch is also put into the
//!   connection's pipe; so a `cancel` that is sent after a dropped acquire never overtakes it.
//! - **Each its own deadline**: over while the item waits, nothing was sent; over later, it is unclear.
//! - The lock is never held across an `await`, and nothing that is called under it takes another.

mod ask;
mod carrier;
mod state;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

pub(in crate::backend::redis) use self::ask::Ask;
use self::carrier::Carrier;
use self::state::{State, Ticket};
use super::wire::Wire;
use crate::backend::Answer;
use crate::backend::fault::Fault;
use crate::backend::redis::reply;
use crate::values::error::Text;

/// What a combiner is measured by.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend::redis) struct Limits {
    /// So many commands of a connection go out before anybody waits.
    pub(in crate::backend::redis) at_once: usize,
    /// At most so many items go into one script.
    pub(in crate::backend::redis) most: usize,
    /// Nobody waits longer for one that is under way: it may be far, or its caller asleep.
    pub(in crate::backend::redis) patience: Duration,
}

impl Limits {
    /// One at once costs few tasks more, four gain nothing for many; beyond 64 items nothing is won, and the server is
    /// busy with one command for longer: these take it about 0.12 ms.
    pub(in crate::backend::redis) const MEASURED: Self = Self {
        at_once: 2,
        most: 64,
        patience: Duration::from_millis(5),
    };

    /// Everything goes by itself.
    pub(super) const OFF: Self = Self {
        at_once: usize::MAX,
        ..Self::MEASURED
    };
}

/// The combiner of one connection.
#[derive(Debug)]
pub(in crate::backend::redis) struct Combiner {
    wire: Arc<Wire>,
    state: Mutex<State<Item>>,
    patience: Duration,
}

/// What one caller waits for.
struct Item {
    ask: Ask<'static>,
    until: Instant,
    /// Closed, under the lock, when its caller goes.
    answer: oneshot::Sender<Outcome>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ask.fmt(f)
    }
}

enum Outcome {
    Answered(reply::Item),
    Failed(Fault),
    /// Nothing was executed, for a reason that may be another item's: ask by yourself.
    Alone,
}

impl Combiner {
    pub(super) fn new(wire: &Arc<Wire>, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            wire: wire.clone(),
            state: Mutex::new(State::new(limits.at_once, limits.most)),
            patience: limits.patience,
        })
    }

    /// What the item's own script answers.
    pub(in crate::backend::redis) async fn ask(
        self: &Arc<Self>,
        ask: Ask<'_>,
        within: Duration,
    ) -> Result<reply::Item, Fault> {
        let now = Instant::now();
        let (until, early) = (now + within, now + within.min(self.patience));
        let Some(mut waiting) = self.wait(&ask, until) else {
            let _slot = Slot(self);
            return self.alone(&ask, within).await;
        };
        match waiting.outcome(early, within, until).await? {
            Outcome::Answered(item) => Ok(item),
            Outcome::Failed(fault) => Err(fault),
            Outcome::Alone => {
                let left = until.saturating_duration_since(Instant::now());
                self.alone(&ask, left).await
            }
        }
    }

    /// `None`: it has a slot, and goes out at once.
    fn wait(self: &Arc<Self>, ask: &Ask<'_>, until: Instant) -> Option<Waiting<'_>> {
        let mut state = self.state();
        if state.goes_at_once() {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let item = Item {
            ask: ask.to_owned(),
            until,
            answer: sender,
        };
        let ticket = state.wait(ask.is_release(), item);
        drop(state);
        Some(Waiting {
            combiner: self,
            ticket,
            answer,
        })
    }

    /// Boxed, so that what waits for a batch stays small.
    fn alone<'a>(&'a self, ask: &'a Ask<'_>, within: Duration) -> Answer<'a, reply::Item> {
        Box::pin(async move {
            let deletes = &self.wire.deletes;
            let call = ask.call(deletes.native());
            let reply = self.wire.script_on(ask.lock(), call, within).await?;
            if ask.is_release() {
                deletes.answered(&reply);
            }
            Ok(reply::Item::Other(reply))
        })
    }

    fn carry(self: &Arc<Self>) {
        self.wire.runtime.spawn(Carrier::new(self).run());
    }

    fn state(&self) -> MutexGuard<'_, State<Item>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a command that its caller sends; it goes to those who wait when that ends.
struct Slot<'a>(&'a Arc<Combiner>);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let somebody_waits = self.0.state().ended();
        if somebody_waits {
            self.0.carry();
        }
    }
}

/// A caller whose item waits, or is in a batch.
struct Waiting<'a> {
    combiner: &'a Arc<Combiner>,
    ticket: Ticket,
    answer: oneshot::Receiver<Outcome>,
}

impl Waiting<'_> {
    /// `early`: when it has waited for long.
    async fn outcome(
        &mut self,
        early: Instant,
        within: Duration,
        until: Instant,
    ) -> Result<Outcome, Fault> {
        let answer = timeout_at(early, &mut self.answer).await;
        let answer = if let Ok(answer) = answer {
            answer
        } else {
            self.hurry();
            let Ok(answer) = timeout_at(until, &mut self.answer).await else {
                return self.too_late(within);
            };
            answer
        };
        answer.map_err(|_| Fault::Unclear(Text::new("the runtime of the connection has ended")))
    }

    /// A carrier beyond those of the slots, if it is not sent yet.
    fn hurry(&self) {
        let gets_a_slot = self.combiner.state().hurry(self.ticket);
        if gets_a_slot {
            self.combiner.carry();
        }
    }

    fn too_late(&mut self, within: Duration) -> Result<Outcome, Fault> {
        if self.withdraw() {
            return Err(Fault::Unsent(Text::new(format_args!(
                "not sent within {within:?}"
            ))));
        }
        match self.answer.try_recv() {
            Ok(answer) => Ok(answer), // at the last moment
            Err(_) => Err(self.combiner.wire.no_answer(within)),
        }
    }

    /// From here on it is not sent if it was not before; whether it was certainly not.
    fn withdraw(&mut self) -> bool {
        let mut state = self.combiner.state();
        self.answer.close();
        let withdrawn = state.withdraw(self.ticket);
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
