//! The state of a pool under its one mutex (local queues and tokens), and the notifications that
//! follow from changes.
//!
//! `client` decides. Invariant: nothing is sent, awaited, woken or logged while the mutex
//! is locked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::lease_cell::LeaseCell;
use super::local_queues::queue_table::QueueTable;
use crate::backend::clock::Clock;
use crate::client::tokens::{self, Action};
use crate::observe::{self, PoolCounts};
use crate::sync::{Mutex, MutexGuard};
use crate::values::key::KeyParts;
use crate::values::moment::Moment;
use crate::values::process::Home;
use crate::values::token::Token;

pub(super) type PoolTokens = tokens::Tokens<Arc<LeaseCell>>;

/// What all tasks of a pool share, and how its watchdog is woken.
#[derive(Debug)]
pub(super) struct SharedClient {
    /// In a forked child, nothing may wait for the mutex.
    pub(super) home: Home,
    pub(super) state: Mutex<ClientState>,
    pub(super) clock: Clock,
    pub(super) command_timeout: Duration,
    /// How long the names' namespace is.
    namespace: usize,
    /// The watchdog's thread ended although leases were left. Set under the mutex, so that a lease
    /// begins either before that, or sees it.
    pub(super) dead: AtomicBool,
    /// Wakes the watchdog before its planned time.
    pub(super) wake: Notify,
    /// Notified when a token may have been forgotten, from when `Watchdog::drained` waits for it.
    pub(super) fewer: Notify,
}

#[derive(Debug, Default)]
pub(super) struct ClientState {
    pub(super) queues: QueueTable,
    pub(super) tokens: PoolTokens,
    /// When the watchdog will look next; only the watchdog's thread sets it.
    pub(super) planned: Option<Moment>,
    /// When the next stray grant may be cleaned up.
    pub(super) next_stray: Moment,
    /// Somebody waits, or has waited, until no token is left.
    pub(super) is_draining: bool,
    /// The pool is gone: the watchdog's thread ends when nothing is left to clean up.
    pub(super) closing: bool,
}

impl ClientState {
    pub(super) fn counts(&self) -> PoolCounts {
        let census = self.tokens.census();
        PoolCounts {
            held: census.held,
            waiting: self.queues.waiters().count(),
            cleaning_up: census.cleaning_up,
            in_flight: census.acquiring + census.releasing,
        }
    }

    /// Whether the watchdog wakes by itself before anything is due.
    fn is_in_time(&self) -> bool {
        let planned = self.planned;
        planned.is_some_and(|planned| planned <= self.tokens.next_check())
    }
}

/// What the watchdog has to do about a lease that has begun.
pub(super) struct BegunLease {
    lost: Option<Action<Arc<LeaseCell>>>,
    is_in_time: bool,
}

impl SharedClient {
    /// A lease has begun. If the watchdog's thread has ended, nothing renews it, so it is lost at
    /// once. Call this under the mutex, and [`begun`](Self::begun) after unlocking.
    pub(super) fn begins(&self, state: &mut ClientState, token: Token) -> BegunLease {
        let lost = self.dead.load(Ordering::Acquire).then(|| {
            let now = self.clock.now();
            state.tokens.unguarded(token, now)
        });
        BegunLease {
            lost: lost.flatten(),
            is_in_time: state.is_in_time(),
        }
    }

    /// Carries out what `begins` found. Call it with the mutex unlocked.
    pub(super) fn begun(&self, begun: BegunLease) {
        if begun.lost.is_some() {
            self.announce(begun.lost);
        }
        if !begun.is_in_time {
            self.wake.notify_one();
        }
    }

    /// `command_timeout`: how long a command may take, at most. `namespace`: of its names, how long.
    pub(super) fn new(
        clock: Clock,
        command_timeout: Duration,
        namespace: usize,
        tokens: PoolTokens,
    ) -> Self {
        let state = ClientState {
            tokens,
            ..ClientState::default()
        };
        Self {
            home: Home::here(),
            state: Mutex::new(state),
            clock,
            command_timeout,
            namespace,
            dead: AtomicBool::new(false),
            wake: Notify::new(),
            fewer: Notify::new(),
        }
    }

    /// For a server that is a quorum of nodes.
    pub(super) fn of_quorum(clock: Clock, command_timeout: Duration, namespace: usize) -> Self {
        let shared = Self::new(clock, command_timeout, namespace, PoolTokens::of_quorum());
        shared.lock().queues = QueueTable::of_quorum();
        shared
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn parts<'a>(&self, name: &'a str) -> KeyParts<'a> {
        KeyParts::new(name, self.namespace)
    }

    pub(super) fn update<T>(&self, change: impl FnOnce(&mut PoolTokens) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state.tokens);
        let is_draining = state.is_draining;
        drop(state);
        if is_draining {
            self.fewer.notify_waiters();
        }
        changed
    }

    /// Wakes the watchdog unless it wakes by itself in time.
    pub(super) fn wake_if_needed(&self) {
        let state = self.lock();
        let in_time = state.is_in_time();
        let closing = state.closing;
        drop(state);
        if closing || !in_time {
            self.wake.notify_one();
        }
    }

    /// Tells holders and the log what became of leases and clean-ups.
    pub(super) fn announce(&self, news: impl IntoIterator<Item = Action<Arc<LeaseCell>>>) {
        for action in news {
            self.announce_one(action);
        }
        self.fewer.notify_waiters();
    }

    fn announce_one(&self, action: Action<Arc<LeaseCell>>) {
        match action {
            Action::Lost { holder, cause, .. } => {
                holder.lose(cause);
            }
            Action::Extended {
                token,
                holder,
                deadline,
                cause,
            } => {
                if !holder.renewed(deadline, cause) {
                    // The holder has already seen the deadline pass, so stop renewing.
                    let now = self.clock.now();
                    self.lock().tokens.hand_over(token, now);
                }
            }
            Action::CleanedUp {
                holder,
                claim,
                found,
            } => {
                match found {
                    Some(it) => observe::cleaned_up(self.parts(&claim.key), it.found),
                    None => observe::clean_up_given_up(self.parts(&claim.key)),
                }
                if let Some(holder) = holder {
                    holder.freed(found);
                }
            }
            Action::Renew { .. } | Action::Cancel { .. } => {}
        }
    }
}
