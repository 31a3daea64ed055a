//! Which process this is: what was made before a `fork()` is the parent's.
//!
//! In the child there is one thread, and any mutex that came along may have been locked by another one, for ever. So
//! whether something is inherited is asked before any lock is taken, and what a process has once is found by its id.

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

    /// This is a forked child, and it was made by its parent.
    pub(crate) fn is_elsewhere(self) -> bool {
        self.0 != id()
    }

    /// The same by a system call, which also tells a child that was made without the C library's `fork()`.
    pub(crate) fn is_elsewhere_by_system(self) -> bool {
        self.0 != process::id()
    }
}

/// The id of this process. The first process that asks reads it from memory from then on, for `fork()` says in the child that
/// it was called; each child asks the system.
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
    /// Whose it is; 0: nobody's yet.
    process: AtomicU32,
    value: T,
    /// Of the child, which had to leave this one to its parent.
    next: OnceLock<Box<PerProcess<T>>>,
}

/// What is there of a [`PerProcess`] value.
pub(crate) enum Known<'a, T> {
    Ours(&'a T),
    /// This process was forked from one that has it.
    Inherited,
    Nobodys,
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
    /// This process's own.
    pub(crate) fn ours(&self) -> &T {
        let here = id();
        let mut it = self;
        while !it.is_or_becomes_of(here) {
            // Of a child only, and only once, so that a fork in the middle of this is next to impossible.
            it = it
                .next
                .get_or_init(|| Box::new(PerProcess::new(T::default())));
        }
        &it.value
    }

    /// The same, if there is one.
    pub(crate) fn known(&self) -> Known<'_, T> {
        let here = id();
        let mut known = Known::Nobodys;
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

    fn is_or_becomes_of(&self, here: u32) -> bool {
        let taken = self
            .process
            .compare_exchange(0, here, Ordering::AcqRel, Ordering::Acquire);
        taken.map_or_else(|of| of == here, |_| true)
    }
}

#[cfg(test)]
mod tests;
