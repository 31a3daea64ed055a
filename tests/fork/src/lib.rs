//! `fork()`, for the test program that looks at what a forked child may do with its parent's pools.
//!
//! The one place with `unsafe`, which the rest of the tree forbids.

#![cfg(unix)]

use std::io;

/// Which of the two this process is.
pub enum Side {
    /// The one that forked.
    Parent(Forked),
    /// The new one: one thread, and a copy of everything.
    Child,
}

/// A forked child, to be waited for.
pub struct Forked(libc::pid_t);

/// Makes a copy of this process.
///
/// # Errors
/// The system's.
#[allow(unsafe_code, reason = "what this crate is for")]
pub fn fork() -> io::Result<Side> {
    // SAFETY: the child of a process with threads may call little. This one is a test of what happens when it calls more,
    // and may hang or die; nothing in Rust's own rules is broken by a copy of the memory.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        child => Ok(Side::Parent(Forked(child))),
    }
}

/// The same by the system call, so that nothing which waits for the C library's `fork()` hears of it.
///
/// # Errors
/// The system's.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "what this crate is for")]
pub fn fork_unsubscribed() -> io::Result<Side> {
    // SAFETY: as above; without a stack of its own, and with a copy of the memory, the child goes on here.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        child => Ok(Side::Parent(Forked(
            child.try_into().map_err(io::Error::other)?,
        ))),
    }
}

/// Ends a forked child as it should end: nothing that it inherited is dropped.
#[allow(unsafe_code, reason = "what this crate is for")]
pub fn end() -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(0) }
}

impl Forked {
    /// Waits for its end, and blocks; whether it ended as it should.
    #[must_use]
    #[allow(unsafe_code, reason = "what this crate is for")]
    pub fn wait(self) -> bool {
        let mut status = 0;
        // SAFETY: `status` is there for as long as the call takes.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        waited == self.0 && status == 0
    }
}
