//! Watches over leases: renews them, ends them at their deadline, cleans up after tokens that nobody
//! owns. The decisions are `policy::tokens`'; here is who carries them out.
//!
//! Two hosts: `thread` for servers elsewhere (so that a body which blocks its executor, or a runtime
//! that ends, loses nothing) and `caller` for `memory://` (no step leaves the caller's runtime, whose
//! clock may be paused). `work` is what both do, `table` what all share.

mod caller;
mod table;
mod thread;
mod work;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use self::table::Table;
use self::work::Work;
use crate::backend::{Backend, GuardianKind, Link};
use crate::policy::commands::Claim;
use crate::policy::lease::Lease;
use crate::policy::tokens::{Census, ReleaseBy};
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::process::Home;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

use super::lease_cell::LeaseCell;

/// How often a grant that nobody knows is cleaned up after.
const STRAYS_AT_LEAST_APART: Duration = Duration::from_millis(50);

/// A pool's guardian.
#[derive(Debug)]
pub(crate) struct Guardian {
    work: Arc<Work>,
    kind: GuardianKind,
}

impl Guardian {
    /// Starts the guardian that the backend's leases need.
    pub(crate) fn start(
        backend: Arc<dyn Backend>,
        command_timeout: Duration,
    ) -> Result<Self, LockError> {
        let kind = backend.guardian();
        let table = Table {
            home: Home::here(),
            state: Mutex::default(),
            clock: backend.clock(),
            wake: Notify::new(),
            fewer: Notify::new(),
        };
        let work = Arc::new(Work {
            table,
            backend,
            command_timeout,
            warned: AtomicBool::new(false),
        });
        if kind == GuardianKind::Thread {
            thread::start(work.clone())?;
        }
        Ok(Self { work, kind })
    }

    /// Starts the guardian's thread again if it ended by a panic, so that what comes is watched over.
    pub(crate) fn revive(&self) -> Result<(), LockError> {
        let mut state = self.table().lock();
        if !std::mem::take(&mut state.dead) {
            return Ok(());
        }
        drop(state);
        thread::start(self.work.clone()).inspect_err(|_| self.table().lock().dead = true)
    }

    /// An acquire is about to be sent.
    pub(crate) fn acquiring(&self, token: Token, claim: Claim) {
        self.table().lock().tokens.acquiring(token, claim);
    }

    /// The acquire was answered: its token stands in the queue.
    pub(crate) fn queued(&self, token: Token) {
        self.table().lock().tokens.queued(token);
    }

    /// Nobody wants what the server has of this token: a place in the queue, or the lock.
    pub(crate) fn give_up(&self, token: Token, stay: Duration) {
        let now = self.table().clock.now();
        let give_up = now.plus(self.work.command_timeout + stay);
        self.table().lock().tokens.give_up(token, give_up, now);
        self.nudge(token);
    }

    /// The server granted this process a token that is no gate's: unless somebody here knows it, it has
    /// to go. One at a time: who forges such messages must not make us send a command for each; what is
    /// left ends with its claim.
    pub(crate) fn stray(&self, token: Token, claim: Claim, stay: Duration) {
        let now = self.table().clock.now();
        let give_up = now.plus(self.work.command_timeout + stay);
        let mut state = self.table().lock();
        if state.next_stray <= now {
            state.next_stray = now.plus(STRAYS_AT_LEAST_APART);
            state.tokens.stray(token, claim, give_up, now);
            drop(state);
            self.table().wake.notify_one(); // never at once: this is called from where nothing may be sent
        }
    }

    /// The body begins: the key stays until this server time; `false` when the lease is over.
    pub(crate) fn keep_until(&self, token: Token, until: u64) -> bool {
        self.table().lock().tokens.keep(token, until)
    }

    /// The acquire was answered, and created nothing; or its place in the queue is gone.
    pub(crate) fn not_granted(&self, token: Token) {
        self.table().update(|tokens| tokens.not_granted(token));
    }

    /// The lock is ours; watches over it from here on.
    pub(crate) fn granted(&self, token: Token, lease: Lease, cell: Arc<LeaseCell>) {
        let mut state = self.table().lock();
        if state.tokens.granted(token, lease, cell.clone()) && state.dead {
            let now = self.table().clock.now();
            let lost = state.tokens.unguarded(token, now);
            drop(state);
            self.table().announce(lost);
            return;
        }
        drop(state);
        match self.kind {
            GuardianKind::Thread => self.table().wake_if_needed(),
            GuardianKind::Caller => caller::watch(&self.work, token, cell),
        }
    }

