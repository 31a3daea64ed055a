//! The connections for transactions: each is one task's at a time, from the first `WATCH` until its
//! `EXEC` or `UNWATCH` is answered. A connection that comes back in another state is closed.
//!
//! They are made by the same `slot` as the others: on demand, one attempt at a time, with pauses.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{Pipeline, Value};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::left;
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::plan::Plan;
use crate::strangers::beside_others;
use crate::topology::server::slot::Slot;
use crate::values::error::Reason;
use crate::values::moment::Moment;

/// The most connections for transactions that one runtime has. A transaction is two round trips.
const MOST: usize = 4;

/// The connections of one runtime.
#[derive(Debug)]
pub(crate) struct Checkouts {
    slots: [Arc<Slot>; MOST],
    /// The slots that nobody uses; the last one given back is used next, so that few are open.
    free: Mutex<Vec<Arc<Slot>>>,
    permits: Semaphore,
}

impl Default for Checkouts {
    fn default() -> Self {
        let slots: [Arc<Slot>; MOST] = Default::default();
        Self {
            free: Mutex::new(slots.to_vec()),
            slots,
            permits: Semaphore::new(MOST),
        }
    }
}

impl Checkouts {
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.slots.iter()
    }

    pub(super) async fn check_out(
        &self,
        plan: &Arc<Plan>,
        until: Instant,
    ) -> Result<CheckedOut<'_>, CommandError> {
        let busy = || {
            let why = "all connections for transactions were in use";
            CommandError::Unsent(Reason::new(why))
        };
        let permit = if let Ok(permit) = self.permits.try_acquire() {
            permit
        } else {
            let permit = timeout_at(until, beside_others(self.permits.acquire())).await;
            permit.ok().and_then(Result::ok).ok_or_else(busy)?
        };
        let slot = self.lock().pop().ok_or_else(busy)?;
        let mut checked_out = CheckedOut {
            home: self,
            slot,
            link: None,
            is_clean: true,
            _permit: permit,
        };
        let link = checked_out.slot.link(plan, left(until)).await?;
        checked_out.link = Some(link);
        Ok(checked_out)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Slot>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is used by this task only.
pub(super) struct CheckedOut<'a> {
    home: &'a Checkouts,
    slot: Arc<Slot>,
    link: Option<Arc<RedisLink>>,
    /// Nothing is watched, queued or unanswered.
    is_clean: bool,
    _permit: SemaphorePermit<'a>,
}

impl CheckedOut<'_> {
    /// Sends commands that may begin with `WATCH`. They write nothing, so without their answers
    /// nothing was changed.
    pub(super) async fn watch(
        &mut self,
        commands: Pipeline,
        until: Instant,
    ) -> Result<(Vec<Value>, Moment), CommandError> {
        self.is_clean = false;
        self.exchange(commands, until)
            .await
            .map_err(|error| match error {
                CommandError::Unclear(why) => CommandError::Unsent(why),
                other => other,
            })
    }

    /// Sends a transaction, or `UNWATCH`; once it is answered, nothing is watched any more.
    pub(super) async fn end(
        &mut self,
        commands: Pipeline,
        until: Instant,
    ) -> Result<Vec<Value>, CommandError> {
        self.is_clean = false;
        let (answers, _) = self.exchange(commands, until).await?;
        self.is_clean = true;
        Ok(answers)
    }

    /// The server said its time in answer to a command sent at `sent`.
    pub(super) fn heard(&self, time: u64, sent: Moment) {
        if let Some(link) = &self.link {
            link.connection.heard_time(time, sent);
        }
    }

    /// The server's time now, in µs, as this connection knows it: after a failover the shared
    /// connection may still be to another server.
    pub(super) fn server_time(&self) -> u64 {
        let link = self.link.as_ref();
        link.map_or(0, |link| link.server_time_at(link.connection.clock.now()))
    }

    pub(super) async fn unwatch(&mut self, until: Instant) -> Result<(), CommandError> {
        let mut unwatch = redis::pipe();
        unwatch.cmd("UNWATCH");
        self.end(unwatch, until).await.map(drop)
    }

    async fn exchange(
        &self,
        commands: Pipeline,
        until: Instant,
    ) -> Result<(Vec<Value>, Moment), CommandError> {
        let Some(link) = &self.link else {
            return Err(CommandError::Unsent(Reason::new("no connection")));
        };
        link.connection.exchange(commands, left(until)).await
    }
}

impl Drop for CheckedOut<'_> {
    fn drop(&mut self) {
        let Some(link) = self.link.take().filter(|_| !self.is_clean) else {
            self.home.lock().push(self.slot.clone());
            return;
        };
        link.connection.give_up();
        link.connection.hang_up();
        // Used last, because its next attempt to connect may have to pause.
        self.home.lock().insert(0, self.slot.clone());
    }
}
