//! The client's mutex: std's; in unit tests, where shuttle schedules the threads, behind one of shuttle's.

#[cfg(test)]
pub(crate) use self::scheduled::{Mutex, MutexGuard, scheduled};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(test)]
mod scheduled;
