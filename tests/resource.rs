//! A resource that checks fences, and tasks that count on it.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "test code, also where clippy does not see it"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dlock_runtime::{LockError, LockPool};

/// Beyond a call's `wait` and one `command_timeout`, for a loaded machine.
const SLACK: Duration = Duration::from_secs(3);

/// A number that is read and written with a fence; a fence lower than one it has seen is refused.
#[derive(Debug, Default)]
pub struct Resource {
    state: Mutex<State>,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    newest: u64,
    value: u64,
    accepted: u64,
    refused: u64,
}

impl Resource {
    fn read(&self, fence: u64) -> Option<u64> {
        let mut state = self.state.lock().unwrap();
        if fence < state.newest {
            state.refused += 1;
            return None;
        }
        state.newest = fence;
        Some(state.value)
    }

    fn write(&self, fence: u64, value: u64) {
        let mut state = self.state.lock().unwrap();
        if fence < state.newest {
            state.refused += 1;
            return;
        }
        state.newest = fence;
        state.value = value;
        state.accepted += 1;
    }

    /// How many counts were written.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.state.lock().unwrap().accepted
    }

    /// Ends the tasks.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// No count was lost; returns how much was refused.
    #[must_use]
    pub fn check(&self) -> u64 {
        let state = self.state.lock().unwrap();
        assert_eq!(state.value, state.accepted, "a count was lost");
        state.refused
    }

    /// Counts under this lock until stopped. No call may last longer than its `wait` and one
    /// `command_timeout`, whatever happens to the servers.
    pub async fn count_under(self: Arc<Self>, pool: LockPool, key: String) {
        let wait = Duration::from_secs(1);
        while !self.ended.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let acquired = pool
                .lock(&*key)
                .ttl(Duration::from_secs(2))
                .wait(wait)
                .acquire()
                .await;
            let took = begun.elapsed();
            assert!(took < wait + Duration::from_millis(500) + SLACK, "{took:?}");
            match acquired {
                Ok(guard) => {
                    let fence = guard.fence().get();
                    if let Some(value) = self.read(fence) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        self.write(fence, value + 1);
                    }
                    let _ = guard.release().await;
                }
                Err(
                    LockError::Busy { .. } | LockError::Unavailable { .. } | LockError::Lost { .. },
                ) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}
