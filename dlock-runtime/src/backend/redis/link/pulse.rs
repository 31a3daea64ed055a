//! Keeps one timer of the runtime due before all others while commands go out.
//!
//! tokio wakes its driver for each timer that is due before those it knew when it went to sleep: two system calls. Every command
//! has a deadline, and most are answered long before it; so with nothing else to wait for, each of them would pay that, and who
//! waits for a lock once more. This timer is due before theirs, so they are only noted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

/// Less than the deadlines of most commands.
const PERIOD: Duration = Duration::from_millis(100);

/// Nobody sends: no timer.
const STILL: u8 = 0;
/// Nobody has sent since the last beat.
const BEATS: u8 = 1;
/// Somebody has.
const FELT: u8 = 2;

/// Of one connection; it stops a while after the last command.
#[derive(Debug, Default)]
pub(super) struct Pulse(Arc<AtomicU8>);

impl Pulse {
    /// A command goes out.
    pub(super) fn feel(&self, runtime: &Handle) {
        let is_known = self.0.load(Ordering::Relaxed) == FELT;
        if !is_known && self.0.swap(FELT, Ordering::AcqRel) == STILL {
            runtime.spawn(beat(self.0.clone()));
        }
    }
}

async fn beat(state: Arc<AtomicU8>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        if state.fetch_sub(1, Ordering::AcqRel) == BEATS {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
