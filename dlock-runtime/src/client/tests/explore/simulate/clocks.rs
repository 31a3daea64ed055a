//! Virtual clocks. True time is counted in µs; each process and the server has its own clock, which
//! runs at another rate, is slewed, and on the server also stepped.

use crate::client::tests::explore::world::Clock;
use std::time::Duration;

/// A clock that differs from true time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drifting {
    /// At this true time …
    since: u64,
    /// … it showed this.
    showed: u64,
    /// It is faster than true time by this many millionths.
    ppm: i64,
}

impl Drifting {
    pub(super) fn new(now: u64, shows: u64, ppm: i64) -> Self {
        Self {
            since: now,
            showed: shows,
            ppm,
        }
    }

    pub(super) fn at(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.since).cast_signed();
        let shows = self.showed.cast_signed() + passed + passed * self.ppm / 1_000_000;
        shows.max(0).cast_unsigned()
    }

    pub(super) fn slew(&mut self, now: u64, ppm: i64) {
        *self = Self::new(now, self.at(now), ppm);
    }

    pub(super) fn step(&mut self, now: u64, by: i64) {
        let shows = self.at(now).saturating_add_signed(by);
        *self = Self::new(now, shows, self.ppm);
    }

    /// The true time at which it shows `shows` or more.
    pub(super) fn when(&self, shows: u64, now: u64) -> u64 {
        let left = shows.saturating_sub(self.at(now)).cast_signed();
        let passes = left * 1_000_000 / (1_000_000 + self.ppm);
        let mut when = now + passes.max(0).cast_unsigned();
        while self.at(when) < shows {
            when += 1;
        }
        when
    }

    /// The clock for the machines.
    pub(super) fn clock(&self, now: u64) -> Clock {
        Clock {
            ticks: self.at(now),
            tick: Duration::from_micros(1),
        }
    }
}
