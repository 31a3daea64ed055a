//! Holds one connection: made on demand, and again after it broke.
//!
//! One attempt at a time, in a task of its own, so that a caller's short deadline does not end the
//! attempt. Attempts are spaced out, those too whose connection is lost soon after its handshake,
//! so that an outage costs about one attempt a second, however many callers wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connect::connect;
use crate::client::retry::{self, Jitter};
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::plan::Plan;
use crate::strangers::beside_others;
use crate::values::error::Reason;

/// The pause after an attempt that panicked.
const AFTER_A_PANIC: Duration = Duration::from_millis(500);

/// A connection that is missed sooner after its handshake counts as an attempt that failed: the
/// server may shake hands and end the connection at the first command. One that lasted longer is
/// replaced at once.
const LASTED: Duration = Duration::from_millis(400);

/// So many attempts in a row count at most if the server has answered commands on the last
/// connection: the pause is 100 ms then, so that who needs a lock meanwhile gets it in time.
const ROWS_OF_WORKING: u32 = 3;

/// A link that a slot makes.
pub(crate) trait Slotted: Sized + Send + Sync + 'static {
    type Plan: Send + Sync + 'static;

    /// One attempt.
    fn connect(plan: &Self::Plan) -> impl Future<Output = Result<Self, CommandError>> + Send;

    fn is_usable(&self) -> bool;

    /// Whether the server has answered a command since the handshake.
    fn has_answered(&self) -> bool;

    /// Whether it works, and another server is the one to ask.
    fn is_outdated(&self) -> bool {
        false
    }
}

impl Slotted for RedisLink {
    type Plan = Plan;

    async fn connect(plan: &Plan) -> Result<Self, CommandError> {
        let attempt = plan.attempts.begin();
        let ended = connect(plan).await;
        plan.connected(attempt, ended.as_ref().map(|_| ()));
        ended
    }

    fn is_usable(&self) -> bool {
        self.connection.is_usable()
    }

    fn has_answered(&self) -> bool {
        self.connection.has_answered()
    }

    fn is_outdated(&self) -> bool {
        self.connection.is_outdated()
    }
}

#[derive(Debug)]
pub(crate) struct Slot<L = RedisLink> {
    state: Mutex<SlotInner<L>>,
    /// Notified when an attempt has ended.
    ended: Notify,
}

#[derive(Debug)]
struct SlotInner<L> {
    live: Option<Arc<L>>,
    connecting: bool,
    /// The last attempt, which may have ended.
    attempt: Option<AbortHandle>,
    /// `failed`: attempts that failed since the slot was made; `in_a_row`: all attempts since the
    /// last connection that lasted.
    failed: u64,
    in_a_row: u32,
    next_attempt: Option<Instant>,
    last: Option<CommandError>,
    /// When the live connection was made.
    made: Option<Instant>,
}

impl<L> Default for Slot<L> {
    fn default() -> Self {
        let state = Mutex::new(SlotInner {
            live: None,
            connecting: false,
            attempt: None,
            failed: 0,
            in_a_row: 0,
            next_attempt: None,
            last: None,
            made: None,
        });
        Self {
            state,
            ended: Notify::new(),
        }
    }
}

impl<L: Slotted> SlotInner<L> {
    fn usable(&self) -> Option<&Arc<L>> {
        let live = self.live.as_ref();
        live.filter(|link| link.is_usable())
    }

    /// The next attempt is to come a pause after `since`, when the last one ended.
    fn pause(&mut self, since: Instant) {
        let mut jitter = Jitter::seeded(self.failed ^ u64::from(self.in_a_row));
        let pause = retry::after_failure(self.in_a_row, &mut jitter);
        self.next_attempt = Some(since + pause);
    }

    /// The last connection is missed: it is lost, or goes to a master that was replaced.
    fn missed(&mut self, lost: &L) {
        let made = self.made.take().filter(|made| made.elapsed() < LASTED);
        let Some(made) = made.filter(|_| !lost.is_outdated()) else {
            self.in_a_row = 0;
            return;
        };
        if lost.has_answered() {
            self.in_a_row = self.in_a_row.min(ROWS_OF_WORKING);
        }
        self.pause(made);
        self.last = Some(CommandError::Unsent(Reason::new(
            "the connection was lost soon after its handshake",
        )));
    }
}

enum SlotState<L> {
    Live(Arc<L>),
    Failed(CommandError),
    /// An attempt is under way; this many have failed before it.
    Connecting(u64),
}

