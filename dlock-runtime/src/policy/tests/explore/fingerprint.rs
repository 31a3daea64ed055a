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

/// All times more than this many ticks ago are alike.
const LONG_AGO: i64 = 6;

pub(super) struct Fingerprint {
    clock: Clock,
    /// Only whether a time has come counts; this is so for everything that a server keeps.
    forgets: bool,
    queue_keys: [u64; 2],
}

impl Fingerprint {
    pub(super) fn new(clock: Clock) -> Self {
        let queue_keys = [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F];
        Self {
            clock,
            forgets: false,
            queue_keys,
        }
    }

    pub(super) fn forget_the_past(&mut self, forgets: bool) {
        self.forgets = forgets;
    }

    pub(super) fn value(&self) -> u128 {
        (u128::from(self.queue_keys[0]) << 64) | u128::from(self.queue_keys[1])
    }

    fn mix(&mut self, word: u64) {
        for (queue_key, factor) in self
            .queue_keys
            .iter_mut()
            .zip([0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53])
        {
            let mixed = (*queue_key ^ word).wrapping_mul(factor);
            *queue_key = mixed ^ (mixed >> 29) ^ word.rotate_left(17);
        }
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let Some(ticks) = self.clock.ticks_ahead(number) else {
            return self.mix(number);
        };
        let oldest = if self.forgets { 0 } else { -LONG_AGO };
        self.mix(0xA5A5_0000_0000_0000 ^ ticks.max(oldest).cast_unsigned());
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.queue_keys[0] ^ self.queue_keys[1]
    }
}
