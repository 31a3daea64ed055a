//! Tables of what brings its hash along: keys that nobody outside chooses, or whose hash nobody outside can foresee.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Its keys write one number when they are hashed, spread over all bits.
pub(crate) type HashedMap<K, V> = HashMap<K, V, BuildHasherDefault<Hashed>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
