//! The client's state under its one lock: the local queues and the tokens of a pool; and who is
//! told of what happens there.
//!
//! `policy::client` decides. The lock is never held while something is sent, awaited, woken or
//! told.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::lease_cell::LeaseCell;
use super::local_queues::queue_table::QueueTable;
use crate::backend::clock::Clock;
use crate::observe;
use crate::policy::tokens::{self, Action};
use crate::sync::{Mutex, MutexGuard};
use crate::values::moment::Moment;
use crate::values::process::Home;
use crate::values::token::Token;

pub(super) type Tokens = tokens::Tokens<Arc<LeaseCell>>;

/// What all tasks of a pool share, and how its watchdog is woken.
#[derive(Debug)]
pub(super) struct Shared {
    /// A forked child must not wait for its mutex.
    pub(super) home: Home,
    pub(super) state: Mutex<State>,
    pub(super) clock: Clock,
    pub(super) command_timeout: Duration,
    /// There is something to do before the host would look by itself.
    pub(super) wake: Notify,
    /// A token was forgotten.
    pub(super) fewer: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) queues: QueueTable,
    pub(super) tokens: Tokens,
    /// When the host will look next; only a thread plans.
    pub(super) planned: Option<Moment>,
    /// When the next stray grant is looked at.
    pub(super) next_stray: Moment,
    /// The pool is gone: end when nothing is left to clean up.
    pub(super) closing: bool,
    /// The host ended although leases were left.
    pub(super) dead: bool,
}

impl State {
    /// The watchdog looks in time by itself.
    fn is_in_time(&self) -> bool {
        let planned = self.planned;
        planned.is_some_and(|planned| planned <= self.tokens.next_look())
    }
}

/// What follows for the watchdog from a lease that has begun.
pub(super) struct Begun {
    lost: Option<Action<Arc<LeaseCell>>>,
    is_in_time: bool,
}

impl Shared {
    /// A lease has begun: nobody watches over it if the watchdog has ended, so it is lost. Under
    /// the lock; then [`begun`](Self::begun).
    pub(super) fn begins(&self, state: &mut State, token: Token) -> Begun {
        let lost = state.dead.then(|| {
            let now = self.clock.now();
            state.tokens.unguarded(token, now)
        });
        Begun {
            lost: lost.flatten(),
            is_in_time: state.is_in_time(),
        }
    }

    /// The lock is open again.
    pub(super) fn begun(&self, begun: Begun) {
        if begun.lost.is_some() {
            self.announce(begun.lost);
        }
        if !begun.is_in_time {
            self.wake.notify_one();
        }
    }

    /// `command_timeout`: what a command may take.
    pub(super) fn new(clock: Clock, command_timeout: Duration) -> Self {
        Self {
            home: Home::here(),
            state: Mutex::default(),
            clock,
            command_timeout,
            wake: Notify::new(),
            fewer: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Tokens) -> T) -> T {
        let changed = change(&mut self.lock().tokens);
        self.fewer.notify_waiters();
        changed
    }

    /// Wakes the host unless it will look in time by itself.
    pub(super) fn wake_if_needed(&self) {
        let state = self.lock();
        let in_time = state.is_in_time();
        let closing = state.closing;
        drop(state);
        if closing || !in_time {
            self.wake.notify_one();
        }
    }

    /// Tells whom it concerns what became of a lease or a clean-up.
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
                if !holder.extend(deadline, cause) {
                    // Its holder has seen the deadline pass: nothing is to be renewed any more.
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
                    Some(it) => observe::cleaned_up(&claim.key, it.found),
                    None => observe::clean_up_given_up(&claim.key),
                }
                if let Some(holder) = holder {
                    holder.freed(found);
                }
            }
            Action::Renew { .. } | Action::Cancel { .. } => {}
        }
    }
}
