//! The watchdog of remote servers: one thread per pool, with a runtime and a connection of its own,
//! which is begun when a lock is granted that is to be renewed.
//!
//! It decides nothing (`client::tokens` does). It ends with the pool, when nothing is left to clean
//! up or a few seconds have passed; if it ends earlier, all leases are lost, and say so.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::lease_table::{self, LeaseTable};
use super::look::Look;
use crate::client::tokens::Census;
use crate::link::command_error::CommandError;
use crate::observe;
use crate::values::error::{LockError, Reason};
use crate::values::moment::Moment;

/// Timers do not count suspended time, deadlines do: so the table is checked this often. Anything
/// due later than that needs no wake-up, so an acquire seldom costs one.
const CHECK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// How many looks pass until the recorder of metrics is asked for again.
const RECORDER_EVERY: u32 = 10;

/// For how long the clean-ups of a closed pool go on.
const LAST_CLEAN_UPS: Duration = Duration::from_secs(5);

pub(super) fn start(leases: Arc<LeaseTable>) -> Result<(), LockError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| not_now(format_args!("the watchdog's runtime can't be built: {why}")))?;
    let mut known = leases
        .runtime
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    *known = Some(runtime.handle().clone());
    drop(known);
    std::thread::Builder::new()
        .name("dlock-watchdog".to_owned())
        .spawn(move || {
            let watched = ThreadEnd(leases);
            runtime.block_on(watch(&watched.0));
        })
        .map(drop)
        .map_err(|why| {
            not_now(format_args!(
                "the watchdog's thread can't be started: {why}"
            ))
        })
}

/// What the system lacks (descriptors, threads) may be free again a moment later.
fn not_now(why: impl Display) -> LockError {
    CommandError::Unsent(Reason::new(why)).into_error(None)
}

async fn watch(leases: &Arc<LeaseTable>) {
    if let Some(task) = leases.backend.background_task() {
        tokio::spawn(task); // it ends with this thread's runtime
    }
    let mut close_at = None;
    let (mut look, mut looks) = (Look::default(), 0_u32);
    loop {
        let now = leases.shared.clock.now();
        if leases.observers.want_looks() && look.if_due(leases, now) {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(RECORDER_EVERY) {
                leases.observers.renew();
            }
        }
        let (actions, next, closing) = {
            let mut state = leases.shared.lock();
            let actions = state.client.tokens.due(now);
            let next = state.client.tokens.next_check();
            let looks_by = next.min(now.plus(CHECK_AT_LEAST_EVERY));
            state.client.tokens.looks_by(looks_by);
            (actions, next, state.closing)
        };
        for job in leases.sort(actions) {
            tokio::spawn(lease_table::carry_out(leases.clone(), job));
        }
        if closing {
            let close_at = *close_at.get_or_insert(now.plus(LAST_CLEAN_UPS));
            if now >= close_at || leases.shared.lock().client.tokens.census() == Census::default() {
                return;
            }
        }
        let pause = leases
            .shared
            .clock
            .now()
            .until(next)
            .min(CHECK_AT_LEAST_EVERY);
        let woken = leases.shared.wake.notified();
        let _ = tokio::time::timeout(round_up(pause), woken).await;
    }
}

/// Adds to the pause because tokio's timers have whole milliseconds: one that fires too early would
/// only be set again.
fn round_up(pause: Duration) -> Duration {
    pause + Duration::from_micros(100)
}

/// Ends all leases when the thread ends, by a panic too: no holder goes on in the belief that its
/// lease is watched.
struct ThreadEnd(Arc<LeaseTable>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let shared = &self.0.shared;
        let mut state = shared.lock();
        shared.dead.store(true, Ordering::Release);
        let now: Moment = shared.clock.now();
        let tokens = state.client.tokens.all();
        let lost: Vec<_> = tokens
            .into_iter()
            .filter_map(|token| state.client.tokens.unguarded(token, now))
            .collect();
        drop(state);
        if !lost.is_empty() {
            observe::watchdog_ended();
        }
        shared.announce(lost);
    }
}
