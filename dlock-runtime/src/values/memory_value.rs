//! The value that guarded writes left at a key of `memory://`, for tests to look at. Plain data.

use std::collections::{BTreeMap, BTreeSet};

/// The value at a data key, from [`LockPool::memory_value`](crate::LockPool::memory_value).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MemoryValue {
    // Not `String`: the compiler would then write `std::string::String` in every message to users
    // of this crate.
    /// A string, from [`set`](crate::Batch::set) or [`incr_by`](crate::Batch::incr_by).
    Bytes(Vec<u8>),
    /// The fields of a hash and their values.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// The members of a set.
    Set(BTreeSet<Vec<u8>>),
    /// The members of a sorted set and their scores.
    SortedSet(BTreeMap<Vec<u8>, f64>),
    /// The items of a list, from front to end.
    List(Vec<Vec<u8>>),
}
