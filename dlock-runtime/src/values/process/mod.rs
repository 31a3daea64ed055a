//! Which process this is: values made before a `fork()` belong to the parent.
//!
//! A forked child has one thread, and any inherited mutex may have been locked by another thread,
//! for ever. Invariants: whether a value is inherited is checked before any lock is taken; a
//! per-process value is found by the process id.
//!
//! Never in this folder: a lock of a mutex that this process may have inherited.

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn here() -> Self {
        Self(process::id())
    }

    /// A process that is not this one.
    #[cfg(test)]
    pub(crate) fn elsewhere() -> Self {
        Self(process::id().wrapping_add(1))
    }

    /// Whether this is a forked child and the value was made by its parent.
    pub(crate) fn is_elsewhere(self) -> bool {
        self.0 != id()
    }

    /// The same by a system call, which also detects a child made without the C library's `fork()`.
    pub(crate) fn is_elsewhere_by_system(self) -> bool {
        self.0 != process::id()
    }
}

/// The id of this process. The first process that calls this reads it from memory from then on,
/// because `fork()` reports in the child that it was called; each child makes a system call.
fn id() -> u32 {
    static FIRST: OnceLock<Option<(forkguard::Guard, u32)>> = OnceLock::new();
    let first = FIRST.get_or_init(|| Some((forkguard::Guard::try_new().ok()?, process::id())));
    match first {
        Some((guard, id)) if !guard.clone().detected_fork() => *id,
        _ => process::id(),
    }
}

/// A value that each process has for itself: a forked child begins with an empty one.
pub(crate) struct PerProcess<T> {
    /// The process that owns `value`; 0: none yet.
    process: AtomicU32,
    value: T,
    /// The value of a child, which has to leave this one to its parent.
    next: OnceLock<Box<PerProcess<T>>>,
}

/// Whether a [`PerProcess`] value exists, and whose it is.
pub(crate) enum Known<'a, T> {
    Ours(&'a T),
    /// This process was forked from the one that has it.
    Inherited,
    Unset,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new(empty: T) -> Self {
        Self {
            process: AtomicU32::new(0),
            value: empty,
            next: OnceLock::new(),
        }
    }
}

impl<T: Default> PerProcess<T> {
    /// This process's own value.
    pub(crate) fn ours(&self) -> &T {
        let here = id();
        let mut it = self;
        while !it.is_or_becomes_of(here) {
            // Only in a child, and only once, so that a fork in the middle of this is next to
            // impossible.
            it = it
                .next
                .get_or_init(|| Box::new(PerProcess::new(T::default())));
        }
        &it.value
    }

    /// This process's own value, if it exists.
    pub(crate) fn known(&self) -> Known<'_, T> {
        let here = id();
        let mut known = Known::Unset;
        let mut next = Some(self);
        while let Some(it) = next {
            match it.process.load(Ordering::Acquire) {
                0 => break,
                of if of == here => return Known::Ours(&it.value),
                _ => known = Known::Inherited,
            }
            next = it.next.get().map(|next| &**next);
        }
        known
    }

    /// The value of the process that this one was forked from, until this process has its own. Whatever
    /// mutex is in it may be locked for ever.
    #[cfg(any(test, feature = "metrics"))]
    pub(crate) fn inherited(&self) -> Option<&T> {
        let here = id();
        let mut inherited = None;
        let mut next = Some(self);
        while let Some(it) = next {
            match it.process.load(Ordering::Acquire) {
                0 => break,
                of if of == here => return None,
                _ => inherited = Some(&it.value),
            }
            next = it.next.get().map(|next| &**next);
        }
        inherited
    }

    fn is_or_becomes_of(&self, here: u32) -> bool {
        let taken = self
            .process
            .compare_exchange(0, here, Ordering::AcqRel, Ordering::Acquire);
        taken.map_or_else(|of| of == here, |_| true)
    }
}

#[cfg(test)]
mod tests;
