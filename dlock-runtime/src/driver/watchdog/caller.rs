//! The watchdog of `memory://`: each lease has a small task on the runtime that took it.
//!
//! Every command is answered at once, so a job is polled a single time, where it arises. Invariant:
//! nothing waits for another thread, whose clock may differ.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::runtime::Handle;

use super::lease_table::{self, LeaseTable};
use crate::driver::lease_cell::LeaseCell;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Watches over one lease until its token is forgotten, or the lock is handed on.
pub(super) fn watch(leases: &Arc<LeaseTable>, token: Token, cell: Arc<LeaseCell>) {
    let last_word = TaskEnd {
        leases: leases.clone(),
        token,
        cell: cell.clone(),
    };
    if let Ok(here) = Handle::try_current() {
        here.spawn(async move {
            let TaskEnd { leases, token, .. } = &last_word;
            loop {
                let changed = cell.changed(); // created first, so that no change is missed
                let next = next_check(leases, *token).filter(|_| !cell.is_handed_on());
                let Some(next) = next else {
                    return;
                };
                let pause = leases.shared.clock.now().until(next);
                let _ = tokio::time::timeout(pause, changed).await;
                check(leases, *token);
            }
        });
    }
}

fn next_check(leases: &LeaseTable, token: Token) -> Option<Moment> {
    leases.shared.lock().client.tokens.next_check_at(token)
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

/// Ends the lease if its task is dropped: a runtime that ends takes its timers along, so its leases
/// are lost.
struct TaskEnd {
    leases: Arc<LeaseTable>,
    token: Token,
    cell: Arc<LeaseCell>,
}

impl Drop for TaskEnd {
    fn drop(&mut self) {
        let shared = &self.leases.shared;
        if shared.home.is_elsewhere() {
            return;
        }
        let now = shared.clock.now();
        let mut state = shared.lock();
        if self.cell.is_handed_on() {
            return;
        }
        let lost = state.client.tokens.unguarded(self.token, now);
        drop(state);
        if lost.is_some() {
            shared.announce(lost);
            check(&self.leases, self.token);
        }
    }
}
