//! What several of the test programs need.

/// The README's code, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// Numbers that look random and are the same in every run (`SplitMix64`, Steele 2014).
#[derive(Debug, Clone)]
pub struct Seeded(pub u64);

impl Seeded {
    /// At least `from`, below `to`.
    #[must_use]
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        from + (z ^ (z >> 31)) % (to - from)
    }
}
