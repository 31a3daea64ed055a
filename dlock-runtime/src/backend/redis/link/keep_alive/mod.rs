//! Keeps one timer of the runtime due before all others while commands go out.
//!
//! tokio wakes its driver for each timer that is due before those it knew when it went to sleep: two system calls. Every command
//! has a deadline, and most are answered long before it; so with nothing else to wait for, each of them would pay that, and who
//! waits for a lock once more. This timer is due before theirs, so they are only noted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Less than the deadlines of most commands.
const PERIOD: Duration = Duration::from_millis(100);

/// Nobody sends: no timer.
const STILL: u8 = 0;
/// Nobody has sent since the last beat.
const BEATS: u8 = 1;
/// Somebody has.
const FELT: u8 = 2;

/// Of one connection; it rests a while after the last command.
#[derive(Debug)]
pub(super) struct KeepAlive {
    heart: Arc<Heart>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Heart {
    state: AtomicU8,
    begins: Notify,
}

impl KeepAlive {
    /// On the current runtime.
    pub(super) fn new() -> Self {
        let heart = Arc::<Heart>::default();
        let task = tokio::spawn(heart.clone().beat()).abort_handle();
        Self { heart, task }
    }

    /// A command goes out.
    pub(super) fn feel(&self) {
        let Heart { state, begins } = &*self.heart;
        let is_known = state.load(Ordering::Relaxed) == FELT;
        if !is_known && state.swap(FELT, Ordering::AcqRel) == STILL {
            begins.notify_one();
        }
    }

    pub(super) fn end(&self) {
        self.task.abort();
    }
}

impl Heart {
    async fn beat(self: Arc<Self>) {
        loop {
            self.begins.notified().await;
            loop {
                tokio::time::sleep(PERIOD).await;
                if self.state.fetch_sub(1, Ordering::AcqRel) == BEATS {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
