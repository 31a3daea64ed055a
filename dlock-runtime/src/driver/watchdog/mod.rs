//! Watches over leases: renews them, ends them at their deadline, and cleans up after tokens that
//! have no owner any more.
//!
//! Two hosts: `thread` for remote servers (so that a body that blocks its executor, or a runtime
//! that ends, loses no lease) and `caller` for `memory://` (all steps stay on the caller's runtime,
//! whose clock may be paused). `lease_table` is what both do, and `look` what both tell operators once
//! a second.
//!
//! Never in this folder: when to renew, or when a lease is over (`client::lease`,
//! `client::tokens`).

mod caller;
mod lease_table;
mod look;
mod thread;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::lease_table::LeaseTable;
use crate::client::tokens::{Census, Extension};
use crate::link::{Backend, Link, WatchdogKind};
use crate::observe::Observers;
use crate::rules::commands::{Claim, Keep, Renewed, RunOutcome};
use crate::strangers::beside_others;
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

use super::lease_cell::LeaseCell;
use super::shared::{PoolSnapshot, SharedClient};

/// The least time between two clean-ups of unknown grants.
const STRAYS_AT_LEAST_APART: Duration = Duration::from_millis(50);

/// A pool's watchdog.
#[derive(Debug)]
pub(crate) struct Watchdog {
    leases: Arc<LeaseTable>,
    kind: WatchdogKind,
}

impl Watchdog {
    /// Starts the watchdog that the backend's leases need.
    pub(super) fn start(
        shared: Arc<SharedClient>,
        backend: Arc<dyn Backend>,
        observers: Arc<Observers>,
    ) -> Result<Self, LockError> {
        let kind = backend.watchdog();
        let leases = Arc::new(LeaseTable {
            shared,
            backend,
            warned: AtomicBool::new(false),
            observers,
            runtime: Mutex::default(),
            look: Mutex::default(),
        });
        if kind == WatchdogKind::Thread {
            thread::start(leases.clone())?;
        }
        Ok(Self { leases, kind })
    }

    /// Restarts the watchdog's thread if a panic ended it, so that new leases are watched over.
    pub(crate) fn revive(&self) -> Result<(), LockError> {
        let dead = &self.shared().dead;
        if !dead.load(Ordering::Acquire) || !dead.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let started = thread::start(self.leases.clone());
        started.inspect_err(|_| dead.store(true, Ordering::Release))
    }

    /// The server granted this process a token that no local queue waits for: unless it is known
    /// here in another state, it must be cleaned up. One such token at a time: forged messages
    /// must not make us send a command for each. What is skipped ends with its claim.
    pub(crate) fn stray(&self, token: Token, claim: Claim, stay: Duration) {
        let now = self.shared().clock.now();
        let give_up = now.plus(self.leases.shared.command_timeout + stay);
        let mut state = self.shared().lock();
        if state.next_stray <= now {
            state.next_stray = now.plus(STRAYS_AT_LEAST_APART);
            state.client.tokens.stray(token, claim, give_up, now);
            drop(state);
            // Only wakes the watchdog: the caller is in a place where no command may be sent.
            self.shared().wake.notify_one();
        }
    }

    /// A lease has begun: watches over it from here on.
    pub(super) fn watch(&self, cell: &Arc<LeaseCell>) {
        match self.kind {
            // `SharedClient::begun` has woken it.
            WatchdogKind::Thread if cell.spec().terms.renew.is_some() => {
                self.leases.prepare(cell.spec().name());
            }
            WatchdogKind::Thread => {}
            WatchdogKind::Caller => caller::watch(&self.leases, cell.token(), cell.clone()),
        }
    }

    /// The body begins: keeps the key until this server time; `false` if the lease is over.
    pub(crate) fn keep(&self, token: Token, keep: Keep) -> bool {
        self.shared().lock().client.tokens.keep(token, keep)
    }

    /// The run of a job that runs once per period has ended so.
    pub(crate) fn run_ended(&self, token: Token, outcome: RunOutcome) -> bool {
        self.shared().lock().client.tokens.run_ended(token, outcome)
    }

    /// When a `cancel` that follows an acquire on this link is reported at the latest; `None` if
    /// none can follow it there.
    pub(super) fn cancelled_by(&self, link: &Arc<dyn Link>, now: Moment) -> Option<Moment> {
        link.runtime()
            .map(|_| now.plus(self.leases.shared.command_timeout))
    }

    /// An acquire got no clear answer, or its caller is gone, and its token is being cleaned up.
    /// The first `cancel` is sent on the acquire's own connection, where it can't overtake it.
    pub(super) fn cancel_behind(
        &self,
        token: Token,
        claim: Claim,
        not_after: u64,
        link: Arc<dyn Link>,
    ) {
        let Some(runtime) = link.runtime().cloned() else {
            return self.nudge(token);
        };
        self.shared().wake_if_needed();
        let leases = self.leases.clone();
        runtime.spawn(lease_table::cancel_behind(
            leases, token, claim, not_after, link,
        ));
    }

