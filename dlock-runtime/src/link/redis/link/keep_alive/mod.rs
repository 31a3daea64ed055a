//! Keeps one timer of the runtime due before all others while commands are being sent.
//!
//! When tokio's I/O driver sleeps and a timer is registered that is due before all it knew, tokio
//! wakes the driver, which costs two system calls. Every command has a deadline, and most are
//! answered long before it. Without another timer, each command would pay for such a wake-up, and
//! each wait for a lock for one more. `KeepAlive`'s timer is due before those deadlines, so that
//! tokio only records them. It stops a while after the last command. Never in this folder: a
//! command to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Shorter than the deadlines of most commands.
const PERIOD: Duration = Duration::from_millis(100);

/// No command is being sent: no timer.
const IDLE: u8 = 0;
/// No command was sent since the timer last fired.
const LAST_PERIOD: u8 = 1;
/// A command was sent since then.
const USED: u8 = 2;

/// The timer of one connection; it stops a while after the last command.
#[derive(Debug)]
pub(super) struct KeepAlive {
    timer: Arc<KeepAliveTimer>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct KeepAliveTimer {
    state: AtomicU8,
    begins: Notify,
}

impl KeepAlive {
    /// Starts the timer task on the current runtime.
    pub(super) fn new() -> Self {
        let timer = Arc::<KeepAliveTimer>::default();
        let task = tokio::spawn(timer.clone().run()).abort_handle();
        Self { timer, task }
    }

    /// Notes that a command is being sent.
    pub(super) fn command_sent(&self) {
        let KeepAliveTimer { state, begins } = &*self.timer;
        let is_known = state.load(Ordering::Relaxed) == USED;
        if !is_known && state.swap(USED, Ordering::AcqRel) == IDLE {
            begins.notify_one();
        }
    }

    pub(super) fn end(&self) {
        self.task.abort();
    }
}

impl KeepAliveTimer {
    async fn run(self: Arc<Self>) {
        loop {
            self.begins.notified().await;
            loop {
                tokio::time::sleep(PERIOD).await;
                if self.state.fetch_sub(1, Ordering::AcqRel) == LAST_PERIOD {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
