//! Shuts pools down: takes no new locks, gives bodies a grace to end by themselves, then stops those
//! that may be stopped.
//!
//! Invariants: a lock is released only after its body or guard has ended; no shutdown takes longer than
//! the grace and two `command_timeout`s, of several pools the longest sum. What is still held then is
//! counted and logged.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use super::lease_cell::InProcess;
use crate::client::tokens::Census;
use crate::driver::core::Core;
use crate::link::{command_error, joined};
use crate::observe;
use crate::strangers::{beside_others, spared};
use crate::values::process::Home;

/// Closes all pools before it waits for any of them.
pub(crate) async fn shut_down(cores: &[Arc<Core>]) -> Drained {
    let ours = cores.iter().filter(|core| !core.is_inherited());
    let cores: &[Arc<Core>] = &ours.cloned().collect::<Vec<_>>();
    for core in cores {
        core.shut();
    }
    if command_error::runtime_with_timers().is_ok() {
        // At the same time: a body of one pool may run inside one of another.
        let all = DrainingPools::begin(cores);
        joined::all(
            cores
                .iter()
                .map(|core| Box::pin(drain(core, &all)))
                .collect(),
        )
        .await;
    }
    let mut drained = Drained {
        held: 0,
        unconfirmed: 0,
    };
    for core in cores {
        let held = core.watchdog().held();
        for key in &held {
            observe::held_at_shutdown(core.parts(key));
        }
        drained.held += held.len();
        let census = core.census();
        drained.unconfirmed += census.acquiring + census.waiting;
        drained.unconfirmed += census.releasing + census.cleaning_up;
        core.end();
    }
    drained
}

/// The pools of one shutdown.
struct DrainingPools {
    /// How many may still wait for bodies, or for the server, within their own time.
    waiting: AtomicUsize,
    /// When the time of the last one is over.
    until: Instant,
}

impl DrainingPools {
    fn begin(cores: &[Arc<Core>]) -> Self {
        let times = cores.iter().map(|core| {
            let (grace, last) = times(core);
            grace + last
        });
        Self {
            waiting: AtomicUsize::new(cores.len()),
            until: Instant::now() + times.max().unwrap_or_default(),
        }
    }

    /// One has ended, or its own time is over. Returns whether it was the last.
    fn one_less(&self) -> bool {
        self.waiting.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// How long bodies have to end by themselves, and then to be stopped and their locks released.
fn times(core: &Core) -> (Duration, Duration) {
    let settings = core.settings();
    (settings.shutdown_grace, settings.command_timeout * 2)
}

/// Waits until nothing is left; stops bodies when the grace is over.
async fn drain(core: &Core, all: &DrainingPools) {
    let (grace, last) = times(core);
    let drained = core.watchdog().when(|| core.census() == Census::default());
    let is_drained = timeout(grace, drained).await.is_ok();
    let mut stopped = pin!(core.watchdog().when(|| is_stopped(core)));
    let is_done = is_drained || timeout(last, &mut stopped).await.is_ok();
    // Another pool's body, which has longer, may run inside one of this pool's.
    if !all.one_less() && !is_done {
        let _ = timeout_at(all.until, stopped).await; // what is left is counted
    }
}

/// Stops each body that may be stopped and has none inside. Returns whether none is left, and the
/// server has confirmed everything.
fn is_stopped(core: &Core) -> bool {
    let holders = core.watchdog().holders();
    let mut is_any_left = false;
    for cell in holders.iter().filter(|it| it.spec().stops_at_shutdown) {
        cell.stop();
        is_any_left = true;
    }
    let confirmed = Census {
        held: 0,
        ..core.census()
    };
    !is_any_left && confirmed == Census::default()
}

/// Whether a shutdown has begun, and who waits for that.
#[derive(Debug)]
pub(crate) struct ClosingSignal {
    home: Home,
    has_begun: AtomicBool,
    begun: Notify,
}

impl ClosingSignal {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            home: Home::here(),
            has_begun: AtomicBool::new(false),
            begun: Notify::new(),
        })
    }

    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
        spared(|| self.begun.notify_waiters());
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Ends when a shutdown begins; at once in a forked child, which has none of its parent's pools.
    pub(crate) fn wait(self: &Arc<Self>) -> InProcess<()> {
        let signal = self.clone();
        let waits = async move {
            loop {
                let begun = signal.begun.notified();
                if signal.has_begun() {
                    return;
                }
                beside_others(begun).await;
            }
        };
        InProcess::new(self.home, waits, ())
    }
}

/// What was left when [`shutdown`](crate::shutdown) stopped waiting. A warning in the log names
/// each held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    held: usize,
    unconfirmed: usize,
}

impl Drained {
    /// Returns the number of locks whose bodies or guards still existed.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of acquires, releases and clean-ups that the server had not confirmed.
    #[must_use]
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed
    }

    /// Returns whether nothing was left.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.held == 0 && self.unconfirmed == 0
    }
}