    /// The release was answered.
    pub(crate) fn released(&self, cell: &LeaseCell) {
        self.shared().update(|tokens| tokens.released(cell.token()));
        if self.kind == WatchdogKind::Caller {
            cell.notify(); // ends its task; nobody else waits for this
        }
    }

    /// No holder is left to release the lock: cleans up after the token.
    pub(crate) fn leave_to_clean_up(&self, token: Token) {
        let now = self.shared().clock.now();
        self.shared()
            .lock()
            .client
            .tokens
            .leave_to_clean_up(token, now);
        self.nudge(token);
    }

    /// A command is about to be sent that makes the lease last `by`; `false` if the lease is over,
    /// or another holder's by now.
    pub(crate) fn extending(&self, token: Token, by: Ttl, cell: &LeaseCell) -> bool {
        let mut state = self.shared().lock();
        !cell.is_released() && state.client.tokens.extending(token, by)
    }

    /// The holder asked for a lease that lasts `by` from `sent` on, and was answered.
    pub(crate) fn extended(
        &self,
        token: Token,
        (sent, by): (Moment, Ttl),
        answer: Renewed,
        cell: &LeaseCell,
    ) -> Extension {
        let mut state = self.shared().lock();
        let now = self.shared().clock.now();
        let extension = (state.client.tokens).extended(token, (sent, by), answer, now);
        drop(state);
        match extension {
            // Its holder has seen that it is over.
            Extension::Until(deadline, cause) if !cell.extend(deadline, cause) => Extension::Over,
            extension => extension,
        }
    }

    /// The server said that the lock is not the token's.
    pub(crate) fn refused(&self, token: Token) {
        let now = self.shared().clock.now();
        let lost = self.shared().lock().client.tokens.refused(token, now);
        self.shared().announce(lost);
    }

    /// A message says that the holder of this token was evicted: the server is asked.
    pub(crate) fn doubted(&self, token: Token, key: &str, is_proved: bool) {
        let mut state = self.shared().lock();
        let holder = (state.client.tokens).doubted(token, key, is_proved);
        drop(state);
        // Only wakes the watchdog: the caller is in a place where no command may be sent.
        match (holder, self.kind) {
            (None, _) => {}
            (Some(_), WatchdogKind::Thread) => self.shared().wake.notify_one(),
            (Some(cell), WatchdogKind::Caller) => cell.notify(),
        }
    }

    pub(crate) fn census(&self) -> Census {
        self.shared().lock().client.tokens.census()
    }

    /// How many locks there are in which state, their holders, and the calls that wait.
    pub(super) fn snapshot(&self) -> PoolSnapshot {
        self.shared().lock().snapshot()
    }

    /// The keys of all locks that are held.
    pub(crate) fn held(&self) -> Vec<Arc<str>> {
        self.shared().lock().client.tokens.held()
    }

    /// The leases of all locks that are held.
    pub(crate) fn holders(&self) -> Vec<Arc<LeaseCell>> {
        self.shared()
            .lock()
            .client
            .tokens
            .holders()
            .cloned()
            .collect()
    }

    /// Ends when this holds. It is asked at once, and soon after a token may have been forgotten, or
    /// somebody [says](Self::look_again) so. Needs timers.
    pub(super) async fn when(&self, is_so: impl Fn() -> bool) {
        loop {
            let fewer = self.shared().fewer.notified();
            self.shared().lock().is_draining = true;
            let begun = self.shared().clock.now();
            if is_so() {
                return;
            }
            let took = begun.until(self.shared().clock.now());
            beside_others(fewer).await;
            // Each of many locks that end is a reason to look at all that are left.
            if !took.is_zero() {
                tokio::time::sleep(took).await;
            }
        }
    }

    /// What [`when`](Self::when) waits for may hold now.
    pub(super) fn look_again(&self) {
        self.shared().fewer.notify_waiters();
    }

    /// In a forked child: leaks what it shared with the watchdog's thread, which does not exist
    /// there.
    pub(crate) fn stay(&self) {
        std::mem::forget(self.leases.clone());
    }

    pub(super) fn shared(&self) -> &SharedClient {
        &self.leases.shared
    }

    /// Tells the watchdog that something must be done about a token.
    pub(super) fn nudge(&self, token: Token) {
        match self.kind {
            WatchdogKind::Thread => self.shared().wake_if_needed(),
            WatchdogKind::Caller => caller::check(&self.leases, token),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if self.shared().home.is_elsewhere() {
            return;
        }
        self.shared().lock().closing = true;
        self.shared().wake.notify_one();
    }
}

#[cfg(test)]
mod tests;
