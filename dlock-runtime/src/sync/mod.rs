//! The client's mutex: std's. In unit tests it is a wrapper that shuttle can schedule. Never in this
//! folder: anything else.

#[cfg(test)]
pub(crate) use self::scheduled::{Mutex, MutexGuard, scheduled};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(test)]
mod scheduled;