    /// An acquire that got no clear answer, or whose caller is gone: nothing of it may stay.
    ///
    /// The first `cancel` follows the acquire on its own connection, where it can't overtake it.
    pub(crate) fn abandoned(
        &self,
        token: Token,
        claim: Claim,
        not_after: u64,
        give_up: Moment,
        link: Arc<dyn Link>,
    ) {
        let now = self.table().clock.now();
        let runtime = link.runtime().cloned();
        let cancelled_by = runtime
            .as_ref()
            .map(|_| now.plus(self.work.command_timeout));
        self.table()
            .lock()
            .tokens
            .abandoned(token, not_after, give_up, cancelled_by, now);
        if cancelled_by.is_some() {
            self.table().wake_if_needed();
        }
        match runtime {
            Some(runtime) => {
                runtime.spawn(work::cancel_behind(
                    self.work.clone(),
                    token,
                    claim,
                    not_after,
                    link,
                ));
            }
            None => self.nudge(token),
        }
    }

    /// The holder wants to give the lock back: who does it?
    pub(crate) fn release(&self, token: Token, now: Moment) -> ReleaseBy {
        let by = self.table().lock().tokens.release(token, now);
        if by == ReleaseBy::Host {
            self.nudge(token);
        }
        by
    }

    /// The holder is done, and the next in line of this process is to have the lock as it is; [`take_back`](Self::take_back)
    /// undoes it. `None`: that can't be.
    pub(crate) fn hand_on(&self, token: Token, cell: &LeaseCell) -> Option<Lease> {
        let now = self.table().clock.now();
        let mut state = self.table().lock();
        let lease = state.tokens.hand_on(token, now)?;
        cell.hand_on(); // under the lock, so that the last word about it can't be said about the next one's lease
        Some(lease)
    }

    /// Nobody is there to take it after all.
    pub(crate) fn take_back(&self, token: Token, lease: Lease, cell: Arc<LeaseCell>) {
        self.table().lock().tokens.take_back(token, lease, cell);
        self.nudge(token);
    }

    /// The release was answered.
    pub(crate) fn released(&self, token: Token, cell: &LeaseCell) {
        self.table().update(|tokens| tokens.released(token));
        cell.notify();
    }

    /// Nobody is left who would release it.
    pub(crate) fn hand_over(&self, token: Token) {
        let now = self.table().clock.now();
        self.table().lock().tokens.hand_over(token, now);
        self.nudge(token);
    }

    /// A command is about to be sent that makes the lease last `by`; `false` when it is over, or this holder's no
    /// longer.
    pub(crate) fn extending(&self, token: Token, by: Ttl, cell: &LeaseCell) -> bool {
        let mut state = self.table().lock();
        !cell.is_released() && state.tokens.extending(token, by)
    }

    /// The lease now lasts `by` from `sent` on; `false` if it is over.
    pub(crate) fn extended(&self, token: Token, sent: Moment, by: Ttl, cell: &LeaseCell) -> bool {
        let mut state = self.table().lock();
        let now = self.table().clock.now();
        let deadline = state.tokens.extended(token, sent, by, now);
        drop(state);
        deadline.is_some_and(|(deadline, cause)| cell.extend(deadline, cause))
    }

    /// The server said that the lock is not the token's.
    pub(crate) fn refused(&self, token: Token) {
        let now = self.table().clock.now();
        let lost = self.table().lock().tokens.refused(token, now);
        self.table().announce(lost);
    }

    pub(crate) fn census(&self) -> Census {
        self.table().lock().tokens.census()
    }

    /// The keys of all locks that are held.
    pub(crate) fn held(&self) -> Vec<Arc<str>> {
        self.table().lock().tokens.held()
    }

    /// Ends when no token is left.
    pub(crate) async fn drained(&self) {
        loop {
            let fewer = self.table().fewer.notified();
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

    fn table(&self) -> &Table {
        &self.work.table
    }

    fn nudge(&self, token: Token) {
        match self.kind {
            GuardianKind::Thread => self.table().wake_if_needed(),
            GuardianKind::Caller => caller::look(&self.work, token),
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if self.table().home.is_elsewhere() {
            return;
        }
        self.table().lock().closing = true;
        self.table().wake.notify_one();
    }
}

#[cfg(test)]
mod tests;
