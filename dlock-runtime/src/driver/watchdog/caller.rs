//! The watchdog of `memory://`: each lease has a small task on the runtime that took it.
//!
//! Every command is answered at once, so a job is polled a single time, where it arises. One lease's
//! task also looks at all that is held, once a second, and leaves that to another's when it ends, or
//! to `LastLooks`. Invariant: nothing waits for another thread, whose clock may differ.

use std::pin::pin;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::lease_table::{self, LeaseTable};
use super::look::Look;
use crate::driver::lease_cell::LeaseCell;
use crate::link::command_error;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Watches over one lease until its token is forgotten, or the lock is handed on.
pub(super) fn watch(leases: &Arc<LeaseTable>, token: Token, cell: Arc<LeaseCell>) {
    let mut task = LeaseTask {
        leases: leases.clone(),
        token,
        cell: cell.clone(),
        looks: false,
    };
    if let Ok(here) = Handle::try_current() {
        here.spawn(async move {
            loop {
                let changed = cell.changed(); // created first, so that no change is missed
                let next = task.next_check().filter(|_| !cell.is_handed_on());
                let Some(next) = next else {
                    return;
                };
                let pause = task.leases.shared.clock.now().until(next);
                let _ = tokio::time::timeout(pause, changed).await;
                check(&task.leases, token);
                task.look_if_due();
            }
        });
    }
}

/// One check ends a lease, the next sends its `cancel`; no answer needs more at once.
const CHECKS_AT_MOST: usize = 3;

/// Does what is due about a token, now.
pub(super) fn check(leases: &Arc<LeaseTable>, token: Token) {
    for _ in 0..CHECKS_AT_MOST {
        let now = leases.shared.clock.now();
        let Some(action) = leases.shared.lock().client.tokens.due_of(token, now) else {
            return;
        };
        for job in leases.sort(vec![action]) {
            let job = pin!(lease_table::carry_out(leases.clone(), job));
            // `memory://` answers at once; a job that did not would report a failure on drop.
            let _ = job.poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

fn look(leases: &LeaseTable) -> MutexGuard<'_, Look> {
    leases.look.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task of one lease. It ends the lease if it is dropped: a runtime that ends takes its timers
/// along, so its leases are lost.
struct LeaseTask {
    leases: Arc<LeaseTable>,
    token: Token,
    cell: Arc<LeaseCell>,
    /// It looks at all that is held, or has done so.
    looks: bool,
}

impl LeaseTask {
    /// When there is something to do; `None`: never again.
    fn next_check(&mut self) -> Option<Moment> {
        let leases = &self.leases;
        let mut state = leases.shared.lock();
        let next = state.client.tokens.next_check_at(self.token)?;
        // A forked child may go on with its parent's tasks, but holds nothing of its parent's.
        if !leases.observers.want_looks() || leases.shared.home.is_elsewhere() {
            return Some(next);
        }
        let looker = *state.looker.get_or_insert(self.token);
        drop(state);
        if looker != self.token {
            return Some(next);
        }
        self.looks = true;
        Some(next.min(look(leases).next()))
    }

    fn look_if_due(&self) {
        let shared = &self.leases.shared;
        if !self.looks || shared.home.is_elsewhere() {
            return;
        }
        let looker = shared.lock().looker;
        if looker == Some(self.token) {
            let now = shared.clock.now();
            look(&self.leases).if_due(&self.leases, now);
        }
    }

    /// From here on another lease's task looks, unless nothing is left to look at.
    fn leave_look(&self) {
        let mut state = self.leases.shared.lock();
        if state.looker.take_if(|it| *it == self.token).is_none() {
            return;
        }
        // One whose holder has it, because that has a task.
        let has_begun = |cell: &&Arc<LeaseCell>| cell.observed().is_some();
        let next = state.client.tokens.holders().find(has_begun).cloned();
        drop(state);
        match next {
            Some(cell) => cell.notify(),
            None => LastLooks::begin(&self.leases),
        }
    }
}

impl Drop for LeaseTask {
    fn drop(&mut self) {
        let shared = &self.leases.shared;
        if shared.home.is_elsewhere() {
            return;
        }
        let now = shared.clock.now();
        let mut state = shared.lock();
        let lost = if self.cell.is_handed_on() {
            None
        } else {
            state.client.tokens.unguarded(self.token, now)
        };
        drop(state);
        if lost.is_some() {
            shared.announce(lost);
            check(&self.leases, self.token);
        }
        if self.looks {
            self.leave_look();
        }
    }
}

/// No lease's task is left to look, but the gauges show something: a waiter, or a lock that was
/// granted and not taken yet. Looks on until they show nothing, or another lease's task looks.
struct LastLooks(Weak<LeaseTable>);

impl LastLooks {
    fn begin(leases: &Arc<LeaseTable>) {
        let mut look = look(leases);
        if !look.has_seen() || std::mem::replace(&mut look.looks_on, true) {
            return;
        }
        drop(look);
        let it = Self(Arc::downgrade(leases));
        if let Ok(here) = command_error::runtime_with_timers() {
            here.spawn(it.run());
        }
    }

    async fn run(mut self) {
        while let Some(pause) = self.pause() {
            tokio::time::sleep(pause).await;
            if let Some(leases) = self.leases() {
                look(&leases).if_due(&leases, leases.shared.clock.now());
            }
        }
        self.0 = Weak::new();
    }

    /// How long until the next look; `None`: it is done.
    fn pause(&self) -> Option<Duration> {
        let leases = self.leases()?;
        let mut look = look(&leases);
        // Under its mutex, so that the task that stops looking meanwhile sees `looks_on` afterwards.
        look.looks_on = look.has_seen() && leases.shared.lock().looker.is_none();
        let pause = leases.shared.clock.now().until(look.next());
        look.looks_on.then_some(pause)
    }

    fn leases(&self) -> Option<Arc<LeaseTable>> {
        let leases = self.0.upgrade()?;
        (!leases.shared.home.is_elsewhere()).then_some(leases)
    }
}

/// Its runtime has ended before: looks once more.
impl Drop for LastLooks {
    fn drop(&mut self) {
        if let Some(leases) = self.leases() {
            let mut look = look(&leases);
            look.looks_on = false;
            look.look(&leases, leases.shared.clock.now());
        }
    }
}