impl<L: Slotted> Slot<L> {
    /// The connection. Waits for an attempt to make it, and returns that attempt's error if it
    /// fails.
    pub(crate) async fn link(
        self: &Arc<Self>,
        plan: &Arc<L::Plan>,
        within: Duration,
    ) -> Result<Arc<L>, CommandError> {
        if let Some(link) = self.live() {
            return Ok(link);
        }
        let deadline = Instant::now() + within;
        let mut failed_before = None;
        loop {
            let ended = self.ended.notified();
            match self.state(plan, failed_before) {
                SlotState::Live(link) => return Ok(link),
                SlotState::Failed(error) => return Err(error),
                SlotState::Connecting(failed) => failed_before.get_or_insert(failed),
            };
            if tokio::time::timeout_at(deadline, beside_others(ended))
                .await
                .is_err()
            {
                let last = self.lock().last.clone();
                return Err(last.unwrap_or_else(|| CommandError::not_connected("", within)));
            }
        }
    }

    /// Begins an attempt on the current runtime, unless there is a connection or an attempt is under
    /// way.
    pub(crate) fn begin(self: &Arc<Self>, plan: &Arc<L::Plan>) {
        self.state(plan, None);
    }

    /// The connection, if there is one that works; a broken one is dropped here.
    pub(crate) fn live(&self) -> Option<Arc<L>> {
        let mut state = self.lock();
        let lost = state.live.take_if(|link| !link.is_usable());
        if let Some(lost) = lost {
            state.missed(&lost);
        }
        state.live.clone()
    }

    /// The same; a broken one stays.
    pub(crate) fn usable(&self) -> Option<Arc<L>> {
        self.lock().usable().cloned()
    }

    pub(crate) fn works(&self) -> bool {
        self.lock().usable().is_some()
    }

    fn state(self: &Arc<Self>, plan: &Arc<L::Plan>, failed_before: Option<u64>) -> SlotState<L> {
        if let Some(link) = self.live() {
            return SlotState::Live(link);
        }
        let mut state = self.lock();
        let failed = state.failed;
        let spaced_out = state.next_attempt.is_some_and(|at| Instant::now() < at);
        if let Some(error) = &state.last
            && (failed_before.is_some_and(|before| failed > before)
                || (spaced_out && !state.connecting && !error.may_pass()))
        {
            return SlotState::Failed(error.clone());
        }
        if !state.connecting {
            state.connecting = true;
            let pause_until = state.next_attempt;
            // Not under the lock: a runtime that is shutting down drops the task at once, which
            // ends the attempt.
            drop(state);
            let attempt = ConnectAttempt::new(self.clone()).run(plan.clone(), pause_until);
            let attempt = tokio::spawn(attempt).abort_handle();
            self.lock().attempt = Some(attempt);
        }
        SlotState::Connecting(failed)
    }

    /// Ends an attempt that nobody waits for any more.
    pub(crate) fn abandon(&self) {
        let attempt = self.lock().attempt.take();
        if let Some(attempt) = attempt {
            attempt.abort(); // not under the lock, which its drop takes
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotInner<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt to connect; its drop notifies all waiting callers, however it ended.
struct ConnectAttempt<L: Slotted> {
    slot: Arc<Slot<L>>,
    ended: Option<Result<L, CommandError>>,
}

impl<L: Slotted> ConnectAttempt<L> {
    fn new(slot: Arc<Slot<L>>) -> Self {
        Self { slot, ended: None }
    }

    async fn run(mut self, plan: Arc<L::Plan>, pause_until: Option<Instant>) {
        if let Some(at) = pause_until {
            tokio::time::sleep_until(at).await;
        }
        self.ended = Some(L::connect(&plan).await);
    }
}

impl<L: Slotted> Drop for ConnectAttempt<L> {
    fn drop(&mut self) {
        let mut state = self.slot.lock();
        state.connecting = false;
        match self.ended.take() {
            Some(Ok(link)) => {
                state.live = Some(Arc::new(link));
                state.in_a_row = state.in_a_row.saturating_add(1);
                (state.next_attempt, state.last) = (None, None);
                state.made = Some(Instant::now());
            }
            Some(Err(error)) => {
                state.failed += 1;
                state.in_a_row = state.in_a_row.saturating_add(1);
                state.pause(Instant::now());
                state.last = Some(error);
            }
            None => {
                // Counts as a failure, so that no caller retries at once on a runtime that is
                // ending.
                state.failed += 1;
                state.next_attempt = Some(Instant::now() + AFTER_A_PANIC);
                state.last = Some(CommandError::Unsent(Reason::new(
                    "the attempt to connect ended early: its tokio runtime is shutting down, or a provider of credentials or a connector panicked",
                )));
            }
        }
        drop(state);
        self.slot.ended.notify_waiters();
    }
}
