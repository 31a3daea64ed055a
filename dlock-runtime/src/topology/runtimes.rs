//! What a pool keeps for each tokio runtime: made when the runtime first needs it, looked after by a task
//! of that runtime, and dropped with the runtime or the pool.
//!
//! Runtimes share no connection, because a connection's I/O task stops with its runtime. Invariant: nothing
//! that was kept is dropped under the lock, since that may take a while.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use crate::link::command_error::{self, CommandError};
use crate::values::process::Home;

#[derive(Debug)]
pub(crate) struct Runtimes<T> {
    home: Home,
    /// A handful of entries: a linear search is faster than hashing.
    all: Mutex<Vec<(Id, Arc<RuntimeShare<T>>)>>,
}

/// What one runtime has, and the task that looks after it.
#[derive(Debug)]
pub(crate) struct RuntimeShare<T> {
    it: T,
    caretaker: OnceLock<AbortHandle>,
}

/// Removes what a runtime has when its caretaker is dropped, at the latest when the runtime is.
pub(crate) struct Departure<T> {
    runtimes: Weak<Runtimes<T>>,
    runtime: Id,
}

impl<T> Runtimes<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            home: Home::here(),
            all: Mutex::default(),
        })
    }

    /// Looks at what the current runtime has, under the lock, so that no look-up counts an owner of it.
    pub(crate) fn look<R>(
        &self,
        runtime: Id,
        look: impl FnOnce(&Arc<RuntimeShare<T>>) -> Option<R>,
    ) -> Option<R> {
        look(find(&self.lock(), runtime)?)
    }

    pub(crate) fn known(&self, runtime: Id) -> Option<Arc<RuntimeShare<T>>> {
        find(&self.lock(), runtime).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<RuntimeShare<T>>> {
        self.lock().iter().map(|(_, kept)| kept.clone()).collect()
    }

    /// What this runtime has, made if it has nothing, with the task that looks after it.
    pub(crate) fn welcome<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        runtime: &Handle,
        make: impl FnOnce() -> T,
        look_after: impl FnOnce(Departure<T>) -> F,
    ) -> Result<Arc<RuntimeShare<T>>, CommandError> {
        command_error::runtime_with_timers()?;
        let kept = self.insert(runtime.id(), make);
        kept.caretaker.get_or_init(|| {
            let departure = Departure {
                runtimes: Arc::downgrade(self),
                runtime: runtime.id(),
            };
            // A runtime that is shutting down drops this task at once, which removes the entry again.
            runtime.spawn(look_after(departure)).abort_handle()
        });
        Ok(kept)
    }

    fn insert(&self, runtime: Id, make: impl FnOnce() -> T) -> Arc<RuntimeShare<T>> {
        let mut all = self.lock();
        if let Some(known) = find(&all, runtime) {
            return known.clone();
        }
        let kept = Arc::new(RuntimeShare {
            it: make(),
            caretaker: OnceLock::new(),
        });
        all.push((runtime, kept.clone()));
        kept
    }

    fn forget(&self, runtime: Id) {
        let mut all = self.lock();
        let at = all.iter().position(|(id, _)| *id == runtime);
        let gone = at.map(|at| all.swap_remove(at));
        drop(all);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Id, Arc<RuntimeShare<T>>)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<T>(all: &[(Id, Arc<RuntimeShare<T>>)], runtime: Id) -> Option<&Arc<RuntimeShare<T>>> {
    let found = all.iter().find(|(id, _)| *id == runtime);
    found.map(|(_, kept)| kept)
}

impl<T> Deref for RuntimeShare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.it
    }
}

impl<T> Drop for RuntimeShare<T> {
    fn drop(&mut self) {
        if let Some(caretaker) = self.caretaker.get() {
            caretaker.abort();
        }
    }
}

impl<T> Departure<T> {
    /// What the runtime has; `None`: the pool is gone.
    pub(crate) fn kept(&self) -> Option<Arc<RuntimeShare<T>>> {
        self.runtimes.upgrade()?.known(self.runtime)
    }
}

impl<T> Drop for Departure<T> {
    fn drop(&mut self) {
        // A forked child drops the tasks of the runtime that it inherited, too, but the table is the
        // parent's.
        if let Some(runtimes) = self.runtimes.upgrade()
            && !runtimes.home.is_elsewhere()
        {
            runtimes.forget(self.runtime);
        }
    }
}
