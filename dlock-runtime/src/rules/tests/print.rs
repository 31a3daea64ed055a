//! Prints of 128 bits: an explorer knows a state by its own. One can be added to another, whichever
//! came first.
//!
//! Both halves are written out, because without optimization each call of an iterator costs more than
//! the mixing itself, and the explorers do little else as often.

use std::hash::Hasher;

#[derive(Clone, Copy)]
pub(crate) struct Print([u64; 2]);

impl Default for Print {
    fn default() -> Self {
        Self([0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F])
    }
}

impl Print {
    /// Adds another print; the order of what is added does not count.
    pub(crate) fn add(&mut self, other: &Print) {
        let ([a, b], [c, d]) = (self.0, other.0);
        // Once more mixed, so that sums of near numbers are not near.
        let c = (c ^ (c >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let d = (d ^ (d >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.0 = [a.wrapping_add(c ^ (c >> 29)), b.wrapping_add(d ^ (d >> 29))];
    }

    pub(crate) fn value(self) -> u128 {
        (u128::from(self.0[0]) << 64) | u128::from(self.0[1])
    }
}

impl Hasher for Print {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let [a, b] = self.0;
        let a = (a ^ word).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        let b = (b ^ word).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        let turned = word.rotate_left(17);
        self.0 = [a ^ (a >> 29) ^ turned, b ^ (b >> 29) ^ turned];
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0[0] ^ self.0[1]
    }
}
