//! Fingerprints of states: states that differ only in the date count as one, because the hasher
//! sees times relative to now.
//!
//! The shipped types hash themselves, number by number. The model's clocks run where no other
//! number lies, so a number there is a time. It is hashed as the number of ticks that it is ahead
//! (a world that moves in whole ticks can't distinguish anything in between), and as "long ago"
//! beyond the longest lease. Epochs are such times too; their order is hashed separately, as ranks
//! (`World::fingerprint`).

use std::hash::Hasher;

use super::world::Clock;
use crate::rules::tests::print::Print;

/// All times more than this many ticks ago are alike.
const LONG_AGO: i64 = 6;

pub(super) struct Fingerprint {
    clock: Clock,
    /// Only whether a time has come counts; this is so for everything that a server keeps.
    forgets: bool,
    print: Print,
}

impl Fingerprint {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            forgets: false,
            print: Print::default(),
        }
    }

    pub(super) fn forget_the_past(&mut self, forgets: bool) {
        self.forgets = forgets;
    }

    pub(super) fn value(&self) -> u128 {
        self.print.value()
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.print.write(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        let Some(ticks) = self.clock.ticks_ahead(number) else {
            return self.print.write_u64(number);
        };
        let oldest = if self.forgets { 0 } else { -LONG_AGO };
        self.print
            .write_u64(0xA5A5_0000_0000_0000 ^ ticks.max(oldest).cast_unsigned());
    }

    fn write_u8(&mut self, number: u8) {
        self.print.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.print.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.print.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.print.finish()
    }
}
