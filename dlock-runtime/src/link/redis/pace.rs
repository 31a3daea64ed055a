//! Warns the operator when the server's clock and ours are known to drift apart or to step. There
//! is one `ClockPace` per pool, for all its present and later connections. It only reports: leases do
//! not depend on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::client::clock_watch::{ClockAnswer, ClockWatch, News};
use crate::observe;
use crate::values::config::RedisAddress;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// The minimum time between two answers that are examined; the others cost one atomic load.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct ClockPace {
    address: Arc<RedisAddress>,
    /// When the next answer may be examined, in nanoseconds of the pool's clock.
    next: AtomicU64,
    watch: Mutex<ClockWatch>,
}

impl ClockPace {
    pub(crate) fn new(address: Arc<RedisAddress>, margin: Margin) -> Self {
        Self {
            address,
            next: AtomicU64::new(0),
            watch: Mutex::new(ClockWatch::new(margin)),
        }
    }

    /// Examines an answer: the server said `time` in answer to a command sent at `sent`.
    pub(crate) fn heard(&self, time: u64, sent: Moment, heard: Moment) {
        if heard.as_nanos() < self.next.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut watch) = self.watch.try_lock() else {
            return; // another answer is being examined
        };
        self.next
            .store(heard.plus(EVERY).as_nanos(), Ordering::Relaxed);
        let news = watch.hear(ClockAnswer { sent, heard, time });
        drop(watch);
        match news {
            Some(News::Rate { ppm }) => observe::clock_rate(&self.address, ppm),
            Some(News::Stepped { micros }) => observe::clock_stepped(&self.address, micros / 1_000),
            None => {}
        }
    }

    /// What is known by now: the rate, ppm, and by how much the clock was set, µs.
    pub(super) fn told(&self) -> (Option<i64>, Option<i64>) {
        self.watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .told()
    }
}
