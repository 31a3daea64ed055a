//! Tells the operator when the server's clock and ours are known to part: one for each pool, over all connections and
//! those that come after them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::observe;
use crate::policy::clock_watch::{ClockAnswer, ClockWatch, News};
use crate::values::config::RedisAddress;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// An answer is looked at no more often, so that the others cost a load.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pace {
    address: RedisAddress,
    /// When the next answer is looked at.
    next: AtomicU64,
    watch: Mutex<ClockWatch>,
}

impl Pace {
    pub(super) fn new(address: RedisAddress, margin: Margin) -> Self {
        Self {
            address,
            next: AtomicU64::new(0),
            watch: Mutex::new(ClockWatch::new(margin)),
        }
    }

    /// The server said `time` in answer to a command sent at `sent`.
    pub(super) fn heard(&self, time: u64, sent: Moment, heard: Moment) {
        if heard.as_nanos() < self.next.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut watch) = self.watch.try_lock() else {
            return; // somebody else's answer is looked at
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
}
