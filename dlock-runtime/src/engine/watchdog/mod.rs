//! Watches over leases: renews them, ends them at their deadline, cleans up after tokens that
//! nobody owns.
//!
//! Two hosts: `thread` for servers elsewhere (so that a body which blocks its executor, or a
//! runtime that ends, loses nothing) and `caller` for `memory://` (no step leaves the caller's
//! runtime, whose clock may be paused). `work` is what both do.
//!
//! Never in this folder: when to renew, or when a lease is over (`policy::lease`,
//! `policy::tokens`).

mod caller;
mod lease_table;
mod thread;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use self::lease_table::LeaseTable;
use crate::backend::{Backend, Link, WatchdogKind};
use crate::policy::commands::Claim;
use crate::policy::tokens::Census;
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

use super::lease_cell::LeaseCell;
use super::shared::Shared;

/// How often a grant that nobody knows is cleaned up after.
const STRAYS_AT_LEAST_APART: Duration = Duration::from_millis(50);

/// A pool's watchdog.
#[derive(Debug)]
pub(crate) struct Watchdog {
    work: Arc<LeaseTable>,
    kind: WatchdogKind,
}

impl Watchdog {
    /// Starts the watchdog that the backend's leases need.
    pub(super) fn start(shared: Arc<Shared>, backend: Arc<dyn Backend>) -> Result<Self, LockError> {
        let kind = backend.watchdog();
        let work = Arc::new(LeaseTable {
            shared,
            backend,
            warned: AtomicBool::new(false),
        });
        if kind == WatchdogKind::Thread {
            thread::start(work.clone())?;
        }
        Ok(Self { work, kind })
    }

    /// Starts the watchdog's thread again if it ended by a panic, so that what comes is watched
    /// over.
    pub(crate) fn revive(&self) -> Result<(), LockError> {
        let mut state = self.shared().lock();
        if !std::mem::take(&mut state.dead) {
            return Ok(());
        }
        drop(state);
        thread::start(self.work.clone()).inspect_err(|_| self.shared().lock().dead = true)
    }

    /// The server granted this process a token that is no gate's: unless somebody here knows it, it
    /// has to go. One at a time: who forges such messages must not make us send a command for each;
    /// what is left ends with its claim.
    pub(crate) fn stray(&self, token: Token, claim: Claim, stay: Duration) {
        let now = self.shared().clock.now();
        let give_up = now.plus(self.work.shared.command_timeout + stay);
        let mut state = self.shared().lock();
        if state.next_stray <= now {
            state.next_stray = now.plus(STRAYS_AT_LEAST_APART);
            state.tokens.stray(token, claim, give_up, now);
            drop(state);
            self.shared().wake.notify_one(); // never at once: this is called from where nothing may be sent
        }
    }

    /// A lease has begun: watches over it from here on.
    pub(super) fn watch(&self, token: Token, cell: &Arc<LeaseCell>) {
        match self.kind {
            WatchdogKind::Thread => {} // woken by who has the lock
            WatchdogKind::Caller => caller::watch(&self.work, token, cell.clone()),
        }
    }

    /// The body begins: the key stays until this server time; `false` when the lease is over.
    pub(crate) fn keep_until(&self, token: Token, until: u64) -> bool {
        self.shared().lock().tokens.keep(token, until)
    }

    /// By when a `cancel` behind an acquire on this link is reported; `None`: nothing can go behind
    /// it.
    pub(super) fn cancelled_by(&self, link: &Arc<dyn Link>, now: Moment) -> Option<Moment> {
        link.runtime()
            .map(|_| now.plus(self.work.shared.command_timeout))
    }

    /// An acquire got no clear answer, or its caller is gone, and it is being cleaned up after. The
    /// first `cancel` follows it on its own connection, where it can't overtake it.
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
        let work = self.work.clone();
        runtime.spawn(lease_table::cancel_behind(
            work, token, claim, not_after, link,
        ));
    }

    /// The release was answered.
    pub(crate) fn released(&self, token: Token, cell: &LeaseCell) {
        self.shared().update(|tokens| tokens.released(token));
        cell.notify();
    }

    /// Nobody is left who would release it.
    pub(crate) fn hand_over(&self, token: Token) {
        let now = self.shared().clock.now();
        self.shared().lock().tokens.hand_over(token, now);
        self.nudge(token);
    }

    /// A command is about to be sent that makes the lease last `by`; `false` when it is over, or
    /// this holder's no longer.
    pub(crate) fn extending(&self, token: Token, by: Ttl, cell: &LeaseCell) -> bool {
        let mut state = self.shared().lock();
        !cell.is_released() && state.tokens.extending(token, by)
    }

    /// The lease now lasts `by` from `sent` on; `false` if it is over.
    pub(crate) fn extended(&self, token: Token, sent: Moment, by: Ttl, cell: &LeaseCell) -> bool {
        let mut state = self.shared().lock();
        let now = self.shared().clock.now();
        let deadline = state.tokens.extended(token, sent, by, now);
        drop(state);
        deadline.is_some_and(|(deadline, cause)| cell.extend(deadline, cause))
    }

    /// The server said that the lock is not the token's.
    pub(crate) fn refused(&self, token: Token) {
        let now = self.shared().clock.now();
        let lost = self.shared().lock().tokens.refused(token, now);
        self.shared().announce(lost);
    }

    pub(crate) fn census(&self) -> Census {
        self.shared().lock().tokens.census()
    }

    /// The keys of all locks that are held.
    pub(crate) fn held(&self) -> Vec<Arc<str>> {
        self.shared().lock().tokens.held()
    }

    /// Ends when no token is left.
    pub(crate) async fn drained(&self) {
        loop {
            let fewer = self.shared().fewer.notified();
            if self.census() == Census::default() {
                return;
            }
            fewer.await;
        }
    }

    /// In a forked child: what it shares with its thread, which is not here, outlives it.
    pub(crate) fn stay(&self) {
        std::mem::forget(self.work.clone());
    }

    fn shared(&self) -> &Shared {
        &self.work.shared
    }

    /// Something has to be done about a token.
    pub(super) fn nudge(&self, token: Token) {
        match self.kind {
            WatchdogKind::Thread => self.shared().wake_if_needed(),
            WatchdogKind::Caller => caller::look(&self.work, token),
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
