//! Maps whose keys bring their own hash. Only for keys that no outsider chooses, or whose hash no
//! outsider can predict: the hasher does not protect against deliberate collisions.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// When hashed, its keys write one number whose bits are well spread.
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
