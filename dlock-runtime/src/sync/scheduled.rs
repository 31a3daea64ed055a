//! A mutex for unit tests: std's, preceded by one of shuttle's when shuttle schedules the threads.
//!
//! Invariant: only mutexes made inside [`scheduled`] are shuttle's; all others behave as std's.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::LockResult;

thread_local! {
    static SCHEDULED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test body whose new mutexes are scheduled by shuttle, which runs all its threads on this
/// thread.
pub(crate) fn scheduled(run: impl FnOnce()) {
    SCHEDULED.set(true);
    run();
    SCHEDULED.set(false);
}

#[derive(Debug)]
pub(crate) struct Mutex<T> {
    turn: Option<shuttle::sync::Mutex<()>>,
    value: std::sync::Mutex<T>,
}

/// The value comes first: it is unlocked before other threads get their turn.
pub(crate) struct MutexGuard<'a, T> {
    value: std::sync::MutexGuard<'a, T>,
    _turn: Option<shuttle::sync::MutexGuard<'a, ()>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            turn: SCHEDULED.get().then(shuttle::sync::Mutex::default),
            value: std::sync::Mutex::new(value),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the mutex that it stands for")]
    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let turn = self.turn.as_ref().map(|turn| turn.lock().unwrap());
        Ok(MutexGuard {
            value: self.value.lock().unwrap(),
            _turn: turn,
        })
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
