//! Shuts pools down: takes no new locks, and gives held ones a few seconds to be released.
//!
//! It ends no body and takes no lock away: what is still held afterwards is counted and logged.

use std::sync::Arc;
use std::time::Duration;

use crate::driver::core::Core;
use crate::link::command_error;
use crate::observe;

/// How long a shutdown waits for all pools.
const DRAIN_AT_MOST: Duration = Duration::from_secs(5);

/// Closes all pools before it waits for any of them.
pub(crate) async fn shut_down(cores: &[Arc<Core>]) -> Drained {
    let ours = cores.iter().filter(|core| !core.is_inherited());
    let cores: &[Arc<Core>] = &ours.cloned().collect::<Vec<_>>();
    for core in cores {
        core.shut();
    }
    if command_error::runtime_with_timers().is_ok() {
        let drain = async {
            for core in cores {
                core.watchdog().drained().await;
            }
        };
        let _ = tokio::time::timeout(DRAIN_AT_MOST, drain).await; // what is left is counted below
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
    }
    drained
}

/// What was left when [`shutdown`](crate::shutdown) stopped waiting. A warning in the log names
/// each held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    held: usize,
    unconfirmed: usize,
}

impl Drained {
    /// Locks whose bodies or guards still existed.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Acquires, releases and clean-ups that the server had not confirmed.
    #[must_use]
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed
    }

    /// Whether nothing was left.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.held == 0 && self.unconfirmed == 0
    }
}
