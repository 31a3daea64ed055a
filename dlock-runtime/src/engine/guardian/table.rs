//! The token table with its lock, who is woken by what happens in it, and who is told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::backend::clock::Clock;
use crate::engine::lease_cell::LeaseCell;
use crate::observe;
use crate::policy::tokens::{self, Action};
use crate::values::moment::Moment;
use crate::values::process::Home;

pub(super) type Tokens = tokens::Tokens<Arc<LeaseCell>>;

/// The token table, and how its host is woken.
#[derive(Debug)]
pub(super) struct Table {
    /// A forked child must not wait for its mutex.
    pub(super) home: Home,
    pub(super) state: Mutex<TableState>,
    pub(super) clock: Clock,
    /// There is something to do before the host would look by itself.
    pub(super) wake: Notify,
    /// A token was forgotten.
    pub(super) fewer: Notify,
}

#[derive(Debug, Default)]
pub(super) struct TableState {
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

impl Table {
    pub(super) fn lock(&self) -> MutexGuard<'_, TableState> {
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
        let in_time = state
            .planned
            .is_some_and(|planned| planned <= state.tokens.next_look());
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
            Action::Renew(..) | Action::Cancel { .. } => {}
        }
    }
}
