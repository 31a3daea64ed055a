//! An estimate of the server's time from its answers, which errs towards too early.
//!
//! An answer with time T came from a command sent at `sent` and was read at `heard`, so the
//! server's clock now is between T + (now - heard) and T + (now - sent). The largest lower bound is
//! kept, until a later answer contradicts it.

use std::time::Duration;

use crate::values::moment::Moment;
use crate::values::ttl::Margin;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    /// The server's time in µs …
    pub(crate) time: u64,
    /// … at least, at this moment.
    pub(crate) heard: Moment,
}

impl ServerClock {
    /// The server's time at a moment, at least.
    pub(crate) fn at(&self, now: Moment) -> u64 {
        self.time.saturating_add(micros(self.heard, now))
    }

    /// The server said `time` in answer to a command sent at `sent`.
    pub(crate) fn hear(&mut self, time: u64, sent: Moment, now: Moment) {
        let (known, at_most) = (self.at(now), time.saturating_add(micros(sent, now)));
        if known < time || known > at_most {
            (self.time, self.heard) = (time, now); // better, or its clock was set back
        }
    }
}

/// An older answer says too little about the server's time: the clocks may have drifted, or one of
/// them was set.
const KNOWS_THE_TIME_FOR: Duration = Duration::from_secs(2);

/// The latest answer on one connection: a command sent at `sent` was executed at the server's time
/// `time` (µs).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    pub(crate) sent: Moment,
    pub(crate) time: u64,
}

impl Executed {
    /// A moment that is no later than the server's time `time`, which passed before `received`: a
    /// command sent at s and executed at T proves that T came no earlier than s. The server's clock
    /// may be the faster of the two, within the margin. `None`: the answer is too old to prove it.
    pub(crate) fn no_later_than(
        &self,
        time: u64,
        received: Moment,
        margin: Margin,
    ) -> Option<Moment> {
        if self.sent.until(received) > KNOWS_THE_TIME_FOR {
            return None;
        }
        let nanos = if time >= self.time {
            let later = Duration::from_micros(time - self.time);
            self.sent.plus(margin.at_least(later)).as_nanos()
        } else {
            let earlier = Duration::from_micros(self.time - time);
            let earlier = margin.at_most(earlier).as_nanos();
            let earlier = u64::try_from(earlier).unwrap_or(u64::MAX);
            self.sent.as_nanos().saturating_sub(earlier)
        };
        Some(Moment::from_nanos(nanos).min(received))
    }
}

fn micros(from: Moment, to: Moment) -> u64 {
    u64::try_from(from.until(to).as_micros()).unwrap_or(u64::MAX)
}
