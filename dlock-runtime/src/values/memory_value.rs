//! What guarded writes left at a key of `memory://`.

use std::collections::{BTreeMap, BTreeSet};

/// What stands at a data key: see [`LockPool::memory_value`](crate::LockPool::memory_value).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MemoryValue {
    // Not `String`: the compiler would then write `std::string::String` in every message to whoever uses this crate.
    /// A string, from `set` and `incr_by`.
    Bytes(Vec<u8>),
    /// Fields and their values.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Members.
    Set(BTreeSet<Vec<u8>>),
    /// Members and their scores.
    SortedSet(BTreeMap<Vec<u8>, f64>),
    /// From its front to its end.
    List(Vec<Vec<u8>>),
}
