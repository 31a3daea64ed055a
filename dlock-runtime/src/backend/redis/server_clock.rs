//! What time it is at the server, as far as its answers tell: rather too early than too late.
//!
//! An answer that says T came from a command sent at `sent` and was read at `heard`, so the server's
//! clock now is between T + (now - heard) and T + (now - sent). The largest lower bound is kept, for
//! as long as no later answer contradicts it.

use crate::values::moment::Moment;

#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    /// The server's time in µs …
    pub(super) time: u64,
    /// … at least, at this moment.
    pub(super) heard: Moment,
}

impl ServerClock {
    /// The server's time at a moment, at least.
    pub(super) fn at(&self, now: Moment) -> u64 {
        self.time.saturating_add(micros(self.heard, now))
    }

    /// The server said `time` in answer to a command sent at `sent`.
    pub(super) fn hear(&mut self, time: u64, sent: Moment, now: Moment) {
        let (known, at_most) = (self.at(now), time.saturating_add(micros(sent, now)));
        if known < time || known > at_most {
            (self.time, self.heard) = (time, now); // better, or its clock was set back
        }
    }
}

fn micros(from: Moment, to: Moment) -> u64 {
    u64::try_from(from.until(to).as_micros()).unwrap_or(u64::MAX)
}
